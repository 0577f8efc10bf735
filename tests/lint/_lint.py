# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What the lints share: which tree, which files, how a finding is told."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

FOLDERS = ["core", "runtime", "resource", "guard", "pool", "buffer", "data", "training", "report", "interop"]
NOT_OURS = {".git", "build", "__pycache__"}


def root():
    """The tree to check: the first argument that is not an option, else the one this script stands in."""
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    return pathlib.Path(named[0]) if named else pathlib.Path(__file__).resolve().parents[2]


def files(top):
    """All files of the project, without what was built."""
    for path in sorted(top.iterdir()):
        if path.name in NOT_OURS:
            continue
        if path.is_dir():
            yield from files(path)
        elif path.is_file() and path.suffix != ".pyc":
            yield path


def headers(top):
    """The headers, as paths below include/cuota. Those of simulator/ belong to its sources; its public header is simulator.hpp."""
    base = top / "include" / "cuota"
    for path in sorted(base.rglob("*.hpp")):
        name = path.relative_to(base).as_posix()
        if not name.startswith("simulator/"):
            yield name


def code(text):
    """The text with comments and string literals blanked, line numbers unchanged."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def option(name):
    return next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith(f"--{name}=")), None)


def compile_line():
    """The compiler and its flags for tests/odr.cpp, by the compile_commands.json that --commands names, every file with its
    own definitions."""
    entries = json.loads(pathlib.Path(option("commands")).read_text())
    entry = next(e for e in entries if e["file"].endswith("tests/odr.cpp"))
    own = f"-I{pathlib.Path(entry['file']).parents[1] / 'include'}"  # the tree under check puts in its own
    words = iter(shlex.split(entry["command"]))
    line = []
    for word in words:
        if word in ("-o", "-x", "-c", "-MF", "-MT"):
            next(words)
        elif word not in ("-MD", "-DCUOTA_SEPARATE_COMPILATION=1", own):
            line.append(word)
    return line


def by_clang(line):
    """The same for clang++: without what only g++ knows, how it uses its memory."""
    return ["clang++", *[word for word in line[1:] if not word.startswith("--param=")]]


def clang_tidy():
    """The path of clang-tidy 14, or None, and the words for what is here instead."""
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else "none"
    return (tool, "") if re.search(r"version 14\.", version) else (None, " ".join(version.split()[:5]))


def finish(findings):
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(bool(findings))
