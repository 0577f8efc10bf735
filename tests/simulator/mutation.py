#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one rule after another out of the simulator, and wants the tests that state it to fail.

    make mutate                     all of them
    mutation.py ... WORD...         those whose rule or file has one of the words

Each mutation replaces a piece of text, which must be there exactly once, in a copy of the sources; the library is built
anew and put under the test program, which is not built again. Failing, crashing and hanging all count. Every test of a
conformance_*.cpp must be named by a mutation: a test that cannot fail states nothing.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from mutations import MUTATIONS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from mutating import Verdict, apply, option, outcome, take_out, test_names, words  # noqa: E402

SOURCES = HERE.parents[1] / "include" / "cuota" / "simulator"
QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def includes(path, seen):
    """The headers of the simulator that a source sees, its own name too."""
    seen.add(path.name)
    for name in QUOTED.findall(path.read_text()):
        if name not in seen and (path.parent / name).exists():
            includes(path.parent / name, seen)
    return seen


class Library:
    """The simulator file by file, with the flags of the build, to make it again with some of them changed."""

    def __init__(self, commands, objects, jobs):
        lines = [e for e in json.loads(pathlib.Path(commands).read_text()) if "cuota-simulator.dir" in e["command"]]
        if not lines:
            sys.exit(f"{commands} does not build {SOURCES}")
        self.line, self.directory = shlex.split(lines[0]["command"]), lines[0]["directory"]
        self.sees = {path.name: includes(path, set()) for path in sorted(SOURCES.glob("*.cpp"))}
        self.objects = objects
        with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
            wrong = list(workers.map(lambda source: self.compile(source, SOURCES.parents[1], objects), self.sees))
        if any(wrong):
            sys.exit("".join(wrong))

    def compile(self, source, include, into):
        """What the compiler says when it fails to compile include/cuota/simulator/source."""
        command = list(self.line)
        command[command.index("-o") + 1] = str(into / f"{source}.o")
        command[command.index("-c") + 1] = str(include / "cuota/simulator" / source)
        command = [a for a in command if a != "-Werror"]
        command[1:1] = ["-w", f"-I{include}"]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def build(self, folder, changed):
        """Compiles what sees a changed file in folder/include, and links it with the objects there are."""
        objects = []
        for source, seen in self.sees.items():
            objects.append((folder if seen & changed else self.objects) / f"{source}.o")
            if seen & changed and (wrong := self.compile(source, folder / "include", folder)):
                return wrong
        done = subprocess.run([self.line[0], "-shared", "-o", folder / "libcuota-simulator.so", "-Wl,-soname,libcuota-simulator.so",
                               *objects, "-ldl", "-pthread"], capture_output=True, text=True)
        return done.stderr if done.returncode else ""


def try_out(library, program, m):
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        folder = pathlib.Path(where)
        shutil.copytree(SOURCES, folder / "include/cuota/simulator")
        if wrong := apply(m.edits, folder / "include/cuota/simulator"):
            return Verdict(m.rule, False, wrong)
        if wrong := library.build(folder, {name for name, _, _ in m.edits}):
            return Verdict(m.rule, False, "does not compile: " + wrong)
        ends = {test: outcome(program, test, {"LD_LIBRARY_PATH": where, **m.environment}) for test in m.tests}
        good = all(end in ("failed", "crashed", "hung") for end in ends.values())
        return Verdict(m.rule, good, "; ".join(f"{end}: {test}" for test, end in ends.items()))


def without_mutation(library, program):
    """All named tests must pass on a library that is built the same way and changes nothing."""
    wanted = {(test, tuple(m.environment.items())) for m in MUTATIONS for test in m.tests}
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        if wrong := library.build(pathlib.Path(where), set()):
            return [wrong]
        return [f"{test} {end} with nothing taken out" for test, environment in sorted(wanted)
                if (end := outcome(program, test, {"LD_LIBRARY_PATH": where, **dict(environment)})) != "passed"]


chosen = [m for m in MUTATIONS if not words() or any(w in m.rule or any(w in e[0] for e in m.edits) for w in words())]
program = option("program")
jobs = int(option("jobs", str(os.cpu_count() or 1)))
unchanged = tempfile.TemporaryDirectory(prefix="unchanged-")
library = Library(option("commands"), pathlib.Path(unchanged.name), jobs) if chosen else None

findings = [f"no such test: {test}" for m in MUTATIONS for test in m.tests if test not in test_names(HERE, "*.cpp")]
if not words():
    named = {test for m in MUTATIONS for test in m.tests}
    findings += [f"no mutation names: {test}" for test in sorted(test_names(HERE, "conformance_*.cpp") - named)]
    findings += without_mutation(library, program)
take_out(chosen, jobs, lambda m: try_out(library, program, m), findings)
