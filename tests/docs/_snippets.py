#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/*.md and README.md, and who vouches for each. Writes them out for tests/docs to include.

_snippets.py OUTPUT ROOT          writes them out
_snippets.py --fill SEEN ROOT     puts what programs printed (CUOTA_SNIPPETS_SEEN=SEEN) into the pages' `text` blocks

What stands behind a block's three backquotes says what it is:

    cpp NAME          a snippet: some file of tests/docs includes "PAGE/NAME.inc", and runs it
    cpp PATH          a part of that file, line for line (as examples/first.cpp)
    cpp rmm NAME      another library's code, which is compiled nowhere here; it is listed
    diff PATH PATH    parts of the difference of two files, in their order; a line that begins with @@ separates parts
    text NAME         what the snippet of that name prints: check_prints("PAGE/NAME", ...) compares it
    text PATH         what that program prints; a script of tests/examples names the same path
    text made-up      neither; what it shows differs from run to run
    cmake, sh, ...    no C++. tests/docs/ten_minutes.py runs those of docs/ten_minutes.md, nvcc_and_simulator.py those of
                      docs/no_gpu.md that link by hand

OUTPUT/PAGE/NAME.inc counts its lines from 1 and calls itself NAME.cpp, so that a place in a message means a line of the
snippet. `int main()` becomes `void main_of_NAME()`. OUTPUT/PAGE/NAME.txt is what it shall print.
"""
import pathlib
import re
import sys

FOREIGN = {"rmm"}
PLAIN = {"cmake", "sh"}
COLUMNS = 104  # of a page's code, as a browser shows it beside the list of pages


def pages(root):
    return [*sorted((root / "docs").glob("*.md")), root / "README.md"]


def blocks(page):
    """Of each block: the words behind its backquotes, its text, and its line in the page."""
    text = page.read_text()
    for found in re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, re.M | re.S):
        yield found[1].split(), found[2], text.count("\n", 0, found.start()) + 1


def collect(root):
    """What to write: {path: text}; the foreign blocks; and what is wrong, as findings."""
    written, foreign, findings = {}, [], []
    code = {}
    for path in sorted((root / "tests" / "docs").glob("*.cpp")):
        code[path.name] = path.read_text()
    included = set(re.findall(r'^#include "([\w/]+)\.inc"', "\n".join(code.values()), re.M))
    compared = set(re.findall(r'\bcheck_prints\(\s*"([\w/]+)"', "\n".join(code.values())))
    drivers = "\n".join(p.read_text() for p in (root / "tests" / "examples").glob("*.py"))
    snippets, outputs = set(), set()
    for page in pages(root):
        for words, text, line in blocks(page):
            where = f"{page.relative_to(root)}:{line}"
            kind, name = (words + ["", ""])[:2]
            known = f"{page.stem}/{name}"
            if kind in ("cpp", "diff") and page.parent != root:
                findings += [f"{page.relative_to(root)}:{line + at}: {len(one)} columns, more than {COLUMNS}"
                             for at, one in enumerate(text.splitlines(), 1) if len(one) > COLUMNS]
            if kind == "cpp" and len(words) == 3 and name in FOREIGN:
                foreign.append(f"{where}: {words[2]}, of {name}")
            elif kind == "cpp" and "/" in name:
                if not (root / name).exists() or text not in (root / name).read_text():
                    findings.append(f"{where}: these lines do not stand in {name}")
            elif kind == "diff" and len(words) == 3 and all((root / one).exists() for one in words[1:]):
                if part := lagging_part(text, *((root / one).read_text() for one in words[1:])):
                    findings.append(f"{where}: not a difference of {name} and {words[2]}:\n{part}")
            elif kind == "cpp" and re.fullmatch(r"[a-z]\w*", name) and len(words) == 2:
                if known in snippets:
                    findings.append(f"{where}: a second snippet {name} on this page")
                if known not in included:
                    findings.append(f'{where}: no file of tests/docs includes "{known}.inc": the snippet would not be compiled')
                snippets.add(known)
                body = re.sub(r"^int main\(\)", f"void main_of_{name}()", text, flags=re.M)
                written[f"{known}.inc"] = f'#line 1 "docs/{page.stem}/{name}.cpp"\n{body}'
            elif kind == "text" and name == "made-up":
                pass
            elif kind == "text" and "/" in name:
                if name not in drivers:
                    findings.append(f"{where}: no script of tests/examples compares what {name} prints")
            elif kind == "text" and name and len(words) == 2:
                if known not in compared:
                    findings.append(f'{where}: no file of tests/docs has check_prints("{known}", ...): nothing would be compared')
                outputs.add(known)
                written[f"{known}.txt"] = text
            elif kind not in PLAIN or len(words) != 1:
                findings.append(f"{where}: a block that nobody vouches for: ```{' '.join(words)}")
    findings += [f"tests/docs includes {name}.inc, and no page has it" for name in sorted(included - snippets)]
    findings += [f'tests/docs has check_prints("{name}", ...), and no page shows it' for name in sorted(compared - outputs)]
    return written, foreign, findings


def lagging_part(diff, before, after):
    """The first part of a diff that is not a difference of the two texts; None if all parts are. Lines with "-" or " " stand together in
    `before`, those with "+" or " " in `after`, and each part has lines of both."""
    rest = [f"\n{before}", f"\n{after}"]
    for part in filter(None, re.split(r"^@@.*\n", diff, flags=re.M)):
        if not re.fullmatch(r"(?:(?:[-+ ].*)?\n)+", part):
            return part
        for side, sign in enumerate("-+"):
            lines = [line[1:] for line in part.splitlines() if line[:1] in ("", " ", sign)]
            _, found, tail = rest[side].partition("".join(f"\n{line}" for line in lines) + "\n") if lines else ("", "", "")
            if not found:
                return part
            rest[side] = f"\n{tail}"
    return None


def write(output, written):
    """Only what has changed. The stamp is new when code is, and no sooner: what is compiled depends on it."""
    stamp = output / "stamp"
    for name, text in written.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            if name.endswith(".inc"):
                stamp.unlink(missing_ok=True)
    if not stamp.exists():
        stamp.touch()
    for path in output.rglob("*.*"):
        if path.is_file() and path.relative_to(output).as_posix() not in written:
            path.unlink()


def fill(seen, root):
    for page in pages(root):
        def block(found):
            path = seen / page.stem / f"{found[1]}.txt"
            return f"```text {found[1]}\n{path.read_text()}```" if path.exists() else found[0]
        page.write_text(re.sub(r"^```text (\w+)\n.*?^```$", block, page.read_text(), flags=re.M | re.S))


if __name__ == "__main__":
    if sys.argv[1] == "--fill":
        fill(*map(pathlib.Path, sys.argv[2:]))
        sys.exit()
    output, root = map(pathlib.Path, sys.argv[1:])
    written, _, findings = collect(root)
    output.mkdir(parents=True, exist_ok=True)
    if findings:
        (output / "stamp").unlink(missing_ok=True)
    else:
        write(output, written)
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(bool(findings))
