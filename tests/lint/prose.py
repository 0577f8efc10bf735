#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Comments, messages and pages are plain English: constructions that CONTRIBUTING ("Style") names are counted in each folder, and a count
may not exceed the ceiling in prose_ceilings.json.

prose.py [ROOT]             fails for a count above its ceiling
prose.py --lower [ROOT]     writes the present counts where they are below their ceilings; raises none
prose.py --figures [ROOT]   prints counts for 10,000 words
prose.py --show=NAME [ROOT] prints the places of one construction, by the name in the ceilings
"""
import json
import re
import sys

import _lint

# Each names a rule of CONTRIBUTING.
RULES = {
    "who": r"\b[Ww]ho(ever|m|se)?\b",
    "what": r"(?m:^|[.,;:(] )[Ww]hat\b",
    "somebody": r"\b([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b",
    "he": r"\b([Hh]e|[Hh]im|[Hh]is)\b",
    "give back": r"\b([Gg]ives?|[Gg]iven|[Gg]ave|[Gg]iving) back\b",
    "verbless": r"(?m:^|[.] )(Of|As|By) [a-z`]",
    "is none": r"\b(is|are) none\b",
    "so many": r"\b(so many|so much|as many|as much)\b",
    "then.": r"\bthen[.;]",
}
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
STRING = re.compile(r'(?<!#include )"((?:\\.|[^"\\\n])*)"')
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def comments(text):
    """The words of comments, line by line; strings that look like comments are left out."""
    found = [c for c in COMMENT.findall(text) if not c.startswith('"') and "SPDX" not in c]
    return "\n".join(re.sub(r"^[/*!<]+ ?", "", c) for c in found)


def messages(text):
    """The strings of a file that are sentences."""
    code = re.sub(r"^\s*#.*$|//[^\n]*", "", text, flags=re.M)
    return "\n".join(s for s in STRING.findall(code) if s.count(" ") >= 2)


def page(text):
    return re.sub(r"`[^`\n]*`", "`", FENCE.sub("", text))


def texts(top):
    """Pairs of a folder and the pieces of prose in it: (path, text)."""
    library = top / "include" / "cuota"
    layers = sorted(p for p in library.iterdir() if p.is_dir()) if library.exists() else []
    for layer in layers:
        umbrella = layer.with_suffix(".hpp")
        sources = [p for p in [*_lint.files(layer), *[umbrella] * umbrella.exists()] if p.suffix in (".hpp", ".cpp", ".h")]
        yield f"include/cuota/{layer.name}", [(p, comments(p.read_text())) for p in sources]
        yield f"include/cuota/{layer.name}, messages", [(p, messages(p.read_text())) for p in sources]
    for folder in ("examples", "tests", "bench"):
        sources = [p for p in _lint.files(top / folder) if p.suffix in (".hpp", ".cpp", ".cu")] if (top / folder).exists() else []
        yield folder, [(p, comments(p.read_text())) for p in sources]
    pages = sorted((top / "docs").rglob("*.md")) if (top / "docs").exists() else []
    yield "docs", [(p, page(p.read_text())) for p in pages]
    for name in ("README.md", "CONTRIBUTING.md"):
        yield name, [(p, page(p.read_text())) for p in [top / name] if p.exists()]


def main():
    top = _lint.root()
    ceilings_file = top / "tests" / "lint" / "prose_ceilings.json"
    ceilings = json.loads(ceilings_file.read_text()) if ceilings_file.exists() else {}
    shown = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--show=")]
    findings, counts, words = [], {}, {}
    for folder, pieces in texts(top):
        counts[folder] = {name: sum(len(re.findall(rule, text)) for _, text in pieces) for name, rule in RULES.items()}
        words[folder] = sum(len(re.findall(r"[A-Za-z']+", text)) for _, text in pieces)
        for path, text in pieces if shown else []:
            for line in text.split("\n"):
                if re.search(RULES[shown[0]], line):
                    print(f"{path.relative_to(top)}: {line.strip()}")
        for name, count in counts[folder].items():
            ceiling = ceilings.get(folder, {}).get(name, 0)
            if count > ceiling:
                findings.append(f"{folder}: {name!r} occurs {count} times, {ceiling} are allowed; "
                                f"`tests/lint/prose.py '--show={name}'` shows them, CONTRIBUTING says what to write instead")
    if shown:
        return
    if "--figures" in sys.argv:
        print(f"{'for 10,000 words':30}{'words':>8}" + "".join(f"{name:>10}" for name in RULES))
        for folder, found in counts.items():
            if words[folder]:
                print(f"{folder:30}{words[folder]:8}" + "".join(f"{1e4 * n / words[folder]:10.1f}" for n in found.values()))
        return
    if "--lower" in sys.argv:
        known = bool(ceilings)
        lowered = {folder: {name: min(n, ceilings.get(folder, {}).get(name, 0) if known else n) for name, n in found.items()}
                   for folder, found in counts.items()}
        ceilings_file.write_text(json.dumps(lowered, indent=1) + "\n")
        return
    _lint.finish(findings)


main()
