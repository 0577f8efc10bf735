#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one measure after another out of the library, and wants the programs beside an adversary to fail.

    make mutate                                     all of them
    mutation.py --commands=FILE [--jobs=N] WORD...  those whose rule or header has one of the words

Each mutation replaces a piece of text, which must be there exactly once, in a copy of a header that is put before the real
one, and the test files that are named beside it are compiled anew. Failing, crashing and hanging count.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import mutating  # noqa: E402
from mutating import Build, Verdict, apply, option, outcome, take_out, words  # noqa: E402

INCLUDE = HERE.parents[1] / "include" / "cuota"
mutating.HANGS_AFTER_S = 180  # as many programs as in CI, beside compilers
NOTICED = ("failed", "crashed", "hung")


def ends(program, programs=300):
    return outcome(program, "*", {"CUOTA_ADVERSARY": str(programs)})


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
            program, wrong = build.program(folder, [HERE / test], folder)
            if wrong:
                return Verdict(m.rule, False, "does not compile: " + wrong[-2000:])
            said.append(f"{test} {ends(program, m.programs)}")
            if said[-1].split()[1] in NOTICED:
                return Verdict(m.rule, True, said[-1])
        return Verdict(m.rule, False, "; ".join(said))


def without_mutation(build):
    """The programs must pass, built the same way with nothing taken out."""
    findings = []
    for test in sorted({test for m in MUTATIONS for test in m.tests}):
        program, wrong = build.program(pathlib.Path(build.kept.name), [HERE / test])
        end = wrong or ends(program)
        findings += [] if end == "passed" else [f"{test} {end} with nothing taken out"]
    return findings


build = Build(option("commands"), "test-programs")
chosen = [m for m in MUTATIONS if not words() or any(w in text for w in words() for text in [m.rule, *(name for name, _, _ in m.edits)])]
take_out(chosen, int(option("jobs", str(os.cpu_count() or 1))), lambda m: try_out(build, m), [] if words() else without_mutation(build))
