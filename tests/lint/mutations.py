#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What `make mutate` takes out of the simulator stands there, once: else a rule would go on untested without a word."""
import runpy

import _lint

root = _lint.root()
rules = root / "tests" / "simulator" / "mutations.py"
findings = []
if rules.exists():
    for rule in runpy.run_path(str(rules))["MUTATIONS"]:
        for name, text, _ in rule.edits:
            source = root / "include" / "cuota" / "simulator" / name
            times = source.read_text().count(text) if source.exists() else 0
            if times != 1:
                findings.append(f"{rules.name}: {rule.rule!r} takes out of {name} what stands there {times} times: {text!r}")
_lint.finish(findings)
