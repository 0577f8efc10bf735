# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The compiler of a build: how it reads one header as a program of that build would."""
import json
import re


class Compiler:
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
