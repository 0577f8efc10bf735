#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A virtual function that is declared in a class and defined below is CUOTA_INLINE_IN_PLACE, not CUOTA_INLINE. Compilers emit the
virtual table of a class where its first such function is defined. If that is inline in the file with the definitions, this file may
lack the table, and other files expect it there."""
import re

import _lint

CLASS = r"\b(?:class|struct)\s+(?P<opened>\w+)(?:\s+final)?\s*(?::[^;{}]*)?\{"
OVERRIDES = r"(?P<overrides>~?\w+)\s*\((?:[^;{}()]|\([^()]*\))*\)\s*(?:const\s*)?(?:noexcept\s*)?(?:override|final)\s*;"
VIRTUAL = r"\bvirtual\s+[^;{}=()]*?(?P<virtual>~?\w+)\s*\([^;{}]*?\)[^;{}=]*;"
DECLARED = re.compile(f"{CLASS}|{OVERRIDES}|{VIRTUAL}")


def declared(text):
    """Class and name of each virtual function that is declared without a body and is not pure."""
    last = None
    for found in DECLARED.finditer(text):
        if found["opened"]:
            last = found["opened"]
        elif last:
            yield last, found["overrides"] or found["virtual"]


root = _lint.root()
findings = []
for name in _lint.headers(root):
    text = _lint.code((root / "include" / "cuota" / name).read_text())
    for of, function in declared(text):
        for defined in re.finditer(rf"\bCUOTA_INLINE\s[^;{{}}]*?\b{of}::{re.escape(function)}\s*\(", text):
            line = text.count("\n", 0, defined.start()) + 1
            findings.append(f"include/cuota/{name}:{line}: {of}::{function} is virtual: CUOTA_INLINE_IN_PLACE")
_lint.finish(findings)
