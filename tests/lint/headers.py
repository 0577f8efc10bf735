#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, included twice, with the flags of tests/odr.cpp.

headers.py --commands=FILE [--stamps=FOLDER] [--system=FOLDER] [--without=HEADER,...] [--only=HEADER] [ROOT]

With a stamp folder, a header is compiled again only when it, or something that it includes, is newer than its last success.
"""
import concurrent.futures
import os
import pathlib
import sys
import subprocess
import tempfile

import _lint


def fresh(stamp):
    """Whether nothing that the stamp's dependency list names has changed since."""
    if not stamp.exists():
        return False
    made = stamp.stat().st_mtime
    words = stamp.read_text().replace("\\\n", " ").split()[1:]
    try:
        return all(os.stat(word).st_mtime <= made for word in words)
    except FileNotFoundError:
        return False


def check(name):
    stamp = stamps / (name.replace("/", "-") + ".d")
    if fresh(stamp):
        return None
    source, new = stamp.with_suffix(".cpp"), stamp.with_suffix(".new")
    source.write_text(f"#include <cuota/{name}>\n#include <cuota/{name}>\n")
    run = subprocess.run([*line, f"-I{root}/include", "-MD", "-MT", "x", "-MF", new, "-fsyntax-only", source], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode:
        return f"{name} does not compile alone:\n{run.stdout}"
    new.replace(stamp)
    return None


root = _lint.root().resolve()
line = _lint.compile_line()
if _lint.option("system"):  # where what an opt-in header needs is found
    line += ["-isystem", _lint.option("system")]
scratch = tempfile.TemporaryDirectory()
stamps = pathlib.Path(_lint.option("stamps") or scratch.name)
stamps.mkdir(parents=True, exist_ok=True)
if not (stamps / "line").exists() or (stamps / "line").read_text() != repr(line):
    for old in stamps.glob("*.d"):
        old.unlink()
    (stamps / "line").write_text(repr(line))
without = (_lint.option("without") or "").split(",")
names = [_lint.option("only")] if _lint.option("only") else [n for n in _lint.headers(root) if n not in without]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(check, names))
print(f"{len(names)} headers", *(f"SKIPPED: {name}" for name in without if name), sep="\n")
_lint.finish([r for r in results if r])
