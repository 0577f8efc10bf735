#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No block of the documentation is there on trust: C++ is compiled and run, outputs are compared. See docs/_snippets.py."""
import runpy

import _lint

root = _lint.root()
_, foreign, findings = runpy.run_path(str(root / "tests" / "docs" / "_snippets.py"))["collect"](root)
print(*(f"not compiled: {block}" for block in foreign), sep="\n", end="\n" if foreign else "")
_lint.finish(findings)
