#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one measure against a lack of memory after another out of the library; the programs beside an adversary must then fail.

    make mutate                                     all of them
    mutation.py --commands=FILE [--jobs=N] WORD...  those whose rule or header has one of the words

Each mutation replaces a piece of text, which must be there exactly once, in a copy of a header that is put before the real
one, and the test files that are named beside it are compiled anew. Failing, crashing and hanging count.
"""
import os
import pathlib
import sys

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import mutating  # noqa: E402
from mutating import Build, chosen_of, notices, option, outcome, take_out, without_mutation, words  # noqa: E402

mutating.HANGS_AFTER_S = 300  # 2,000 programs of each kind, beside compilers


def path_of(test):
    return HERE / test


def ends(program, programs=300):
    return outcome(program, "*", {"CUOTA_ADVERSARY": str(programs)})


chosen = chosen_of(MUTATIONS)
build = Build(option("commands"), "test-programs") if chosen else None
take_out(chosen, int(option("jobs", str(os.cpu_count() or 1))),
         lambda m: notices(build, m, path_of, lambda program: ends(program, m.programs)),
         [] if words() else without_mutation(build, MUTATIONS, path_of, ends))
