# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What compilers take for programs that use cuota, and for others beside them: for table.py and instructions.py."""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = {
    "first": (SOURCE / "examples" / "first.cpp").read_text(),
    "budget": """#include <cuota/guard/budget.hpp>
using namespace cuota::literals;
int main() {
    cuota::budget budget{"program", 1_MiB};
    return budget.try_charge(1_MiB) && !budget.try_charge(1) ? 0 : 1;
}
""",
    "spdlog": """#include <spdlog/spdlog.h>
int main() { spdlog::info("a number: {}", 1); }
""",
    "thrust": """#include <thrust/device_vector.h>
#include <thrust/reduce.h>
int main() {
    thrust::device_vector<int> numbers(100, 1);
    return thrust::reduce(numbers.begin(), numbers.end()) == 100 ? 0 : 1;
}
""",
}


def cost_of(command):
    """Runs it; returns the processor's seconds that it and its children took, and the bytes that the largest of them held."""
    with tempfile.TemporaryFile("w+") as said:
        started = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            said.seek(0)
            raise LookupError(f"{command[0]} ended with {started.returncode}: {said.read()[-1000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


class Compiler:
    """The compiler of a build: how it reads one header as a program of that build would."""

    def __init__(self, build):
        self.build, self.found = build, None

    @property
    def cxx(self):
        return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", (self.build / "CMakeCache.txt").read_text(), flags=re.M)[1]

    @property
    def includes(self):
        """-I and -isystem of the benchmarks."""
        if self.found is None:
            commands = json.loads((self.build / "compile_commands.json").read_text())
            words = iter(next(c["command"] for c in commands if c["file"].endswith("/bench/pool.cpp")).split())
            self.found = []
            for word in words:
                if word in ("-I", "-isystem"):
                    self.found += [word, next(words)]
                elif word.startswith(("-I", "-isystem")):
                    self.found.append(word)
        return self.found

    def command(self, *more):
        return [self.cxx, "-std=c++20", *more, *self.includes]


def including(folder, header):
    """A file in the folder that includes the header, and nothing else."""
    source = folder / "one.cpp"
    source.write_text(f"#include <{header}>\n")
    return source


class ReadingTime:
    """The compiler's time for one include: the processor's seconds of the compiler that the build has, reading alone."""

    def __init__(self, build, turns):
        self.compiler, self.turns = Compiler(build), turns

    def of(self, header, *more, precompiled=False):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            line, source = self.compiler.command(*more), including(folder, header)
            if precompiled:
                first = folder / header
                first.parent.mkdir(parents=True)
                subprocess.run([*line, "-x", "c++-header", source, "-o", f"{first}.gch"], check=True, capture_output=True)
                line.insert(1, f"-I{folder}")
            command = [*line, "-fsyntax-only", source]
            return statistics.median(cost_of(command)[0] for _ in range(self.turns)) * 1e9


class Programs:
    """What it costs to compile a program to an object file with optimisation: medians of a number of turns, each measured once."""

    def __init__(self, build, turns):
        self.compiler, self.turns, self.measured = Compiler(build), turns, {}

    def command(self, tool, *more):
        if tool == "g++":
            return [*self.compiler.command(*more), "-O2", "-c"]
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=f"{os.environ.get('CUDA_HOME', '')}/bin:/usr/local/cuda/bin")
        if not nvcc:
            raise LookupError("there is no nvcc")
        return [nvcc, "-std=c++20", "-O2", "-arch=sm_90", "-x", "cu", *more, "-I", SOURCE / "include", "-c"]

    def cost(self, tool, text, *more):
        key = tool, text, more
        if key not in self.measured:
            with tempfile.TemporaryDirectory() as name:
                source = pathlib.Path(name) / "program.cpp"
                source.write_text(text)
                costs = [cost_of([*self.command(tool, *more), source, "-o", source.with_suffix(".o")]) for _ in range(self.turns)]
            self.measured[key] = [statistics.median(each) for each in zip(*costs)]
        return self.measured[key]

    def seconds(self, tool, program, *more):
        return self.cost(tool, PROGRAMS[program], *more)[0] * 1e9

    def memory(self, tool, program, *more):
        return self.cost(tool, PROGRAMS[program], *more)[1]

    def parts(self):
        """All files of cuota::cuota, one after the other."""
        return sum(self.cost("g++", part.read_text(), "-fPIC")[0] for part in (SOURCE / "include/cuota/parts").glob("*.cpp")) * 1e9
