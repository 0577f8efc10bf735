#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The library, with its definitions, and the examples, which have declarations only, also compile, without a warning, by the compiler
that this build does not use. With CUOTA_LINT_SHORT in the environment, only the library does; and if the other compiler is clang, that is
left to tidy.py, which reports the same warnings.

other_compiler.py --commands=FILE [--system=FOLDER] [--without=SOURCE,...] [--only=SOURCE] [ROOT]
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

import _lint

root = _lint.root().resolve()
line = _lint.compile_line()
other = "g++" if "clang" in os.path.basename(line[0]) else "clang++"
if not shutil.which(other):
    print(f"SKIPPED: other_compiler needs {other}, which is not here")
    sys.exit(77)
if other == "clang++" and os.environ.get("CUOTA_LINT_SHORT") and not _lint.option("only") and _lint.clang_tidy()[0]:
    print("SKIPPED: examples by clang++ (not in the short form of make lint); the library by clang++: tidy.py compiles it")
    sys.exit(77)
by_other = _lint.by_clang(line) if other == "clang++" else [other, *line[1:]]
if _lint.option("system"):  # where Thrust is found
    by_other += ["-isystem", _lint.option("system")]


def check(source, *more):
    run = subprocess.run([*by_other, *more, f"-I{root}/include", "-fsyntax-only", source], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    return f"{source.relative_to(root)} does not compile by {other}:\n{run.stdout}" if run.returncode else None


def check_example(source):
    return check(source, "-DCUOTA_SEPARATE_COMPILATION=1", *precompiled)


def precompile(folder):
    """Options for the headers that all examples read, which clang++ loads in a tenth of the time that it takes to read them. That an
    example includes what it uses, the build's compiler shows."""
    if other != "clang++":
        return []
    headers = f"{folder}/all.pch"
    run = subprocess.run([*by_other, "-DCUOTA_SEPARATE_COMPILATION=1", f"-I{root}/include", "-x", "c++-header", f"{root}/include/cuota/all.hpp", "-o", headers],
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ["-include-pch", headers] if run.returncode == 0 else []  # then each example says what is wrong


only = _lint.option("only")
sources = [root / only] if only else [root / "tests" / "odr.cpp", *sorted((root / "examples").rglob("*.cpp"))]
if os.environ.get("CUOTA_LINT_SHORT") and not only:
    sources = sources[:1]
without = [name for name in (_lint.option("without") or "").split(",") if name]
sources = [source for source in sources if source.name not in without]
print(*(f"SKIPPED: {name}" for name in without), sep="\n")
examples = [source for source in sources if "examples" in source.relative_to(root).parts]
with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    others = pool.map(check, [source for source in sources if source not in examples])
    precompiled = precompile(folder) if examples else []
    findings = [finding for finding in [*others, *pool.map(check_example, examples)] if finding]
_lint.finish(findings)
