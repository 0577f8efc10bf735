#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A gate without noise: the hot paths take no more instructions than instructions.txt says, give or take 5 %.

instructions.py --build=FOLDER [--against=FILE] [--update]

Callgrind counts what bench-instructions of that build runs, and what the compiler runs to read cuota.hpp where definitions are apart.
Of programs with headers alone, which take the compiler too long under callgrind, what it makes is counted: functions and bytes of
code, which is what takes its time, and the megabytes that it holds. A path that grew by more than 5 % fails, with the two figures, and
so does one that is new or gone; one that shrank so much is named.
--update writes the file. The figures are of one compiler and one processor's kind: under another it is SKIPPED, by name (status 77).
What the compiler inlines is in them: text that a path does not run can move it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from compiling import PROGRAMS, Compiler, cost_of, including

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 0.05


def skip(why):
    print(f"SKIPPED: make instructions ({why})")
    sys.exit(77)


def counted_by_compiler(compiler, header):
    """Instructions to read one header; CUDA's own are a twenty-fifth of cuota.hpp's, so another toolkit is no other figure.

    When gcc frees memory is told to it, for else it goes by how much the machine has.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        read = [*compiler.command("-DCUOTA_SEPARATE_COMPILATION=1"), "--param=ggc-min-expand=100", "--param=ggc-min-heapsize=131072", "-fsyntax-only"]
        done = subprocess.run(["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={folder}/out.%p",
                               *read, including(folder, header)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
        if done.returncode:
            sys.exit(f"{compiler.cxx} ended with {done.returncode} at {header}:\n{done.stderr[-2000:]}")
        # The driver's and the compiler's own: the one reads no header, and takes a thousandth.
        return max(int(re.search(r"^(?:totals|summary): (\d+)$", path.read_text(), flags=re.M)[1]) for path in folder.glob("out.*"))


def made_by_compiler(compiler, name):
    """Functions, bytes of code and megabytes of memory to compile a program with headers alone."""
    with tempfile.TemporaryDirectory() as where:
        source = pathlib.Path(where) / "program.cpp"
        source.write_text(PROGRAMS[name])
        _, memory = cost_of([*compiler.command("-O2"), "--param=ggc-min-expand=100", "--param=ggc-min-heapsize=131072", "-c", source,
                             "-o", source.with_suffix(".o")])
        told = subprocess.run(["nm", "--print-size", source.with_suffix(".o")], capture_output=True, text=True, check=True).stdout
        sizes = [int(size, 16) for size in re.findall(r"^\S+ (\S+) [tTwW] ", told, flags=re.M)]
    return {f"compiling.{name}.functions": len(sizes), f"compiling.{name}.code_bytes": sum(sizes),
            f"compiling.{name}.memory_MB": memory / 1e6}


def counted(program, slower=""):
    """Instructions an operation, by path; of a path that is to be `slower`, 6 % more."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out", program],
                              capture_output=True, text=True, env={"CUOTA_SIM_RACES": "off", "PATH": "/usr/bin:/bin", "CUOTA_BENCH_SLOWER": slower})
        if done.returncode:
            sys.exit(f"bench-instructions ended with {done.returncode}:\n{done.stderr[-2000:]}")
        operations = {name: int(n) for name, n in (line.split() for line in done.stdout.splitlines())}
        found = {}
        for path in pathlib.Path(folder).glob("out*"):
            text = path.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (\S+)$", text, flags=re.M)
            total = re.search(r"^(?:totals|summary): (\d+)$", text, flags=re.M)
            if name and total:
                found[name[1]] = int(total[1]) / operations[name[1]]
    if missing := [name for name in operations if not found.get(name)]:
        sys.exit(f"callgrind did not count {missing}: was valgrind/callgrind.h there when it was compiled?")
    return {name: found[name] for name in operations}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, required=True)
    options.add_argument("--against", type=pathlib.Path, default=HERE / "instructions.txt")
    options.add_argument("--update", action="store_true")
    asked = options.parse_args()
    if not shutil.which("valgrind"):
        skip("valgrind is not here")
    compiler, program = Compiler(asked.build), asked.build / "bench" / "bench-instructions"
    version = subprocess.run([compiler.cxx, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    made_by = f"# {version}, {platform.machine()}{' with avx2' if ' avx2 ' in flags else ''}, {platform.libc_ver()[1]}"
    lines = asked.against.read_text().splitlines() if asked.against.is_file() else []
    head = [line for line in lines if line.startswith("# SPDX")]
    if not asked.update and made_by not in lines:
        skip(f"the figures are of {[line[2:] for line in lines if line.startswith('# ') and line not in head][-1:]}, this is {made_by[2:]}")
    known = {name: float(n) for name, n in (line.split() for line in lines if line and not line.startswith("#"))}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # what is counted does not depend on what runs beside it
        paths, reading = pool.submit(counted, program), pool.submit(counted_by_compiler, compiler, "cuota/cuota.hpp")
        made = [pool.submit(made_by_compiler, compiler, name) for name in ("first", "budget")]
        now = paths.result()
        for name, n in pool.submit(counted, program, slower=next(iter(now))).result().items():
            if (n > now[name] * (1 + TOLERANCE)) != (name == next(iter(now))):
                sys.exit(f"this gate is blind: {name} was made slower and was not noticed, or the other way round")
        now["reading.cuota.hpp"] = reading.result()
        for one in made:
            now |= one.result()

    grown, other, shrunk = [], [], []
    width = max(map(len, now))
    for name, n in now.items():
        before = known.get(name)
        change = "new" if before is None else f"{100 * (n / before - 1):+.1f} %"
        print(f"{name.ljust(width)}  {n:10.1f}  {'' if before is None else format(before, '.1f'):>10}  {change}")
        if before is None:
            other.append(name)
        elif n < before * (1 - TOLERANCE):
            shrunk.append(name)
        elif n > before * (1 + TOLERANCE):
            grown.append(f"{name} was {before:.1f} and is {n:.1f}")
    other += known.keys() - now.keys()
    if asked.update:
        asked.against.write_text("\n".join([*head, "", "# Instructions an operation of each hot path, and what the compiler takes; written by "
                                            "instructions.py --update, of", made_by, *(f"{name} {n:.1f}" for name, n in now.items())]) + "\n")
        return 0
    for line in grown:
        print(f"GREW BY MORE THAN {100 * TOLERANCE:.0f} %: {line}")
    if other:
        print(f"NEW OR GONE: {', '.join(sorted(other))}: make instructions UPDATE=1")
    if shrunk:
        print(f"less by more than {100 * TOLERANCE:.0f} %: {', '.join(shrunk)}: make instructions UPDATE=1 keeps it so")
    print(f"{len(now) - len(grown)} paths as they were or better, {len(grown)} grew")
    return 1 if grown or other else 0


if __name__ == "__main__":
    sys.exit(main())
