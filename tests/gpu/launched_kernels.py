#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""tests/launched_kernels.py finds the kernel that only host code knows, and nothing where the device has each.

launched_kernels.py NVCC ROOT
"""
import pathlib
import subprocess
import sys
import tempfile

NVCC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
SOURCE = """#include <cuota/runtime/for_each_index.hpp>
struct seen_by_both {
    CUOTA_KERNEL void operator()(std::size_t) const {}
};
struct seen_by_the_host {
    CUOTA_KERNEL void operator()(std::size_t) const {}
};
void launch(cuota::stream_ref s) {
    cuota::for_each_index(s, 1, seen_by_both{});
#if (!defined(__CUDA_ARCH__) || !defined(HIDDEN)) && !defined(ONE)
    cuota::for_each_index(s, 1, seen_by_the_host{});
#endif
}
"""
failures = 0


def check(what, options, status, wanted):
    """Compiles the source, and reads the object file."""
    global failures
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "launches.cu"
        source.write_text(SOURCE)
        target = source.with_suffix(".o")
        subprocess.run([NVCC, "-std=c++20", "-arch=sm_90", "-DCUOTA_SEPARATE_COMPILATION=1", f"-I{ROOT}/include", *options, "-c", source, "-o", target],
                       check=True)
        run = subprocess.run([sys.executable, ROOT / "tests/launched_kernels.py", folder], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    if run.returncode != status or wanted not in run.stdout or "seen_by_both" in run.stdout:
        failures += 1
        print(f"FAILED: {what}: status {run.returncode}\n{run.stdout}")


check("the device has both", [], 0, "2 kernels in 1 object files")
check("the device lacks one", ["-DHIDDEN"], 1, "seen_by_the_host")
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder) / "launches.cu"
    source.write_text(SOURCE)
    place = pathlib.Path(folder) / "cuota-compiled.dir"
    place.mkdir()
    common = ["-std=c++20", "-DCUOTA_SEPARATE_COMPILATION=1", f"-I{ROOT}/include", "-c"]
    subprocess.run([NVCC, *common, source, "-arch=sm_90", "-DONE", "-o", place / "kernels.o"], check=True)
    subprocess.run(["c++", *common, f"-I{pathlib.Path(NVCC).resolve().parents[1]}/include", "-x", "c++", source, "-o", place / "memory.o"], check=True)
    run = subprocess.run([sys.executable, ROOT / "tests/launched_kernels.py", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode != 1 or "memory.o" not in run.stdout or "seen_by_the_host" not in run.stdout or "seen_by_both" in run.stdout:
        failures += 1
        print(f"FAILED: a kernel that only a file of the C++ compiler launches: status {run.returncode}\n{run.stdout}")
with tempfile.TemporaryDirectory() as empty:
    run = subprocess.run([sys.executable, ROOT / "tests/launched_kernels.py", empty], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if run.returncode == 0 or "nothing was checked" not in run.stderr:
        failures += 1
        print(f"FAILED: no object file: status {run.returncode}\n{run.stderr}")
print(f"launched_kernels: {failures} checks failed" if failures else "launched_kernels: all checks hold")
sys.exit(1 if failures else 0)
