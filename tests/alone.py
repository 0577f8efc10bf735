#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every test file compiles with what it includes itself: a build compiles several together, and another build others.

alone.py --commands=FILE [--jobs=N] [ROOT]

FILE: the compile_commands.json of a build configured with CUOTA_TEST_BATCH=1, in which the precompiled headers are made.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lint"))
import _lint  # noqa: E402


def check(entry):
    words = shlex.split(entry["command"])
    at = words.index("-o")
    del words[at:at + 2]
    words[words.index("-c")] = "-fsyntax-only"
    run = subprocess.run(words, cwd=entry["directory"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    name = pathlib.Path(entry["file"]).relative_to(tests)
    return f"{name} does not compile alone:\n{run.stdout}" if run.returncode else None


tests = _lint.root().resolve() / "tests"
entries = [e for e in json.loads(pathlib.Path(_lint.option("commands")).read_text()) if tests in pathlib.Path(e["file"]).parents]
if len(entries) < 100:
    sys.exit(f"{len(entries)} files of {tests} in {_lint.option('commands')}: not a build with CUOTA_TEST_BATCH=1")
with concurrent.futures.ThreadPoolExecutor(int(_lint.option("jobs") or os.cpu_count())) as pool:
    results = list(pool.map(check, entries))
print(f"{len(entries)} files")
_lint.finish([r for r in results if r])
