#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The library passes clang-tidy 14, by .clang-tidy, and has no warning of clang's: all that tests/odr.cpp includes. `make tidy` also looks at the examples.

tidy.py --commands=FILE [--only=SOURCE] [ROOT]
"""
import subprocess
import sys

import _lint

root = _lint.root().resolve()
tool, instead = _lint.clang_tidy()
if not tool:
    print("SKIPPED: tidy needs clang-tidy 14, here is", instead)
    sys.exit(77)
line = _lint.by_clang(_lint.compile_line())[1:]
source = root / (_lint.option("only") or "tests/odr.cpp")
run = subprocess.run([tool, "--quiet", f"--config-file={root}/.clang-tidy", source, "--", f"-I{root}/include",
                      *[word for word in line if not word.endswith("odr.cpp")]], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
_lint.finish([run.stdout] if run.returncode else [])
