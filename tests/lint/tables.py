#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Each row of a table in Markdown is one line and has the number of cells of the head; an empty line ends the table."""
import re

import _lint


def findings_in(name, text):
    head = None
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code = is_code != line.startswith("```")
        if is_code or not line.startswith("|"):
            if head is not None and line.strip():
                yield f"{name}:{number}: this line follows a table without an empty line between them"
            head = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        head = cells if head is None else head
        if cells != head:
            yield f"{name}:{number}: this row has {cells} cells, and the table's head {head}"


root = _lint.root()
pages = [path for path in _lint.files(root) if path.suffix == ".md"]
_lint.finish([finding for path in pages for finding in findings_in(path.relative_to(root).as_posix(), path.read_text())])
