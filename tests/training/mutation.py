#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one rule after another out of training/, and wants a test of its header to fail.

    make mutate                                     all of them
    mutation.py --commands=FILE [--jobs=N] WORD...  those whose rule or header has one of the words

Each mutation replaces a piece of text, which must be there exactly once, in a copy of a header that is put before the real
one, and the test files that are named beside it are compiled anew. Failing, crashing and hanging count, and by which mode.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from mutating import Build, Verdict, apply, option, outcome, take_out, words  # noqa: E402

INCLUDE = HERE.parents[1] / "include" / "cuota"
MODES = {"late:1": {"CUOTA_SIM_SCHEDULE": "late:1"}, "strict": {"CUOTA_SIM_CHECKS": "strict"}}
PATHS = {path.name: path for path in HERE.rglob("*.cpp")}
NOTICED = ("failed", "crashed", "hung")
EVERYTHING = "*"


def ends(program, modes):
    """How all tests of a program end, by the first mode that notices something."""
    for name in ["", *modes]:
        end = outcome(program, EVERYTHING, MODES.get(name, {}))
        if end != "passed":
            return f"{end} {name}".strip()
    return "passed"


def try_out(build, m):
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        folder = pathlib.Path(where)
        for name in {name for name, _, _ in m.edits}:
            (folder / "cuota" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(INCLUDE / name, folder / "cuota" / name)
        if wrong := apply(m.edits, folder / "cuota"):
            return Verdict(m.rule, False, wrong)
        said = []
        for test in m.tests:
            program, wrong = build.program(folder, [PATHS[test]], folder)
            if wrong:
                return Verdict(m.rule, False, "does not compile: " + wrong[-2000:])
            said.append(f"{test} {ends(program, m.modes)}")
            if said[-1].split()[1] in NOTICED:
                return Verdict(m.rule, True, said[-1])
        return Verdict(m.rule, False, "; ".join(said))


def without_mutation(build):
    """The tests must pass, built the same way with nothing taken out."""
    findings = []
    for test in sorted({test for m in MUTATIONS for test in m.tests}):
        program, wrong = build.program(pathlib.Path(build.kept.name), [PATHS[test]])
        end = wrong or ends(program, MODES)
        findings += [] if end == "passed" else [f"{test} {end} with nothing taken out"]
    return findings


build = Build(option("commands"), "test-training")
chosen = [m for m in MUTATIONS if not words() or any(w in text for w in words() for text in [m.rule, *(name for name, _, _ in m.edits)])]
take_out(chosen, int(option("jobs", str(os.cpu_count() or 1))), lambda m: try_out(build, m), [] if words() else without_mutation(build))
