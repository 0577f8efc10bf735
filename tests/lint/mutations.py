#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What `make mutate` takes out stands there, once: else a rule would go on untested without a word."""
import pathlib
import runpy
import sys

import _lint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from mutating import places  # noqa: E402

root = _lint.root()
findings = []


def rules(folder):
    path = root / "tests" / folder / "mutations.py"
    return runpy.run_path(str(path))["MUTATIONS"] if path.exists() else []


def check(rule, folder, name, text):
    source = root / "include" / "cuota" / name
    times = len(places(source.read_text(), text)) if source.exists() else 0
    if times != 1:
        findings.append(f"tests/{folder}/mutations.py: {rule!r} takes out of {name} what stands there {times} times: {text!r}")


for mutation in rules("simulator"):
    for name, text, _ in mutation.edits:
        check(mutation.rule, "simulator", f"simulator/{name}", text)
readme = root / "tests" / "README.md"
told = readme.read_text() if readme.exists() else ""
for mutation in rules("data"):
    if mutation.rule not in told:
        findings.append(f"tests/README.md does not say that {mutation.rule!r} is taken out")
    for name, text, _ in mutation.edits:
        check(mutation.rule, "data", name, text)
for folder in ("training", "programs"):
    for mutation in rules(folder):
        for name, text, _ in mutation.edits:
            check(mutation.rule, folder, name, text)
for rule, name, text, _ in rules("model"):
    check(rule, "model", name, text)
_lint.finish(findings)
