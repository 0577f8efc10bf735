#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/no_gpu.md that compile a kernel by nvcc and link it to the simulated runtime without CMake.

nvcc_and_simulator.py SOURCE SCRATCH CXX CUDA_INCLUDE SIMULATOR NVCC

The compilers and the toolkit of this machine replace those that the page names, and SIMULATOR replaces libsimulated.so.
The program must print the right value, also from another folder, and name the kernel that has no host function.
"""
import pathlib
import runpy
import shlex
import shutil
import subprocess
import sys

source, scratch, cxx, toolkit, simulator, nvcc = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
page = pathlib.Path(source) / "docs" / "no_gpu.md"
blocks = runpy.run_path(str(here / "_snippets.py"))["blocks"](page)
found = [text.splitlines() for words, text, _ in blocks if words == ["sh"] and text.startswith("nvcc ")]
if len(found) != 1 or len(found[0]) != 2:
    sys.exit(f"{page.name} has no block that calls nvcc and then the C++ compiler")
compile_line, link_line = found[0]

work = pathlib.Path(scratch)
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
(work / "cuota").symlink_to(source)
for name in ("halve.cu", "halve_on_host.cpp"):
    shutil.copy(here.parent / "packaging" / "by_hand" / name, work)
shutil.copy(simulator, work / "libsimulated.so")
shutil.copy(simulator, work)  # its soname is its file's name


def run(line, *, folder=work):
    print("$", line, flush=True)
    return subprocess.run(line, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def must(line, expected, **options):
    done = run(line, **options)
    if done.returncode or done.stdout != expected:
        sys.exit(f"status {done.returncode}, printed:\n{done.stdout}\nexpected:\n{expected}")


link_line = link_line.replace("g++", shlex.quote(cxx), 1).replace("/usr/local/cuda/include", shlex.quote(toolkit))
must(compile_line.replace("nvcc", shlex.quote(nvcc), 1).replace(" -O2 ", " -O0 "), "")
must(link_line.replace(" -O2 ", " -O0 "), "")
must("./halve", "499.5\n")
must(shlex.quote(str(work / "halve")), "499.5\n", folder=work.parent)

must(link_line.replace("halve_on_host.cpp ", "").replace("-o halve", "-o without"), "")
without = run("./without").stdout
if "launches halve(float*, int), which has no body for the host" not in without or "999" not in without:
    sys.exit(f"without the host function of its kernel the program printed:\n{without}")
