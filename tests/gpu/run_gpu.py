# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""run_gpu tells what passed, failed and was skipped, and fails if anything did; with programs that only pretend.

The folder is as `make gpu` makes it, of shell scripts; nvidia-smi and compute-sanitizer are scripts, too.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
TOOLS = "bash basename cat cut date dirname env grep head mkdir nproc sed sleep tail tar tee timeout tr uname gzip".split()

PASSES = "echo 'All tests passed (7 assertions in 3 test cases)'"
BENCHMARK = """for word; do case $word in --benchmark_out=*) cat > "${word#*=}" <<< '{"benchmarks": [%s]}';; esac; done"""
DEMO = """case "$*" in *--strategy*) echo '  epoch 1  loss 0.5';; *) echo '  device bytes 100, planned 100';; esac
echo "  driver's bytes 110, of which counted 100" """
EXAMPLE = """// a licence

/// Says hello. Expected output:
///
///     [1] hello, ... * \\\\ world?
///     twice
#include <cstdio>
"""


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/env bash\n" + body + "\n")
    path.chmod(0o755)


class Folder:
    """A folder where all is well, unless a program is replaced."""

    def __init__(self, root, *, python=True):
        self.root = root
        self.tools = root / "tools"
        self.tools.mkdir(parents=True)
        for name in TOOLS:
            (self.tools / name).symlink_to(shutil.which(name))
        if python:  # this one: what is found by that name may be a script that needs more than these tools
            (self.tools / "python3").symlink_to(sys.executable)
        script(self.tools / "nvidia-smi", "[ \"$1\" != -L ] || echo 'GPU 0: NVIDIA Pretended (UUID: GPU-1)'")
        script(self.tools / "compute-sanitizer", "while [ \"${1#-}\" != \"$1\" ]; do case $1 in --tool|--error-exitcode|--report-api-errors) shift;; esac; shift; done; \"$@\"")
        self.gpu = root / "cuota-gpu"
        self.gpu.mkdir()
        for path in (SOURCE / "packaging/gpu/run_gpu", SOURCE / "bench/table.py"):
            shutil.copy(path, self.gpu)
        (self.gpu / "built_with").write_text("cuota 0\n")
        (self.gpu / "left_out").write_text("pool/frame.sim.cpp\n")
        (self.gpu / "sources").mkdir()
        (self.gpu / "sources/hello.cpp").write_text(EXAMPLE)
        (self.gpu / "sources/left.cpp").write_text(EXAMPLE)
        (self.gpu / "sources/quiet.cpp").write_text("// a licence\n\n/// Says nothing.\n#include <cstdio>\n")
        self.program("quiet", "true")
        self.program("test-core", PASSES)
        self.program("test-pool", PASSES)
        self.program("hello", "echo '[1] hello, whole * \\\\ world?'; echo twice")
        self.program("train", DEMO)
        self.program("bench-pool", BENCHMARK % "")
        self.program("bench-beside_another", "true")

    def program(self, name, body):
        script(self.gpu / "bin" / name, body)

    def run(self, *parts, **environment):
        done = subprocess.run([self.gpu / "run_gpu", "--out", self.root / "out", *parts], cwd=self.root, capture_output=True, text=True,
                              env={"PATH": str(self.tools), "COMPUTE_SANITIZER": "", **environment})
        return done.returncode, done.stdout, done.stderr


failures = 0


def check(what, good, *more):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}", *more, sep="\n")


def case(name, arrange, *parts, status=1, says=(), errors=False, environment={}, **how):
    """Runs a folder that `arrange` has changed, and checks the status and what is said."""
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(pathlib.Path(root), **how)
        arrange(folder)
        returned, out, err = folder.run(*parts, **environment)
        check(f"{name}: the status is {status}", returned == status, returned, out, err)
        for text in says:
            check(f"{name}: it says '{text}'", text in out, out, err)
        check(f"{name}: standard error has something only if it should", bool(err) == errors, err)
        results = (folder.root / "out/results.txt").read_text()
        check(f"{name}: results.txt ends as the output does", results.splitlines()[-1:] == out.splitlines()[-1:], results, out)
        return folder, out


def replaced(name, body):
    return lambda folder: folder.program(name, body)


case("all is well", lambda folder: None, status=0, says=(
    "NVIDIA Pretended", "passed   test-core (3 test cases)", "passed   test-pool (3 test cases)",
    "skipped  pool/frame.sim.cpp: only on the simulated runtime", "passed   memcheck of test-pool (no finding)",
    "passed   racecheck of test-pool", "passed   initcheck of test-pool", "passed   synccheck of test-pool", "passed   hello prints what it says",
    "passed   beside_another", "passed   demo: device bytes 100", "passed   demo offload:50: driver's bytes 110", "passed   bench-pool",
    "skipped  memcheck of test-buffer (there is no such program here)",
    "skipped  quiet (it says nothing of what it prints)", "skipped  left (it is not in this build)",
    "passed   the table of the benchmarks", "0 failed, 31 skipped"))

case("no GPU", lambda folder: script(folder.tools / "nvidia-smi", "exit 9"), status=77, says=("SKIPPED: run_gpu (nvidia-smi shows no GPU",))
case("no driver", lambda folder: (folder.tools / "nvidia-smi").unlink(), status=77, says=("SKIPPED: run_gpu",))
case("a library is missing", replaced("test-core", "echo 'libx.so: cannot open' >&2; exit 127"),
     says=("libx.so: cannot open", "FAILED   test-core does not start here"))

case("a test fails", replaced("test-pool", f"[ \"$1\" = --list-test-names-only ] || {{ echo 'frame.cpp:12: FAILED'; exit 3; }}"), "tests",
     says=("passed   test-core", "FAILED   test-pool (status 3)", "| frame.cpp:12: FAILED", "1 passed, 1 failed, 1 skipped"))
case("a test crashes", replaced("test-pool", "kill -SEGV $$"), "tests", says=("FAILED   test-pool (signal 11)",))
case("a test is skipped", replaced("test-pool", f"echo 'CUOTA_SKIPPED: two devices share: one device'; {PASSES}"), "tests", status=0,
     says=("skipped  test-pool: two devices share: one device", "2 passed, 0 failed, 2 skipped"))
case("no Python", replaced("test-pool", f"[ \"$1\" = '~[python]' ] || exit 1; {PASSES}"), "tests", status=0, python=False,
     says=("passed   test-pool", "skipped  the tests of [python]"))
case("no Python, no table", lambda folder: None, "benchmarks", status=0, python=False,
     says=("skipped  the table of the benchmarks (no python3)", "1 passed, 0 failed, 1 skipped"))

case("a sanitizer finds something",
     lambda folder: script(folder.tools / "compute-sanitizer",
                           "[ \"$2\" != racecheck ] || { echo '========= RACECHECK SUMMARY: 2 hazards displayed'; exit 86; }"), "sanitizers",
     says=("passed   memcheck of test-pool", "FAILED   racecheck of test-pool (2 hazards displayed)", "3 passed, 1 failed, 28 skipped"))
case("what is chosen is run, and no more", lambda folder: None, "tests", "sanitizers", status=0,
     environment={"TOOLS": "memcheck", "PROGRAMS": "pool"}, says=("passed   test-pool", "passed   memcheck of test-pool", "2 passed, 0 failed, 1 skipped"))
case("no sanitizer", lambda folder: (folder.tools / "compute-sanitizer").unlink(), "sanitizers", status=0, says=(
    *(f"skipped  compute-sanitizer {tool}" for tool in ("memcheck", "racecheck", "initcheck", "synccheck")), "0 passed, 0 failed, 4 skipped"))

case("an example prints something else", replaced("hello", "echo '[1] hello'; echo twice"), "examples",
     says=("FAILED   hello prints something else than it says",))
case("an example prints more", replaced("hello", "echo '[1] hello, whole * \\\\ world?'; echo twice; echo thrice"), "examples",
     says=("FAILED   hello prints something else than it says",))
case("an example fails", replaced("hello", "exit 4"), "examples", says=("FAILED   hello (status 4)",))
case("the driver refuses first", replaced("bench-beside_another", "exit 1"), "examples", says=("FAILED   beside_another (status 1)",))

case("a strategy has other losses", replaced("train", DEMO.replace("loss 0.5'", "loss '$4")), "demo",
     says=("passed   demo naive:100", "FAILED   demo micro:50: its losses are not those of naive", "passed   demo half:100"))
case("a strategy fails", replaced("train", "case \"$*\" in *offload*) exit 1;; esac\n" + DEMO), "demo",
     says=("FAILED   demo offload:50 (status 1)", "passed   demo auto:25"))

case("a benchmark fails", replaced("bench-pool", "exit 1"), "benchmarks", says=("FAILED   bench-pool (status 1)",))
case("a benchmark says that it failed", replaced("bench-pool", BENCHMARK % json.dumps({"error_occurred": True, "run_name": "pair", "run_type": "x"})),
     "benchmarks", says=("FAILED   bench-pool (a benchmark says that it failed)",))

def packed(folder):
    subprocess.run(["tar", "-C", folder.gpu, "-czf", folder.gpu / "programs.tar.gz", "bin"], check=True)
    shutil.rmtree(folder.gpu / "bin")


case("the programs are packed", packed, "tests", status=0, says=("passed   test-core", "2 passed, 0 failed, 1 skipped"))
case("the programs are not there", lambda folder: shutil.rmtree(folder.gpu / "bin"), "tests", errors=True,
     says=("FAILED   the programs could not be unpacked",))

# ---- The table is of what the programs left.
pairs = [{"run_name": f"pair<{peer}>/holes:10/bytes:512", "run_type": "iteration", "cpu_time": time, "real_time": time, "time_unit": "ns"}
         for peer, time in (("our_pool", 20), ("runtime_async", 400))]
_, printed = case("the table", replaced("bench-pool", BENCHMARK % ", ".join(map(json.dumps, pairs))), "benchmarks", status=0, says=("not run: ",))
row = next((line.split("  ") for line in printed.splitlines() if line.startswith("pool: pair, 512 B, 10 holes")), [])
check("the table has the figures", [word.strip() for word in row if word][1:] ==
      ["20 ns", "cudaMallocAsync", "400 ns", "0.05", "<= 25 ns", "met"], row, printed)

with tempfile.TemporaryDirectory() as root:
    folder = Folder(pathlib.Path(root))
    returned, out, _ = folder.run("everything")
    check("a part that is none is answered by the usage", returned == 1 and out.startswith("run_gpu [--out DIR]"), returned, out)
    check("and runs nothing", not (folder.root / "out").exists())

print(f"run_gpu: {failures} checks failed" if failures else "run_gpu: all checks hold")
sys.exit(1 if failures else 0)
