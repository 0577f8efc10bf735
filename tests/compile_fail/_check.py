#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A program that must not compile does not, and the compiler says why.

_check.py --commands=FILE [--nvcc=PROGRAM] [--cccl=FOLDER] SOURCE
_check.py --commands=FILE [--cccl=FOLDER] --fixed SOURCE...

The source's first line is '// expect: <regex>', to be found in what the compiler says. With -DCUOTA_FIXED, which leaves out the
mistake, the same file must compile: so it is the mistake that is refused, and nothing else. With --fixed that is asked of several
at once, each in a namespace of its own, and then not of each. A second line '// flags: ...' has flags for the compiler that are the
mistake: the source compiles without them, and with them the compiler stops at the first error, with nothing behind it. A source that ends in .cu is for nvcc, and one that ends in
.clang.cpp for clang: they are asked both, and without it SKIPPED, by name; so is one that includes cuota/interop/thrust.hpp, without CCCL.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lint"))
import _lint  # noqa: E402

include = pathlib.Path(__file__).resolve().parents[2] / "include"
cccl = _lint.option("cccl")
line = [*_lint.compile_line(), "-DCUOTA_SEPARATE_COMPILATION=1", f"-I{include}", *(["-isystem", cccl] if cccl else []), "-fsyntax-only"]


def lacks_cccl(source):
    return not cccl and "#include <cuota/interop/thrust.hpp>" in source.read_text()


if "--fixed" in sys.argv:
    with tempfile.TemporaryDirectory() as folder:
        together = pathlib.Path(folder) / "fixed.cpp"
        sources = [pathlib.Path(word).resolve() for word in sys.argv[sys.argv.index("--fixed") + 1:]]
        sources = [source for source in sources if not lacks_cccl(source)]
        batch = pathlib.Path(__file__).resolve().parents[1] / "batch.py"
        subprocess.run([sys.executable, batch, together, *sources], check=True)
        sys.exit(subprocess.run([*line, "-DCUOTA_FIXED", str(together)]).returncode)

source = pathlib.Path(sys.argv[-1])
expected = re.match(r"// expect: (.+)", source.read_text())
if not expected:
    sys.exit(f"{source.name}: its first line is not '// expect: <regex>'")
if lacks_cccl(source):
    print(f"SKIPPED: {source.name} needs CCCL, which is not here")
    sys.exit(77)
alone = source.suffix == ".cu" or source.name.endswith(".clang.cpp")
if source.name.endswith(".clang.cpp"):
    line = _lint.by_clang(line)
    if not shutil.which(line[0]):
        print(f"SKIPPED: {source.name} needs clang++, which is not here")
        sys.exit(77)
if source.suffix == ".cu":
    nvcc = _lint.option("nvcc")
    if not nvcc:
        print(f"SKIPPED: {source.name} needs nvcc, which is not here")
        sys.exit(77)
    line = [nvcc, "-std=c++20", "--extended-lambda", "-Werror=all-warnings", "-diag-suppress=177,186", "-DCUOTA_SEPARATE_COMPILATION=1",
            f"-I{include}", "-cuda", "-o", "/dev/null"]  # without the host's compiler, which has nothing to add


def compile_with(*more):
    return subprocess.run([*line, *more, str(source)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


flags = re.search(r"^// flags: (.+)", source.read_text(), re.M)
broken = compile_with(*(flags[1].split() if flags else []))
if not broken.returncode:
    sys.exit(f"{source.name} compiled")
if not re.search(expected[1], broken.stdout):
    sys.exit(f"{source.name} was refused, but not with /{expected[1]}/:\n{broken.stdout}")
if flags and len(re.findall(r"error:", broken.stdout)) > 2:  # the one that is meant, and the one that ends the compilation
    sys.exit(f"{source.name}: the compiler did not stop at the first error:\n{broken.stdout}")
fixed = compile_with("-DCUOTA_FIXED") if alone else None
if fixed and fixed.returncode:
    sys.exit(f"{source.name} does not compile with CUOTA_FIXED either:\n{fixed.stdout}")
print(next(line for line in broken.stdout.splitlines() if re.search(expected[1], line)))
