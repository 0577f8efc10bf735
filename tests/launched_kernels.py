#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every kernel of cuota's that host code launches is in the device's code of its object file.

launched_kernels.py OBJECT...    or folders with such files

nvcc compiles a source twice, and its pass for the device reads no definitions of functions for the host (CUOTA_DEFINE_MEMORY and its
like). If one of those launches a kernel that nothing else asks for, the device's code lacks this kernel, and nvcc does not say so. The
header must ask for CUOTA_PART_KERNELS instead. Kernels of a program's own extended lambdas are left out: nvcc wraps such a
lambda in a class for the host, so its kernel has two names.

What the C++ compiler makes of a launch refers to launcher_by_nvcc, which nvcc's files set. Of the library, cuota-compiled, each kernel that
an object file asks for in this way must be registered by another one: kernels.cpp, which nvcc compiles.
"""
import pathlib
import re
import subprocess
import sys

# The one kernel template that cuota launches everything by. In an object file its functions are local, which the letter L marks.
NAME = rb"_ZN5cuota2v06detailL?15for_each_kernelI\w+"
LAUNCHER = rb" _ZN5cuota2v06detail16launcher_by_nvccI(\w+)E$"
WRAPPERS = (b"__nv_hdl_wrapper_t", b"__nv_dl_wrapper_t")  # of extended lambdas


def without_mark(name):
    return name.replace(b"detailL15", b"detail15")


def launched(path):
    """The kernels that host code has functions of."""
    told = subprocess.run(["nm", path], capture_output=True, check=True).stdout
    names = re.findall(rb"^\S+ [tTwW] (" + NAME + rb")$", told, flags=re.M)
    return {without_mark(name) for name in names if not any(wrapper in name for wrapper in WRAPPERS)}


def asked_for(path):
    """The kernels that the object file launches by launcher_by_nvcc."""
    told = subprocess.run(["nm", path], capture_output=True, check=True).stdout
    return {b"_ZN5cuota2v06detail15for_each_kernelI" + body + b"EvT_" for body in re.findall(LAUNCHER, told, flags=re.M)}


def registered(path):
    """The kernels that the object file registers, by name, with the device's code in it."""
    return {name for name in re.findall(NAME + rb"(?=\0)", path.read_bytes()) if b"detailL" not in name}


def readable(name):
    return subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()


objects = []
for word in sys.argv[1:]:
    path = pathlib.Path(word)
    objects += sorted(path.rglob("*.o")) if path.is_dir() else [path]
findings, kernels = [], 0
for path in objects:
    wanted = launched(path)
    if lacking := wanted - registered(path):
        findings += [f"{path}: {readable(name)} is launched, and the device's code lacks it" for name in sorted(lacking)]
    kernels += len(wanted)
library = [path for path in objects if any(part.startswith("cuota-compiled") for part in path.parts)]
known = {name for path in library for name in registered(path)}
for path in library:
    findings += [f"{path}: {readable(name)} is launched, and nvcc compiles no file of the library that launches it: it belongs in kernels.cpp"
                 for name in sorted(asked_for(path) - known)]
print(*findings, f"{kernels} kernels in {len(objects)} object files", sep="\n")
if not kernels:
    sys.exit("no object file launches a kernel: nothing was checked")
sys.exit(1 if findings else 0)
