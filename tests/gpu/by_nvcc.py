#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""tests/by_nvcc.py names the header and the source that nvcc refuses, and takes those that it does not refuse.

by_nvcc.py NVCC ROOT

With CUOTA_TEST_DIVISOR only what the short form of make cuda asks of it: nothing of headers, and sources by the front end for the device.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NVCC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
failures = 0


def takes_out(header, text):
    def change(top):
        path = top / "include/cuota" / header
        whole = path.read_text()
        if text not in whole:
            sys.exit(f"{header} has no {text.strip()}: this test wants to take it out")
        path.write_text(whole.replace(text, ""))
    return change


def source(text, name="one.cpp"):
    return lambda top: (top / "tests" / name).write_text(text)


def case(what, change, *words, nvcc=("one.cpp",), refused=()):
    """Runs by_nvcc.py on a changed copy, in which nvcc compiles tests/odr.cpp and `nvcc`; it says each of `refused`."""
    global failures
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        shutil.copytree(ROOT / "include", top / "include")
        shutil.copytree(ROOT / "tests/lint", top / "tests/lint", ignore=shutil.ignore_patterns("__pycache__"))
        (top / "tests/odr.cpp").write_text("")
        (top / "tests/one.cpp").write_text("int main() {}\n")
        change(top)
        commands = top / "commands.json"
        commands.write_text(json.dumps([
            {"directory": folder, "file": str(top / "tests" / name),
             "command": f"{NVCC} -DCUOTA_SEPARATE_COMPILATION=1 -I{top}/include --extended-lambda -std=c++20 -Werror=all-warnings -x cu -c {top}/tests/{name} -o {name}.o"}
            for name in ("odr.cpp", *nvcc)]))
        run = subprocess.run([sys.executable, ROOT / "tests/by_nvcc.py", f"--commands={commands}", *words, top], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if bool(run.returncode) != bool(refused) or not all(one in run.stdout for one in refused):
        failures += 1
        print(f"FAILED: {what}: status {run.returncode}\n{run.stdout}")


def nothing(top):
    pass


is_short = int(os.environ.get("CUOTA_TEST_DIVISOR", "1")) > 1
if is_short:
    print("SKIPPED: headers, and sources that the front end for the host refuses (not in the short form of make integration)")
else:
    case("a header is taken", nothing, "--headers=in place,apart", "--only=guard/detail/ledger_node.hpp")  # nvcc refused it once
    case("a header without one that it needs", takes_out("guard/detail/ledger_node.hpp", "#include <cuota/guard/detail/ledger_tree.hpp>\n"),
         "--headers=apart", "--only=guard/detail/ledger_node.hpp", refused=["guard/detail/ledger_node.hpp does not compile alone by nvcc, definitions apart"])
case("a source is taken", nothing, "--sources")
BAD = {"not_cpp.cpp": "int main() { return none; }\n",
       "only_the_device_refuses_it.cpp": "#if defined(__CUDA_ARCH__)\n#error not here\n#endif\nint main() {}\n",
       "a_kernel_calls_the_host.cpp": "int host() { return 1; }\n__global__ void f(int* p) { *p = host(); }\nint main() {}\n",
       "a_warning.cpp": "__global__ void f() { int unused = 1; }\nint main() {}\n"}
REFUSALS = [*(f"tests/{name} is refused by nvcc" for name in BAD), 'identifier "none" is undefined', "not here",
            'calling a __host__ function("host()") from a __global__ function', 'variable "unused" was declared but never referenced']


def several(texts):
    return lambda top: [source(text, name)(top) for name, text in texts.items()]


if not is_short:
    case("sources that are refused", several(BAD), "--sources", nvcc=BAD, refused=REFUSALS)
case("a source that the front end for the device takes", source("static __device__ int held;\n__global__ void f() { held = held + 1; }\nint main() {}\n"),
     "--sources", "--device-only")
case("sources that the front end for the device refuses", several(BAD), "--sources", "--device-only", nvcc=BAD, refused=REFUSALS)
case("a source without kernels is left out", source("int main() { return none; }\n"), "--sources", "--kernels")
case("a source that includes kernels", several({"one.cpp": '#include "kernels.hpp"\nint main() { return none; }\n', "kernels.hpp": "__global__ void f() {}\n"}),
     "--sources", "--kernels", refused=["tests/one.cpp is refused by nvcc"])
case("a source that was compiled", source("int main() { return none; }\n"), "--sources", "--compiled=^one")
case("a source that is not made", lambda top: (top / "tests/one.cpp").unlink(), "--sources", refused=["tests/one.cpp is not made"])
print(f"by_nvcc: {failures} checks failed" if failures else "by_nvcc: all checks hold")
sys.exit(1 if failures else 0)
