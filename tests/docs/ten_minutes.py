#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""docs/ten_minutes.md, done as it says: its program, built with CMake and without, prints what the page shows.

ten_minutes.py SOURCE SCRATCH CMAKE GENERATOR CXX CUDA_INCLUDE SIMULATOR CUDA_TOOLKIT_ROOT [NVCC]

With CUOTA_LINT_SHORT in the environment its project is configured and not built, and its line for nvcc is not run: the library would be compiled
for a minute, and for half of one. tests/packaging/verify builds such projects, and make cuda compiles such a program.

In place of the page's own words stand this machine's compiler, generator and toolkit, and nothing is optimised or has debug
information. The simulated runtime takes a minute to compile: SIMULATOR, which the project's own build has compiled from the same sources, takes
its place, and the page's command for it is only looked at.
"""
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys

source, scratch, cmake, generator, cxx, toolkit, simulator, hint, *nvcc = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
page = pathlib.Path(source) / "docs" / "ten_minutes.md"
blocks = [(words, text.replace("BUILD_TYPE=Release", "BUILD_TYPE=Debug").replace(" -O2 ", " -O0 "))
          for words, text, _ in runpy.run_path(str(here / "_snippets.py"))["blocks"](page)]


def only(*words):
    found = [text for kind, text in blocks if kind == [*words]]
    if len(found) != 1:
        sys.exit(f"{page.name} has {len(found)} blocks ```{' '.join(words)}")
    return found[0]


work = pathlib.Path(scratch)
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
(work / "cuota").symlink_to(source)
(work / "mean.cpp").write_text(only("cpp", "mean"))
(work / "CMakeLists.txt").write_text(only("cmake"))
expected = only("text", "mean")


def run(line):
    print("$", line, flush=True)
    done = subprocess.run(line, shell=True, cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"status {done.returncode}:\n{done.stdout}")
    return done.stdout


def check(printed):
    if printed != expected:
        sys.exit(f"the program printed\n{printed}\nand {page.name} says\n{expected}")


with_cmake, by_hand, by_nvcc, installed = [text.splitlines() for kind, text in blocks if kind == ["sh"]]
configure, build, program = with_cmake
run(configure.replace("cmake", shlex.quote(cmake), 1) + f" -G {shlex.quote(generator)} -DCMAKE_CXX_COMPILER={shlex.quote(cxx)}"
    f" -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCUOTA_RUNTIME=SIMULATED -DCUOTA_SIMULATOR_LIBRARY={shlex.quote(simulator)}" + (f" -DCUDAToolkit_ROOT={shlex.quote(hint)}" if hint else ""))
if os.environ.get("CUOTA_LINT_SHORT"):
    print("SKIPPED: the program by CMake (not in the short form of make lint)")
else:
    run(build.replace("cmake", shlex.quote(cmake), 1))
    check(run(program))

runtime, compile_line, program = (line.replace("/usr/local/cuda/include", shlex.quote(toolkit)) for line in by_hand)
# Without frame pointers the simulated runtime does not know its callers.
if not re.match(r"g\+\+ .* -shared -fno-omit-frame-pointer .* cuota/include/cuota/simulator/\*\.cpp -Wl,-soname,libsimulated\.so -o libsimulated\.so$", runtime):
    sys.exit(f"{page.name} compiles the simulated runtime in another way than by all of its sources, with frame pointers: {runtime}")
(work / "libsimulated.so").symlink_to(simulator)
run(compile_line.replace("g++", shlex.quote(cxx), 1))
check(run(f"LD_LIBRARY_PATH={shlex.quote(str(pathlib.Path(simulator).parent))} {program}"))

# Installed, it is found; what is built then, tests/packaging/verify looks at.
here_not_there = f" -G {shlex.quote(generator)} -DCMAKE_CXX_COMPILER={shlex.quote(cxx)} -DCUOTA_RUNTIME=SIMULATED" + (
    f" -DCUDAToolkit_ROOT={shlex.quote(hint)}" if hint else "")
install, configure = (line.partition("    #")[0].replace("cmake", shlex.quote(cmake)) for line in installed)
run(install.replace("cuota/build", "its_build").replace(" -S cuota", " -S cuota" + here_not_there))
page_project = (work / "CMakeLists.txt").read_text()
(work / "CMakeLists.txt").write_text(re.sub(r"add_subdirectory\(cuota\)", "find_package(cuota REQUIRED)", page_project))
run(configure.replace("-B build", "-B build_with_installed") + here_not_there)

nvcc = [one for one in nvcc if not one.endswith("NOTFOUND")]
if not nvcc:
    print("SKIPPED: nvcc's line (no nvcc on this machine)")
elif os.environ.get("CUOTA_LINT_SHORT"):
    print("SKIPPED: nvcc's line (not in the short form of make lint)")
else:  # compiled for this machine's GPU there; here for any
    line = by_nvcc[0].replace("nvcc", shlex.quote(nvcc[0]), 1).replace("-arch=native", "-arch=sm_80")
    run(line.replace("-o mean", "-o mean_on_gpu"))
