#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""run_gpu tells what passed, failed and was skipped, fails if anything did, and keeps its limit; with programs that only pretend.

The folder is as `make gpu` makes it, of shell scripts; nvidia-smi and compute-sanitizer are scripts, too.
"""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

SOURCE = pathlib.Path(sys.argv[1])
TOOLS = ("bash basename cat cp cut date dirname env find grep head ldd ln mkdir mktemp mv nproc paste rm sed sleep tail tar tee timeout "
         "tr uname gzip stdbuf").split()

PASSES = "echo 'All tests passed (7 assertions in 3 test cases)'"
FAILS = """cat << 'END'
-----------------------
a frame ends
-----------------------
pool/frame.cpp:10
.......................

/elsewhere/tests/pool/frame.cpp:12: FAILED:
  CHECK( held == 0 )
with expansion:
  8 == 0

END
seq 100 | sed 's/^/later line /'
exit 3"""
# As Catch2 has it: all cases of a file in turn, up to the first that fails, or one by its name.
CASES = r"""run() { case $1 in 'a case' | 'an array\[2\]\, \"quoted\"' | 'free bytes are exact') ;; *) echo "no such case: $1"; exit 1;; esac; }
case $1 in
--list-test-names-only) printf '%s\n' 'a case' 'an array[2], "quoted"' 'free bytes are exact'; exit 3;;
--abort) while IFS= read -r name; do echo "  <TestCase name='$name'>"; run "$name" || exit 1; done < "$5";;
--warn) run "$3" || exit 1;;
esac
""" + PASSES


def cases(body):
    """A program of cases, in which something happens to the case $1."""
    return CASES.replace("run() {", "run() { " + body + ";")


BENCHMARK = """for word; do case $word in --benchmark_out=*) cat > "${word#*=}" <<< '{"benchmarks": [%s]}';; esac; done"""
DEMO = """case "$*" in *--strategy*) echo '  epoch 1  loss 0.5';; *) echo '  device bytes 100, planned 100';; esac
echo "  driver's bytes 110, of which counted 100" """
TRUTH = """case ${*: -1} in --list) printf 'loader\\nlimits\\n';; loader) echo 'passed loader 0.10 s: 2 MB';; *) echo 'skipped limits: one device';; esac"""
QUESTIONS = """echo "fact  asked for $*" """
PYTORCH = "import sys; print(sys.argv[0].rpartition('/')[2], *sys.argv[1:2])"
EXAMPLE = """// a licence

/// Says hello. Expected output:
///
///     [1] hello, ... * \\\\ world?
///     twice
#include <cstdio>
"""


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text("#!/usr/bin/env bash\n" + body + "\n")
    path.chmod(0o755)


class Folder:
    """A folder where all is well, unless a program is replaced."""

    def __init__(self, root, *, python=True):
        self.root = root
        self.tools = root / "tools"
        self.tools.mkdir(parents=True)
        for name in (*TOOLS, "seq"):
            (self.tools / name).symlink_to(shutil.which(name))
        if python:  # this one: what is found by that name may be a script that needs more than these tools
            (self.tools / "python3").symlink_to(sys.executable)
        script(self.tools / "nvidia-smi",
               "case $1 in -L) echo 'GPU 0: NVIDIA Pretended (UUID: GPU-1)';; -l) exec sleep 60;; *clocks*) echo '1980 MHz, 2619 MHz';; esac")
        script(self.tools / "compute-sanitizer", "while [ \"${1#-}\" != \"$1\" ]; do case $1 in --tool|--error-exitcode|--report-api-errors|--target-processes) shift;; esac; shift; done; \"$@\"")
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
        (self.gpu / "lib").mkdir()
        (self.gpu / "lib/libcuota_pytorch.so").write_text("")
        for name in ("pytorch_allocator.py", "pytorch_peers.py", "library_memory.py"):
            (self.gpu / name).write_text(PYTORCH)
        self.program("cuda_questions", QUESTIONS)
        self.program("gpu_truth", TRUTH)
        for name in ("test-core", "test-pool", "test-resource", "test-buffer"):
            self.program(name, PASSES)
        self.program("test-simulator", CASES)
        self.program("quiet", "true")
        self.program("hello", "echo '[1] hello, whole * \\\\ world?'; echo twice")
        self.program("train", DEMO)
        self.program("train-ndebug", DEMO)
        for name in ("bench-device", "bench-pool", "bench-buffer", "bench-pinned", "bench-loader"):
            self.program(name, BENCHMARK % "")
        self.program("bench-beside_another", "true")

    def program(self, name, body):
        script(self.gpu / "bin" / name, body)

    def run(self, *words, **environment):
        started = time.monotonic()
        done = subprocess.run([self.gpu / "run_gpu", "--out", self.root / "out", *words], cwd=self.root, capture_output=True, text=True,
                              env={"PATH": str(self.tools), "COMPUTE_SANITIZER": "", "TMPDIR": str(self.root), "TOUCHED_KIB": "64", **environment})
        return done.returncode, done.stdout, done.stderr, time.monotonic() - started


failures = []


def check(what, good, *more):
    if not good:
        failures.append("\n".join(map(str, (f"FAILED: {what}", *more))))


def parts_of(out):
    return [line.split()[1].rstrip(",") for line in out.splitlines() if line.startswith("==== ")]


def case(name, arrange, *words, status=1, says=(), says_not=(), errors=False, environment={}, limit=None, **how):
    """Runs a folder that `arrange` has changed, and checks the status, what is said, and what is left in the folder of results."""
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(pathlib.Path(root), **how)
        arrange(folder)
        returned, out, err, took = folder.run(*(("--limit", str(limit)) if limit else ()), *words, **environment)
        check(f"{name}: the status is {status}", returned == status, returned, out, err)
        for text in says:
            check(f"{name}: it says '{text}'", text in out, out, err)
        for text in says_not:
            check(f"{name}: it does not say '{text}'", text not in out, out, err)
        check(f"{name}: standard error has something only if it should", bool(err) == errors, err)
        left = sorted(path.name for path in (folder.root / "out").iterdir())
        check(f"{name}: one archive and one page are left", left == ["run_gpu.tgz", "summary.txt"], left)
        page = (folder.root / "out/summary.txt").read_text()
        check(f"{name}: the page is printed last", out.endswith(page), page, out)
        if status == 77:
            check(f"{name}: the page says why nothing was run", says[0] in page, page)
        check(f"{name}: the page is one", len(page) <= 9000, len(page))
        with tarfile.open(folder.root / "out/run_gpu.tgz") as archive:
            packed = {pathlib.PurePath(entry.name).name: archive.extractfile(entry).read().decode() for entry in archive if entry.isfile()}
        check(f"{name}: the archive has the page and the results", packed["summary.txt"] == page and "results.txt" in packed, list(packed))
        check(f"{name}: nothing is left elsewhere", not list(folder.root.glob("tmp.*")))
        if limit:
            check(f"{name}: it ends within its {limit} s", took <= limit, took, out)
        return out, page, packed


ORDER = ["semantics", "truth", "tests", "conformance", "sanitizers", "examples", "benchmarks", "demo"]


def replaced(name, body):
    return lambda folder: folder.program(name, body)


def all_is_well():
    out, page, packed = case("all is well", lambda folder: None, status=0, environment={"TOUCHED_KIB": ""}, says=(
        "NVIDIA Pretended", "passed   semantics: captures", "passed   gpu_truth loader 0.10 s: 2 MB", "skipped  gpu_truth limits: one device",
        "passed   test-core (3 test cases)", "passed   test-pool (3 test cases)", "skipped  1 files of tests",
        "passed   conformance-001: a case", 'passed   conformance-002: an array[2], "quoted"', "passed   conformance-003: free bytes are exact",
        "passed   memcheck of test-buffer (no finding)", "passed   memcheck of gpu_truth (no finding)", "passed   initcheck of test-buffer",
        "skipped  test-training (it is not in this folder)",
        "passed   hello prints what it says", "skipped  quiet (it says nothing of what it prints)", "skipped  left (it is not in this build)",
        "passed   PyTorch on cuota", "passed   beside_another", "passed   CUDA's own rates: pages", "passed   bench-pool",
        "passed   the table of the benchmarks", "passed   PyTorch, step-expandable", "passed   train offload:50 (ndebug-offload-50)",
        "passed   demo: device bytes 100", "passed   train offload:50 (demo-offload-50): driver's bytes 110", " 0 failed, "))
    check("the parts come in order", parts_of(out) == ORDER, out)
    check("test-simulator is run by cases only", "test-simulator" not in page.replace("conformance", ""), page)
    for text in ("clocks before: 1980 MHz", "clocks after: 1980 MHz", "CUDA: fact  asked for bandwidth", "PyTorch, loader: pytorch_peers.py loader"):
        check(f"the page has the figure '{text}'", text in page, page)
    check("the archive has each log", {"test-pool.txt", "conformance-turn-1.txt", "bench-pool.json", "left_out.txt"} <= set(packed), list(packed))


def what_a_machine_lacks():
    case("no GPU", lambda folder: script(folder.tools / "nvidia-smi", "exit 9"), status=77, says=("SKIPPED: run_gpu (nvidia-smi shows no GPU",))
    case("no driver", lambda folder: (folder.tools / "nvidia-smi").unlink(), status=77, says=("SKIPPED: run_gpu",))
    case("a driver that is too old", replaced("cuda_questions", "echo 'no kernel of this program runs here: cudaErrorInsufficientDriver'; exit 77"),
         status=77, says=("SKIPPED: run_gpu (no kernel of this program runs here: cudaErrorInsufficientDriver)",), says_not=("test-core",))
    case("a library is missing", replaced("cuda_questions", "echo 'libx.so: cannot open' >&2; exit 127"),
         says=("libx.so: cannot open", "FAILED   programs of this folder do not start here"))
    case("no Python", replaced("test-pool", f"[ \"$1\" = '~[python]' ] || exit 1; {PASSES}"), "tests", "examples", "benchmarks", status=0, python=False,
         says=("passed   test-pool", "skipped  the tests of [python]", "skipped  PyTorch on cuota (no python3", "passed   bench-pool",
               "skipped  the table of the benchmarks", "skipped  PyTorch's figures (no python3", "passed   train naive:100 (ndebug-naive-100)"))
    case("no PyTorch", lambda folder: [(folder.gpu / name).write_text("print('SKIPPED: PyTorch is not installed'); raise SystemExit(77)")
                                       for name in ("pytorch_allocator.py", "pytorch_peers.py", "library_memory.py")], "examples", "benchmarks", status=0,
         says=("skipped  PyTorch on cuota (SKIPPED: PyTorch is not installed)", "skipped  PyTorch, step (SKIPPED: PyTorch is not installed)"))
    case("no sanitizer", lambda folder: (folder.tools / "compute-sanitizer").unlink(), "sanitizers", status=0, says=(
        "skipped  compute-sanitizer memcheck", "skipped  compute-sanitizer initcheck", "0 passed, 0 failed, 2 skipped"))
    case("a sanitizer that does not know the device", lambda folder: script(folder.tools / "compute-sanitizer",
                                                                            "echo '========= Error: Device not supported'; exit 1"),
         "sanitizers", status=0, says=("skipped  compute-sanitizer (it does not work on this machine: status 1: ========= Error: Device not supported)",))
    case("no cuBLAS", lambda folder: script(folder.tools / "ldd", "printf '\\tlibcublas.so.99 => not found\\n'"), "benchmarks", status=0,
         says=("skipped  train-ndebug (libcublas.so.99 is neither in a toolkit nor in a package of python3's)", "passed   bench-pool"))


def a_program_fails():
    out, page, _ = case("a test fails", replaced("test-pool", FAILS), "tests", says=(
        "passed   test-core", "FAILED   test-pool (status 3)", "| tests/pool/frame.cpp:12: FAILED:", "|   8 == 0", "3 passed, 1 failed, 1 skipped"))
    check("the page begins with the failure", page.index("FAILED   test-pool") < page.index("skipped"), page)
    case("a test crashes", replaced("test-pool", "kill -SEGV $$"), "tests", says=("FAILED   test-pool (signal 11)", "passed   test-core"))
    case("139 tests fail", replaced("test-pool", "echo 'assertions: 139 | 139 failed'; exit 139"), "tests", says=("FAILED   test-pool (status 139)",))
    case("a test is skipped", replaced("test-pool", f"echo 'CUOTA_SKIPPED: two devices share: one device'; {PASSES}"), "tests", status=0,
         says=("skipped  test-pool: two devices share: one device", "4 passed, 0 failed, 2 skipped"))
    case("a case fails", replaced("test-simulator", cases("[[ $1 != 'an array'* ]] || { echo 'x.cpp:1: FAILED:'; exit 1; }")), "conformance",
         says=("passed   conformance-001: a case", 'FAILED   conformance-002: an array[2], "quoted" (status 1)', "| x.cpp:1: FAILED:",
               "passed   conformance-003: free bytes are exact", "2 passed, 1 failed, 0 skipped"))
    case("a case crashes", replaced("test-simulator", cases("[ \"$1\" != 'free bytes are exact' ] || kill -SEGV $$")), "conformance",
         says=("FAILED   conformance-003: free bytes are exact (signal 11)", "2 passed, 1 failed, 0 skipped"))
    case("a case fails behind another one only", replaced("test-simulator", cases("[ \"${failed:=$1}\" = \"$1\" ] || exit 1")), "conformance", status=0,
         says=("3 passed, 0 failed, 0 skipped",))
    case("cases are left out", replaced("test-simulator", CASES.replace("done < \"$5\"", "break; done < \"$5\"")), "conformance", status=0,
         says=("passed   conformance-002", "3 passed, 0 failed, 0 skipped"))
    case("a case is skipped", replaced("test-simulator", cases("[ \"$1\" != 'a case' ] || printf '<Open '; [ \"$1\" != 'a case' ] || echo 'CUOTA_SKIPPED: a case: one device'")),
         "conformance", status=0, says=("skipped  conformance: a case: one device", "3 passed, 0 failed, 1 skipped"))
    case("cases cannot be listed", replaced("test-simulator", "exit 127"), "conformance", says=("FAILED   conformance: the names of the cases",))
    case("a part of the truth fails", replaced("gpu_truth", TRUTH + "; [ $1 != loader ] || { echo 'FAILED loader: 3 != 4'; exit 1; }"), "truth",
         says=("FAILED   gpu_truth loader (status 1)", "| FAILED loader: 3 != 4", "skipped  gpu_truth limits", "0 passed, 1 failed, 1 skipped"))
    case("a question fails", replaced("cuda_questions", "[ $1 != waits ] || { echo '!! line 3: cudaFree'; exit 3; }; echo fact"), "semantics",
         says=("FAILED   semantics: waits (status 3)", "| !! line 3: cudaFree", "8 passed, 1 failed, 0 skipped"))
    case("a sanitizer finds something",
         lambda folder: script(folder.tools / "compute-sanitizer",
                               "case \"$*\" in *memcheck*facts) ;; *memcheck*) echo '========= ERROR SUMMARY: 2 errors'; exit 86;; esac"), "sanitizers",
         says=("FAILED   memcheck of test-buffer (status 86)", "| ========= ERROR SUMMARY: 2 errors", "passed   initcheck of test-buffer"))
    case("what is chosen is run, and no more", lambda folder: None, "tests", "sanitizers", status=0,
         environment={"TOOLS": "memcheck", "PROGRAMS": "pool"}, says=("passed   test-pool", "passed   memcheck of test-pool", "2 passed, 0 failed, 1 skipped"))
    case("an example prints something else", replaced("hello", "echo '[1] hello'; echo twice"), "examples",
         says=("FAILED   hello prints something else than it says",))
    case("an example prints more", replaced("hello", "echo '[1] hello, whole * \\\\ world?'; echo twice; echo thrice"), "examples",
         says=("FAILED   hello prints something else than it says",))
    case("an example fails", replaced("hello", "exit 4"), "examples", says=("FAILED   hello (status 4)",))
    case("the driver refuses first", replaced("bench-beside_another", "exit 1"), "examples", says=("FAILED   beside_another (status 1)",))
    case("PyTorch fails", lambda folder: (folder.gpu / "pytorch_allocator.py").write_text("raise SystemExit(1)"), "examples",
         says=("FAILED   PyTorch on cuota (status 1)",))
    case("a strategy has other losses", replaced("train", DEMO.replace("loss 0.5'", "loss '$*")), "demo",
         says=("passed   train naive:100 (demo", "FAILED   train micro:50 (demo-micro-50): its losses are not those of naive", "passed   train half:100"))
    case("a strategy fails", replaced("train", "case \"$*\" in *offload*) exit 1;; esac\n" + DEMO), "demo",
         says=("FAILED   train offload:50 (demo-offload-50) (status 1)", "passed   train auto:25"))
    case("a benchmark fails", replaced("bench-pool", "exit 1"), "benchmarks", says=("FAILED   bench-pool (status 1)", "passed   bench-buffer"))
    case("a benchmark says that it failed", replaced("bench-pool", BENCHMARK % json.dumps({"error_occurred": True, "run_name": "pair", "run_type": "x"})),
         "benchmarks", says=("FAILED   bench-pool (a benchmark says that it failed)",))


def a_limit_and_a_program_that_hangs():
    out, _, _ = case("a program hangs", lambda folder: [folder.program(name, "sleep 1000") for name in ("test-core", "test-pool", "gpu_truth")], limit=24,
                     status=0, says=("passed   semantics: facts", "skipped  gpu_truth --list (no time was left: it was stopped after", "skipped  test-core (no time was left)"))
    check("with a limit the parts come in the same order", parts_of(out) == ORDER, out)


def a_limit_and_a_case_that_hangs():
    case("a case hangs", replaced("test-simulator", cases("[ \"$1\" != 'a case' ] || sleep 1000")), "conformance", "demo", limit=50,
         says=("FAILED   conformance-001: a case (it printed nothing for 20 s)", "passed   conformance-003: free bytes are exact",
               "passed   train half:100"))


def a_limit_and_programs_that_end():
    case("a program crashes within the limit", replaced("test-pool", "kill -SEGV $$"), "tests", limit=60, says=("FAILED   test-pool (signal 11)", "passed   test-core"))
    case("a program fails within the limit", replaced("test-pool", FAILS), "tests", limit=60, says=("FAILED   test-pool (status 3)", "|   8 == 0"))
    case("much is printed", replaced("test-pool", "head -c 3000000 /dev/zero | tr '\\0' x; exit 1"), "tests", limit=60, says=("FAILED   test-pool (status 1)",))
    case("there are many figures", replaced("cuda_questions", "seq 3000 | sed 's/^/a long line with a figure: /'"), "semantics", limit=60, status=0)
    _, page, _ = case("much fails", lambda folder: [folder.program(f"test-{n}", FAILS) for n in range(40)], "tests", limit=120, says=("FAILED   test-0 (status 3)", "4 passed, 40 failed, 1 skipped"))
    check("the page has a list of failures first", all(text in page for text in ("FAILED   10 more, in run_gpu.tgz", "| tests/pool/frame.cpp:12", "skipped  1 files")), page)


def a_limit_and_no_time():
    case("no time is left", replaced("cuda_questions", "sleep 12"), limit=20, status=0, says=(
        "skipped  semantics: facts (no time was left)", "skipped  test-core (no time was left)", "skipped  compute-sanitizer (no time was left)",
        "skipped  conformance (no time was left)", "skipped  PyTorch on cuota (no time was left)", "skipped  train half:100 (demo-half-100) (no time was left)", "0 passed, 0 failed"))
    case("a program is stopped when no time is left", replaced("test-pool", "sleep 1000"), "tests", limit=16, status=0,
         says=("skipped  test-pool (no time was left: it was stopped after", "passed   test-core"))


def a_limit_and_programs_that_do_not_end():
    case("a program that no signal ends", replaced("test-pool", "trap '' TERM; sleep 1000; sleep 1000"), "tests", limit=16, status=0,
         says=("skipped  test-pool (no time was left: it was stopped after", "passed   test-core"))
    # As where the driver does not let a process go: timeout itself waits on.
    case("a program that even SIGKILL does not end", lambda folder: (
        script(folder.tools / "timeout", "shift 2; case $* in */test-pool) exec sleep 40;; esac; \"$@\"")), "tests", limit=16,
        says=("FAILED   run_gpu was ended while something ran", "passed   test-core"))


def packed(folder):
    subprocess.run(["tar", "-C", folder.gpu, "-czf", folder.gpu / "programs.tar.gz", "bin"], check=True)
    shutil.rmtree(folder.gpu / "bin")


def the_folder():
    case("the programs are packed", packed, "tests", status=0, says=("passed   test-core", "4 passed, 0 failed, 1 skipped"))
    case("the programs are not there", lambda folder: shutil.rmtree(folder.gpu / "bin"), "tests",
         says=("FAILED   the programs could not be unpacked",))
    # The table is of what the programs left.
    pairs = [{"run_name": f"pair<{peer}>/holes:10/bytes:512", "run_type": "iteration", "cpu_time": spent, "real_time": spent, "time_unit": "ns"}
             for peer, spent in (("our_pool", 20), ("runtime_async", 400))]
    printed, _, _ = case("the table", replaced("bench-pool", BENCHMARK % ", ".join(map(json.dumps, pairs))), "benchmarks", status=0, says=("not run: ",))
    replaced_by = BENCHMARK % ""
    case("RMM was named", lambda folder: folder.program("bench-rmm", replaced_by), "benchmarks", status=0,
         says=("passed   bench-rmm", "beside RMM: pair, 512 B, 10 holes"))
    row = next((line.split("  ") for line in printed.splitlines() if line.startswith("pool: pair, 512 B, 10 holes")), [])
    check("the table has the figures", [word.strip() for word in row if word][1:] ==
          ["20 ns", "cudaMallocAsync", "400 ns", "0.05", "<= 25 ns", "met"], row, printed)
    for words in (["everything"], ["--limit", "soon"], ["--limit", "14"]):
        with tempfile.TemporaryDirectory() as root:
            folder = Folder(pathlib.Path(root))
            returned, out, _, _ = folder.run(*words)
            check(f"{words} is answered by the usage", returned == 1 and out.startswith("run_gpu [--out DIR]"), returned, out)
            check("and runs nothing", not (folder.root / "out").exists())


GROUPS = (a_limit_and_a_program_that_hangs, a_limit_and_a_case_that_hangs, a_limit_and_no_time, a_limit_and_programs_that_do_not_end,
          a_limit_and_programs_that_end, all_is_well, what_a_machine_lacks, a_program_fails, the_folder)


def failures_of(group):
    failures.clear()
    group()
    return failures


if __name__ == "__main__":
    # In processes and not in threads: a child that one thread starts inherits, until it executes its program, the script that another thread
    # is writing, and the kernel executes no file that is open for writing (ETXTBSY).
    with concurrent.futures.ProcessPoolExecutor(len(GROUPS)) as pool:  # most of the time they sleep
        failed = [failure for of_group in pool.map(failures_of, GROUPS) for failure in of_group]
    print(*failed, sep="\n", end="\n" if failed else "")
    print(f"run_gpu: {len(failed)} checks failed" if failed else "run_gpu: all checks hold")
    sys.exit(1 if failed else 0)
