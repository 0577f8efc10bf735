#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A virtual function that is declared in a class and defined below is CUOTA_INLINE_IN_PLACE in both places, not CUOTA_INLINE.
Compilers emit the virtual table of a class where its first such function is defined, if the declaration is not inline. With a definition
that is inline, the file with the definitions may lack the table, and other files expect it there. With a declaration that is not inline,
every file that includes headers with definitions emits the table and all functions that it reaches, as in_place.py looks for.

virtual_functions.py [ROOT]
"""
import re

import _lint

CLASS = r"\b(?:class|struct)\s+(?:CUOTA_\w+\s+)?(?P<opened>\w+)(?:\s+final)?\s*(?::[^;{}]*)?\{"
OVERRIDES = r"(?P<overrides>~?\w+)\s*\((?:[^;{}()]|\([^()]*\))*\)\s*(?:const\s*)?(?:noexcept\s*)?(?:override|final)\s*;"
VIRTUAL = r"\bvirtual\s+[^;{}=()]*?(?P<virtual>~?\w+)\s*\([^;{}]*?\)[^;{}=]*;"
DECLARED = re.compile(f"{CLASS}|{OVERRIDES}|{VIRTUAL}")


def declared(text):
    """Class, name and offset of each virtual function that is declared without a body and is not pure."""
    last = None
    for found in DECLARED.finditer(text):
        if found["opened"]:
            last = found["opened"]
        elif last:
            yield last, found["overrides"] or found["virtual"], found.start("overrides" if found["overrides"] else "virtual")


root = _lint.root()
findings = []
for name in _lint.headers(root):
    text = _lint.code((root / "include" / "cuota" / name).read_text())
    for of, function, at in declared(text):
        written = re.split(r"[;{}]|(?<!:):(?!:)", text[:at])[-1]
        if "CUOTA_INLINE_IN_PLACE" not in written:
            line = text.count("\n", 0, at) + 1
            findings.append(f"include/cuota/{name}:{line}: {of}::{function} is virtual: its declaration is CUOTA_INLINE_IN_PLACE")
        for defined in re.finditer(rf"\bCUOTA_INLINE\s[^;{{}}]*?\b{of}::{re.escape(function)}\s*\(", text):
            line = text.count("\n", 0, defined.start()) + 1
            findings.append(f"include/cuota/{name}:{line}: {of}::{function} is virtual: CUOTA_INLINE_IN_PLACE")
_lint.finish(findings)
