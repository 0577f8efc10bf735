#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A message's pattern has as many "{}" as the call has values: message, append_message, throw_usage_error and throw_data_error."""
import re

import _lint

CALL = re.compile(r"\b(?:append_message|message|throw_usage_error|throw_data_error)\(")
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//[^\n]*|[()\[\]{},]|[^"\'()\[\]{},/]+|.', re.S)


def arguments(text, at):
    """The arguments of the call whose first one begins there, as lists of tokens: commas inside brackets part none."""
    parts, depth = [[]], 0
    for token in TOKEN.finditer(text, at):
        token = token[0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            if depth == 0:
                return parts
            depth -= 1
        if token == "," and depth == 0:
            parts.append([])
        elif not token.startswith("//"):
            parts[-1].append(token)
    return parts


def values_of(tokens):
    """How many values a brace-enclosed list has; None of what is none."""
    inside = "".join(tokens).strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        return None
    return len([part for part in arguments(inside, 1) if "".join(part).strip()])


root = _lint.root()
findings = []
for path in sorted((root / "include" / "cuota").rglob("*.hpp")):
    text = path.read_text()
    for call in CALL.finditer(text):
        parts = arguments(text, call.end())
        at = next((i for i, part in enumerate(parts) if "".join(part).strip().startswith('"')), None)
        if at is None:
            continue  # a declaration, or a pattern that is no literal
        pattern = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', "".join(parts[at])))
        given = values_of(parts[at + 1]) if at + 1 < len(parts) else 0
        if given is not None and given != pattern.count("{}"):
            line = text.count("\n", 0, call.start()) + 1
            findings.append(f'{path.relative_to(root)}:{line}: {given} values for {pattern.count("{}")} places in "{pattern}"')
_lint.finish(findings)
