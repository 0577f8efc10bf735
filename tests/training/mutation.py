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
import sys

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from mutating import Build, chosen_of, notices, option, outcome, take_out, without_mutation, words  # noqa: E402

MODES = {"late:1": {"CUOTA_SIM_SCHEDULE": "late:1"}, "strict": {"CUOTA_SIM_CHECKS": "strict"}}
PATHS = {path.name: path for path in HERE.rglob("*.cpp")}
EVERYTHING = "*"


def ends(program, modes=MODES):
    """How all tests of a program end, by the first mode that notices something."""
    for name in ["", *modes]:
        end = outcome(program, EVERYTHING, MODES.get(name, {}))
        if end != "passed":
            return f"{end} {name}".strip()
    return "passed"


chosen = chosen_of(MUTATIONS)
build = Build(option("commands"), "test-training") if chosen else None
take_out(chosen, int(option("jobs", str(os.cpu_count() or 1))),
         lambda m: notices(build, m, PATHS.get, lambda program: ends(program, m.modes)),
         [] if words() else without_mutation(build, MUTATIONS, PATHS.get, ends))
