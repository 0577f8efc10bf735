#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No file names a place that exists on one machine only: a home folder, a mount, a folder beside the checkout."""
import re

import _lint

# Brackets keep this file from finding itself. The home of "me" is the made-up one in the messages of tests.
FOREIGN = re.compile(r"(?<![\w.$}/-])/([h]ome(?!/me/)|[U]sers|[r]oot|[w]ork|[w]orkspaces?|[m]nt)(/|\b)|\.\./[s]hared\b|\.[l]ibrary\b")

root = _lint.root()
findings = []
for path in _lint.files(root):
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        continue  # data, not text
    findings += [f"{path.relative_to(root)}:{number}: {found[0]}" for number, line in enumerate(lines, 1)
                 if (found := FOREIGN.search(line))]
_lint.finish(findings)
