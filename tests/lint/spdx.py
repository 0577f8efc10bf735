#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every file says whose it is and under which licence, in two lines at its top."""
import re

import _lint

# These have no comments, are the licence itself, or what a parser is given.
EXEMPT = re.compile(r"(\.(json|md|csv|npy|gz|bin|png|svg)|(^|/)LICENSE|(^|/)tests/fuzz/corpus/.*)$")
LINES = ["SPDX-FileCopyrightText: 2026 The cuota authors", "SPDX-License-Identifier: Apache-2.0"]

root = _lint.root()
findings = []
for path in _lint.files(root):
    name = path.relative_to(root).as_posix()
    if EXEMPT.search(name):
        continue
    top = path.read_text(errors="replace").splitlines()[:6]
    findings += [f"{name}: no line '{line}' at its top" for line in LINES
                 if not any(re.fullmatch(rf"(//|#) {re.escape(line)}", one) for one in top)]
_lint.finish(findings)
