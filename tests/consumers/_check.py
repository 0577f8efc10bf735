#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the consumer project, by add_subdirectory or by find_package on an installed and moved tree.

_check.py WAY SOURCE BUILD SCRATCH CMAKE GENERATOR CXX CUDA_TOOLKIT_ROOT
"""
import os
import pathlib
import shutil
import subprocess
import sys

way, source, build, scratch, cmake, generator, cxx, toolkit = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
work = pathlib.Path(scratch) / way
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)


def run(*command, fails_with=None):
    result = subprocess.run(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if fails_with is None and result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout}")
    if fails_with is not None and (not result.returncode or fails_with not in result.stdout):
        sys.exit(f"{' '.join(map(str, command))} should fail with '{fails_with}':\n{result.stdout}")
    return result.stdout


def configure(*more, **how):
    hint = [f"-DCUDAToolkit_ROOT={toolkit}"] if toolkit else []
    run(cmake, "-G", generator, "-S", here / way, "-B", work / "build", f"-DCMAKE_CXX_COMPILER={cxx}",
        "-DCUOTA_RUNTIME=SIMULATED", *hint, *more, **how)


def build_and_run():
    run(cmake, "--build", work / "build", "--parallel", os.cpu_count(), "--target", "consumer")
    print(run(work / "build" / "consumer"), end="")


if way == "add_subdirectory":
    configure(f"-DCUOTA_SOURCE={source}")
    build_and_run()
    run(cmake, "--install", work / "build", "--prefix", work / "installed")
    if (work / "installed" / "include").exists():
        sys.exit("a program that contains cuota installs cuota's headers with itself")
else:
    run(cmake, "--install", build, "--prefix", work / "first")
    moved = (work / "first").rename(work / "moved here")
    for file in moved.rglob("*"):
        if file.is_file() and any(place in file.read_text() for place in (str(source), str(build), str(work))):
            sys.exit(f"{file} holds an absolute path")
    version = (pathlib.Path(source) / "include" / "cuota" / "version.hpp").read_text()
    major, minor = (version.split(f"VERSION_{part} ")[1].split()[0] for part in ("MAJOR", "MINOR"))
    configure(f"-DCMAKE_PREFIX_PATH={moved}", f"-DCUOTA_ASKED={major}.{int(minor) + 1}",
              fails_with="considered but not accepted")
    shutil.rmtree(work / "build")
    configure(f"-DCMAKE_PREFIX_PATH={moved}", f"-DCUOTA_ASKED={major}.{minor}")
    build_and_run()
