#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md is true: its resource is the tested one; targets of make, lints and the steps of CI are those that there are."""
import re

import _lint

root = _lint.root()
page = (root / "CONTRIBUTING.md").read_text()
findings = []

tested = re.findall(r"^// ---- shown in CONTRIBUTING\.md\n(.*?)^// ---- to here$",
                    (root / "tests" / "resource" / "own_resource.cpp").read_text(), re.M | re.S)
if len(tested) != 1 or re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S) != tested:
    findings.append("CONTRIBUTING.md: its resource is not the one of tests/resource/own_resource.cpp, line for line")

targets = re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M)
for named in sorted(set(re.findall(r"`make ([a-z]+)`", page)) - set(targets)):
    findings.append(f"CONTRIBUTING.md: there is no make {named}")

lints = sorted(path.stem for path in (root / "tests" / "lint").glob("[a-z]*.py"))
told = re.findall(r"^\| `(\w+)` \|", page, re.M)
if told != lints:
    findings.append(f"CONTRIBUTING.md: its lints are not those of tests/lint: {sorted(set(told) ^ set(lints)) or 'out of order'}")

steps = re.search(r"^steps=\((.*)\)$", (root / ".ci" / "run").read_text(), re.M)[1]
if f"`make` of `{steps}`" not in page:
    findings.append(f"CONTRIBUTING.md: CI runs {steps}")
_lint.finish(findings)
