#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The sources are as clang-format 14 with .clang-format leaves them. --list prints the files instead; --only=FILE looks at one."""
import collections
import re
import shutil
import subprocess
import sys

import _lint

root = _lint.root()
only = _lint.option("only")
sources = [str(p) for p in ([root / only] if only else _lint.files(root)) if p.suffix in (".hpp", ".cpp", ".cu", ".cuh")]
if "--list" in sys.argv:
    print(*sources, sep="\n")
    sys.exit(0)

tool = shutil.which("clang-format-14") or shutil.which("clang-format")
version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else "none"
if not re.search(r"version 14\.", version):
    print(f"SKIPPED: format needs clang-format 14, here is {version.strip()}")
    sys.exit(77)
run = subprocess.run([tool, "--dry-run", "-Werror", *sources], capture_output=True, text=True)
findings = collections.Counter(re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, flags=re.M))
_lint.finish([f"{file}: {count} places; make format" for file, count in sorted(findings.items())]
             or ([run.stderr] if run.returncode else []))
