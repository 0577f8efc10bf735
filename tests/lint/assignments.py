#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No operator= takes its own class by value: in a template, clang 14 does not destroy the argument of `object = {}`."""
import re

import _lint

root = _lint.root()
findings = []
for path in sorted((root / "include").rglob("*.hpp")):
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if re.search(r"\b(\w+)& operator=\(\1(<[^&]*>)? \w+\)", text):
            findings.append(f"{path.relative_to(root)}:{number}: operator= takes its argument by value: see docs/design/compilation.md")
_lint.finish(findings)
