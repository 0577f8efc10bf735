#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one source that compiles several test files together, each in a namespace of its own.

batch.py OUTPUT SOURCE...

What they include comes first, so that within the namespaces nothing is left to include; but parts of a file (.inc) stay.
"""
import pathlib
import re
import sys

output, *sources = map(pathlib.Path, sys.argv[1:])
includes = {}  # in order, each once
for source in sources:
    includes |= dict.fromkeys(re.findall(r'^ *# *include *[<"][^\n]*?(?<!\.inc)[>"]', source.read_text(), flags=re.M))
parts = [f'namespace {re.sub(r"[^a-z0-9]", "_", f"{source.parent.name}_{source.stem}")}_test {{\n#include "{source}"\n}}' for source in sources]
output.write_text("\n".join([*includes, *parts, ""]))
