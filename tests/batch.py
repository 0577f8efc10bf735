#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one source that compiles several test files together, each in a namespace of its own.

batch.py [--threads-only] OUTPUT SOURCE...

What they include comes first, so that within the namespaces nothing is left to include; but parts of a file (.inc) stay.

--threads-only leaves out tests that start no threads. A test starts threads if it names std::thread or the loader, or a function or class of its
file, or of the tests' headers that the file includes, that does. A file of which no test is found to do so stays whole.
"""
import pathlib
import re
import sys

STARTS_THREADS = re.compile(r"\bstd::(?:jthread|thread|async)\b|\bbatch_loader\b")
TEST = re.compile(r"(?:TEMPLATE_)?TEST_CASE")
TESTS = pathlib.Path(__file__).resolve().parent


def definitions(text):
    """The text in pieces: each definition at the top level or in a namespace, and each line between them. The text is formatted: a definition
    begins in the first column, and ends with the next closing brace there, or with its first statement if that has no block."""
    found, begun = [], None
    shape = re.sub(r'R"(\w*)\(.*?\)\1"', lambda raw: re.sub(r"[^\n]", "x", raw[0]), text, flags=re.S)  # such a string may have any line
    for line, own in zip(shape.splitlines(keepends=True), text.splitlines(keepends=True), strict=True):
        if begun is None and (not re.match(r"[A-Za-z_\[]", line) or line.startswith("namespace ")):
            found.append(own)
            continue
        begun = (begun or "") + own
        is_one_line = begun == own and re.match(r"\S.*[;}]\s*(?://.*)?$", line)
        if line.startswith("}") or is_one_line or (line.rstrip().endswith(";") and "{" not in begun):
            found.append(begun)
            begun = None
    return found + [begun] * (begun is not None)


def name_of(definition):
    """The name that a definition declares, or None."""
    begin = re.split(r"[({=;]", re.sub(r"\[\[.*?\]\]|^template <[^\n]*\n", "", definition), maxsplit=1)[0]
    named = re.search(r"\b(?:struct|class|using|namespace)\s+(\w+)", begin) or re.search(r"(\w+)\s*$", begin)
    return named and named[1]


def reached(source, seen=None):
    """The headers of the tests that a file includes, and those that these include."""
    seen = {} if seen is None else seen
    for name in re.findall(r'^ *# *include *"([^\n]*?\.hpp)"', source.read_text(), flags=re.M):
        for folder in (source.parent, TESTS):
            header = folder / name
            if header.is_file() and header not in seen:
                seen[header] = None
                reached(header, seen)
    return list(seen)


def only_with_threads(source):
    """The text of a test file with empty lines in place of tests that start no threads."""
    parts = definitions(source.read_text())
    helpers = [one for header in reached(source) for one in definitions(header.read_text())]
    helpers += [one for one in parts if not TEST.match(one)]
    names = set()

    def starts_threads(definition):
        return STARTS_THREADS.search(definition) or names & set(re.findall(r"\w+", definition))

    while more := {name for one in helpers if starts_threads(one) and (name := name_of(one)) and name not in names}:
        names |= more
    tests = [one for one in parts if TEST.match(one)]
    if not any(map(starts_threads, tests)):
        return "".join(parts)
    return "".join("\n" * one.count("\n") if TEST.match(one) and not starts_threads(one) else one for one in parts)


def main(words):
    threads_only = "--threads-only" in words
    output, *sources = (pathlib.Path(word) for word in words if not word.startswith("--"))
    includes = {}  # in order, each once
    parts = ['#pragma GCC diagnostic ignored "-Wunused-function"'] if threads_only else []
    for source in sources:
        includes |= dict.fromkeys(re.findall(r'^ *# *include *[<"][^\n]*?(?<!\.inc)[>"]', source.read_text(), flags=re.M))
        text = f'#line 1 "{source}"\n{only_with_threads(source)}' if threads_only else f'#include "{source}"'
        parts.append(f'namespace {re.sub(r"[^a-z0-9]", "_", f"{source.parent.name}_{source.stem}")}_test {{\n{text}\n}}')
    output.write_text("\n".join([*includes, *parts, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
