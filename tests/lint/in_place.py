#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A file that includes all.hpp, with all definitions in place, and uses nothing has no symbol in its object file, and no class outside of
CUOTA_VIEWS has a view as a member, by g++'s -Wabi-tag in a build with checked views. virtual_functions.py and checked_views.py have the reasons.
One lint checks both, because the compiler takes 15 s to read these headers.

in_place.py --commands=FILE [--only=HEADER] [ROOT]

--only: that header is compiled in place of all.hpp.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import _lint

root = _lint.root()
header = _lint.option("only") or "all.hpp"
line = [word for word in _lint.compile_line() if not word.startswith("-W")]
is_gnu = "Free Software Foundation" in subprocess.run([line[0], "--version"], capture_output=True, text=True).stdout
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder) / "all.cpp"
    source.write_text(f"#include <cuota/{header}>\n")
    made = subprocess.run([*line, f"-I{root}/include", "-DCUOTA_CHECKED=1", *["-Wabi-tag"] * is_gnu, "-O1", "-g0", "-c", source, "-o", source.with_suffix(".o")],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        sys.exit(made.stdout)
    symbols = subprocess.run(["nm", "--demangle", "--defined-only", source.with_suffix(".o")], capture_output=True, text=True,
                             check=True).stdout.splitlines()
findings = [f"a file that includes {header} and uses nothing emits {len(symbols)} symbols, as {symbols[0]}"] if symbols else []
# The members of both forms are the same, but for what only checked views have.
for where, what in sorted(set(re.findall(r'include/cuota/(\S+?:\d+):\d+: warning: (.*?) does not have the "checked_views" ABI tag', made.stdout))):
    if "checked_views::" not in what:
        findings.append(f"include/cuota/{where}: {what} has a view as a member, outside of CUOTA_VIEWS")
if not is_gnu:
    print("SKIPPED: whether a class outside of CUOTA_VIEWS has a view as a member: it needs g++")
_lint.finish(findings)
