#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one guard after another out of the loader, and wants the test of its hazard to fail.

    make mutate                                     all of them
    mutation.py --commands=FILE [--tsan=FILE] [--jobs=N] WORD...   those whose rule, header or hazard has one of the words

Each mutation replaces pieces of text, each of which must be there exactly once, in copies of headers that are put before the
real ones; the tests/data/hazards_*.cpp that has the hazard is compiled anew. Failing, crashing and hanging all count; of a
test in tests/compile_fail, that its mistake compiles; of a static_assert, that it is refused. A guard that is a lock is taken
out under ThreadSanitizer, by the flags of another build (--tsan), and SKIPPED without one. Every hazard must be named by a
mutation: a test that cannot fail states nothing.
"""
import os
import pathlib
import re
import sys
import tempfile

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from mutating import NOTICED, Build, Verdict, mutated, option, outcome, take_out, words  # noqa: E402

FILES = sorted(HERE.glob("hazards_*.cpp"))
FILE_OF = {hazard: path for path in FILES for hazard in re.findall(r'TEST_CASE\(\s*"(H\d+):', path.read_text())}
MODES = [{}, {"CUOTA_SIM_CHECKS": "strict"}, {"CUOTA_SIM_SCHEDULE": "late:1"}]


def compiles_by_mistake(build, folder, test):
    """How a program that must not compile fares: compiled when nothing refuses it any more."""
    return "refused" if build.compile(HERE.parent / "compile_fail" / test, folder / "x.o", folder) else "compiled"


def try_out(build, m):
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        folder = pathlib.Path(where)
        if wrong := mutated(m.edits, folder):
            return Verdict(m.rule, False, wrong)
        ends = {}
        for test in m.tests:
            if test.endswith(".cpp"):
                ends[test] = compiles_by_mistake(build, folder, test)
                continue
            program, wrong = build.program(folder, [FILE_OF[test]], folder)
            if not wrong:
                ends[test] = outcome(program, f"{test}:*", m.environment)
            elif m.by_compiler and re.search("static assertion failed", wrong):
                ends[test] = "refused"
            else:
                return Verdict(m.rule, False, "does not compile: " + wrong[-2000:])
        wanted = {test: ("compiled",) if test.endswith(".cpp") else ("refused",) if m.by_compiler else NOTICED for test in m.tests}
        return Verdict(m.rule, all(end in wanted[test] for test, end in ends.items()),
                       "; ".join(f"{test} {end}" for test, end in ends.items()))


def without_mutation(build, modes):
    """All hazards' tests must pass, built the same way with nothing taken out, and by each mode."""
    folder = pathlib.Path(build.kept.name)
    program, wrong = build.program(folder, FILES)
    if wrong:
        return [wrong]
    return [f"{hazard} {end} with nothing taken out {mode}" for mode in modes for hazard in FILE_OF
            if (end := outcome(program, f"{hazard}:*", mode)) not in ("passed", "not run" if build is under_tsan else "passed")]


def is_chosen(m):
    texts = [m.rule, *(name for name, _, _ in m.edits)]
    return not words() or any(w in m.tests or any(w in text for text in texts) for w in words())


helpers = [HERE.parent / "support/thread_waits.cpp"]
has_tsan = option("tsan", "-") != "-"
jobs = int(option("jobs", str(os.cpu_count() or 1)))
chosen = [m for m in MUTATIONS if is_chosen(m) and (has_tsan or not m.by_tsan)]
plain = Build(option("commands"), "test-data", helpers) if chosen else None
under_tsan = Build(option("tsan"), "test-data", helpers) if has_tsan and any(m.by_tsan for m in chosen) else None

for m in MUTATIONS:
    if is_chosen(m) and m not in chosen:
        print("SKIPPED ", m.rule, "-- needs a build under ThreadSanitizer: --tsan")

named = {test for m in MUTATIONS for test in m.tests}
findings = [f"no such test: {test}" for test in sorted(named) if test not in FILE_OF and not (HERE.parent / "compile_fail" / test).exists()]
if not words():
    findings += [f"no mutation names: {hazard}" for hazard in sorted(set(FILE_OF) - named)]
    findings += [f"no test of the name: H{i}" for i in range(1, 25) if f"H{i}" not in FILE_OF]
    findings += without_mutation(plain, MODES)
    findings += without_mutation(under_tsan, MODES[:1]) if under_tsan else []
take_out(chosen, jobs, lambda m: try_out(under_tsan if m.by_tsan else plain, m), findings)
