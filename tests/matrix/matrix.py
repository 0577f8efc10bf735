#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles cuota with the headers of every CUDA Toolkit, by every compiler and for aarch64, runs what can run, and prints one table.

matrix.py [--only=REGEX] [--jobs=N] [--json=FILE] [--text=FILE] [--source=FOLDER] [--work=FOLDER]
matrix.py --records=FILE,... [--only=REGEX] [--json=FILE] [--text=FILE]
matrix.py --list [--only=REGEX]
matrix.py --needs [--only=REGEX]

--only chooses rows by their names; --list prints the names. --needs prints what the rows need, for packaging/setup matrix: cuda-12.0
is a toolkit, other words are Debian's packages. The JSON file has the finished rows at any time; --records prints one table of such
files. A row that lacks something is skipped by name. The status is 1 if a row failed, 2 if
no row passed, else 0.
"""
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree


HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "packaging"))
from _run import Failed, Skipped, option, run, say, tool, write  # noqa: E402

SOURCE = pathlib.Path(option("source", HERE.parents[1])).resolve()
WORK = pathlib.Path(option("work", SOURCE / "build" / "matrix")).resolve()
JOBS = int(option("jobs", os.cpu_count()))
INCLUDE = SOURCE / "include"
PARTS = sorted((INCLUDE / "cuota" / "parts").glob("*.cpp"))

TOO_OLD = "11.8"
TOOLKITS = ["12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9", "13.0", "13.1", "13.2", "13.3", "13.4"]
OLDEST, USUAL = TOOLKITS[0], "13.0"  # USUAL: of the rows about compilers and machines
COMPILERS = ["g++-11", "g++-12", "g++-13", "g++-14", "clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++-19",
             "clang++-22"]
STANDARDS = {"C++20": "-std=c++20", "C++23": "-std=c++2b"}  # c++2b is the name that g++ 11 and clang 14 accept
CROSS_COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"  # aarch64.cmake has its options
CROSS_FLAGS = "-O1 -g0 -w"  # with -O1, g++ 12 reports array bounds and overflows inside of std::string's own functions
CROSS_PACKAGES = ["g++-aarch64-linux-gnu", "qemu-user"]
CROSS_TESTS = ["core", "guard", "pool", "buffer"]
FEWEST_CROSS_TESTS = 500
NOT_UNDER_QEMU = {}  # test case: reason

WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Werror".split()
# g++ collects garbage too often by default. clang 17 and later report that std::stable_sort of libstdc++ 12 calls a deprecated function.
OWN_FLAGS = {"g++": ["--param=ggc-min-heapsize=1000000"], "clang++": ["-Wno-deprecated-declarations"]}


# ---- Rows: each is a function that returns what was run, and what was compiled is its text.
class Row:
    def __init__(self, name, compiled, needs, function, *, compiler, toolkit, standard="C++20", machine=platform.machine()):
        self.name, self.compiled, self.needs, self.function = name, compiled, needs, function
        self.compiler, self.toolkit, self.standard, self.machine = compiler, toolkit, standard, machine


rows = []


def row(name, compiled, needs, **facts):
    def keep(function):
        rows.append(Row(name, compiled, needs, function, **facts))
        return function
    return keep


def toolkit_folder(version):
    """The folder into which packaging/setup matrix fetches the toolkit's headers."""
    folder = SOURCE / "build" / "toolkits" / version
    if not (folder / "include" / "cuda_runtime_api.h").is_file():
        folder = HERE.parents[1] / "build" / "toolkits" / version  # --source: a copy of this tree
    if not (folder / "include" / "cuda_runtime_api.h").is_file():
        raise Skipped(f"no headers of CUDA {version}: packaging/setup matrix cuda-{version}")
    return folder


def toolkit_version(version):
    try:
        return (toolkit_folder(version) / "version.txt").read_text().split()[-1]
    except Skipped:
        return version


def compiler_version(name):
    return re.search(r"\d+\.\d+\.\d+", run(name, "--version"))[0] if shutil.which(name) else ""


def line(compiler, standard, version):
    """A compiler and its flags."""
    kind = "clang++" if "clang" in compiler else "g++"
    return [tool(compiler), STANDARDS[standard], *WARNINGS, *OWN_FLAGS[kind], "-isystem", toolkit_folder(version) / "include",
            f"-I{INCLUDE}"]


def read_all_headers(work, compiler, standard, version):
    """Definitions in place."""
    run(*line(compiler, standard, version), "-fsyntax-only", write(work / "all.cpp", "#include <cuota/all.hpp>\n"))


def compile_parts(work, compiler, standard, version):
    """Returns the objects of the library's definitions."""
    objects = []
    for part in PARTS:
        objects.append(work / f"{part.stem}.o")
        run(*line(compiler, standard, version), "-fPIC", "-c", part, "-o", objects[-1])
    return objects


def compile_simulator(work, compiler, standard, version):
    """Returns the library. Several sources share a file, as in the build: its headers take most of the time."""
    sources = sorted((INCLUDE / "cuota" / "simulator").glob("*.cpp"))
    objects = []
    for first in range(0, len(sources), 9):
        text = "".join(f'#include "{source}"\n' for source in sources[first:first + 9])
        objects.append(work / f"simulator_{first}.o")
        run(*line(compiler, standard, version), "-fPIC", "-fvisibility=hidden", "-fno-omit-frame-pointer", "-c",
            write(work / f"simulator_{first}.cpp", text), "-o", objects[-1])
    library = work / "libsimulator.so"
    run(compiler, "-shared", *objects, "-o", library, "-ldl", "-pthread")
    return library


def run_program(work, compiler, standard, version):
    """Without optimization, where a file needs more of the definitions' symbols."""
    objects = compile_parts(work, compiler, standard, version)
    simulator = compile_simulator(work, compiler, standard, version)
    program = work / "program"
    run(*line(compiler, standard, version), "-DCUOTA_SEPARATE_COMPILATION=1", HERE / "program.cpp", *objects, simulator, "-ldl", "-pthread",
        f"-Wl,-rpath,{work}", "-o", program)
    run(program, env={**os.environ, "CUOTA_SIM_DEVICES": "2"})
    return "program"


# ---- Toolkits.
@row(f"toolkit {TOO_OLD}, refused", "all.hpp", [f"cuda-{TOO_OLD}"], compiler="g++", toolkit=TOO_OLD)
def _(work):
    run(*line("g++", "C++20", TOO_OLD), "-fsyntax-only", write(work / "all.cpp", "#include <cuota/all.hpp>\n"),
        fails_with=rf'error "?cuota needs the headers of the CUDA Toolkit, {re.escape(OLDEST)} or later')


def add_toolkit(version):
    facts = {"compiler": "g++", "toolkit": version}

    @row(f"toolkit {version}, headers", "all.hpp", [f"cuda-{version}"], **facts)
    def _(work):
        read_all_headers(work, "g++", "C++20", version)

    @row(f"toolkit {version}, program", "4 parts, simulator, program", [f"cuda-{version}"], **facts)
    def _(work):
        return run_program(work, "g++", "C++20", version)


for each in TOOLKITS:
    add_toolkit(each)


def configure(folder, version, *options):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run(tool("cmake"), "-S", SOURCE, "-B", folder, *generator, *launcher, f"-DCUDAToolkit_ROOT={toolkit_folder(version)}",
        "-DCUOTA_RUNTIME=SIMULATED", "-DCUOTA_BUILD_EXAMPLES=OFF", "-DCUOTA_MPI=OFF", "-DCUOTA_TEST_BY_FILE=OFF", *options)


def build(folder, *targets):
    run("cmake", "--build", folder, "--parallel", JOBS, "--target", *targets, timeout=7200)


def run_tests(name, folder, layer):
    """Returns how many test cases ran. Names the skipped ones. CTest starts a process for each test case: qemu's memory grows with every
    address that a process has ever mapped."""
    left_out = NOT_UNDER_QEMU if folder.name == "aarch64" else {}
    for case, why in left_out.items():
        if case.startswith(f"{layer}."):
            say(f"SKIPPED: {name}: {case}: {why}")
    exclude = ["-E", "|".join(f"^{re.escape(case)}$" for case in left_out)] if left_out else []
    results = folder / f"{layer}.xml"
    results.unlink(missing_ok=True)
    done = subprocess.run(["ctest", "--test-dir", folder, "-R", rf"^{layer}\.", *exclude, "--parallel", str(JOBS), "--output-on-failure",
                           "--output-junit", results], text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode or not results.exists():
        failures = re.findall(r"^.*\*\*\*.*$", done.stdout, re.M)
        raise Failed("\n".join([*failures, done.stdout[-3000:]]))
    cases = xml.etree.ElementTree.parse(results).getroot().findall("testcase")
    for case in cases:
        if case.get("status") != "run":
            why = re.search(r"CUOTA_SKIPPED: .*?: (.*)", case.findtext("system-out") or "")
            say(f"SKIPPED: {name}: {case.get('name')}: {why[1] if why else case.get('status')}")
    return f"{sum(case.get('status') == 'run' for case in cases)} test cases"


@row(f"toolkit {OLDEST}, tests of runtime", "library, simulator, tests", [f"cuda-{OLDEST}"], compiler="g++", toolkit=OLDEST)
def _(work):
    folder = WORK / f"runtime-{OLDEST}"
    configure(folder, OLDEST, "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_CXX_FLAGS=-O0 -g0")
    build(folder, "test-runtime")
    return run_tests(f"toolkit {OLDEST}, tests of runtime", folder, "runtime")


# ---- Compilers.
def add_compiler(compiler, standard):
    package = compiler.replace("clang++", "clang")

    @row(f"{compiler}, {standard}", "all.hpp, 4 parts, simulator, program", [f"cuda-{USUAL}", package], compiler=compiler, toolkit=USUAL, standard=standard)
    def _(work):
        read_all_headers(work, compiler, standard, USUAL)
        return run_program(work, compiler, standard, USUAL)


for each in COMPILERS:
    for one in STANDARDS:
        add_compiler(each, one)


# ---- aarch64.
cross = {"compiler": CROSS_COMPILER, "toolkit": USUAL, "machine": "aarch64"}


@row("aarch64, headers", "all.hpp", [f"cuda-{USUAL}", *CROSS_PACKAGES], **cross)
def _(work):
    read_all_headers(work, CROSS_COMPILER, "C++20", USUAL)


configured = threading.Lock()


def cross_build(*targets):
    """One at a time: the folder is shared."""
    tool(CROSS_COMPILER)
    tool(EMULATOR)
    folder = WORK / "aarch64"
    with configured:
        configure(folder, USUAL, f"-DCMAKE_TOOLCHAIN_FILE={SOURCE}/tests/matrix/aarch64.cmake", f"-DCMAKE_CXX_FLAGS={CROSS_FLAGS}")
        build(folder, *targets)
    return folder


def add_cross_tests(layer):
    name = f"aarch64, tests of {layer}"

    @row(name, "library, simulator, tests", [f"cuda-{USUAL}", *CROSS_PACKAGES], **cross)
    def _(work):
        return run_tests(name, cross_build(f"test-{layer}"), layer)


for each in CROSS_TESTS:
    add_cross_tests(each)


# ---- The run.
def result_of(chosen):
    record = {"row": chosen.name, "machine": chosen.machine, "compiler": f"{chosen.compiler} {compiler_version(chosen.compiler)}".strip(),
              "standard": chosen.standard, "toolkit": toolkit_version(chosen.toolkit), "compiled": chosen.compiled, "run": "",
              "result": "passed", "reason": ""}
    work = WORK / "rows" / re.sub(r"[^\w.+]+", "-", chosen.name)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    start = time.monotonic()
    try:
        record["run"] = chosen.function(work) or ""
    except Skipped as why:
        record |= {"result": "skipped", "reason": str(why)}
        say(f"SKIPPED: {chosen.name}: {why}")
    except Exception as why:  # an unexpected one is a failure of this row, not of the others
        text = str(why) if isinstance(why, Failed) else f"{type(why).__name__}: {why}"
        record |= {"result": "failed", "reason": text[:4000]}
        say(f"FAILED: {chosen.name}: {text if len(text) < 6000 else text[:3000] + ' ... ' + text[-3000:]}")
    else:
        shutil.rmtree(work)
    record["seconds"] = round(time.monotonic() - start)
    if record["result"] == "passed":
        say(f"passed: {chosen.name} ({record['seconds']} s)")
    return record


def table(records):
    """The records as text: a column is as wide as its longest entry."""
    columns = ["row", "compiler", "toolkit", "compiled", "run", "result", "seconds"]
    lines = [columns]
    for record in records:
        result = f"skipped: {record['reason']}" if record["result"] == "skipped" else record["result"]
        seconds = "" if record["result"] == "skipped" else str(record["seconds"])
        lines.append([record["row"], record["compiler"], record["toolkit"], record["compiled"], record["run"] or "-", result, seconds])
    widths = [max(len(entries[i]) for entries in lines) for i in range(len(columns))]
    return "".join("  ".join(entry.ljust(width) for entry, width in zip(entries, widths)).rstrip() + "\n" for entries in lines)


def too_few_tests(records):
    """The tests of aarch64 that ran, if all four programs ran and these are too few."""
    counts = [int(record["run"].split()[0]) for record in records
              if record["row"].startswith("aarch64, tests") and record["result"] == "passed"]
    return f"only {sum(counts)} test cases ran for aarch64, {FEWEST_CROSS_TESTS} are required" \
        if len(counts) == len(CROSS_TESTS) and sum(counts) < FEWEST_CROSS_TESTS else ""


def write_json(records):
    if option("json"):
        pathlib.Path(option("json")).write_text(json.dumps(records, indent=1) + "\n")


def run_all(chosen):
    """In the order of the table. The JSON file is written after each row."""
    finished = {}
    writing = threading.Lock()

    def finish(one):
        record = result_of(one)
        with writing:
            finished[one.name] = record
            write_json([finished[other.name] for other in chosen if other.name in finished])
        return record

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(finish, chosen))


def recorded(chosen):
    """The rows of earlier runs, in the order of the table; of several runs of a row, the last one that was named."""
    found = {record["row"]: record for file in option("records").split(",") for record in json.loads(pathlib.Path(file).read_text())}
    return [found[one.name] for one in chosen if one.name in found]


def main():
    chosen = [one for one in rows if re.search(option("only", ""), one.name)]
    if not chosen:
        sys.exit(f"matrix.py: no row matches {option('only')}; --list prints the names")
    if "--list" in sys.argv:
        print(*(one.name for one in chosen), sep="\n")
        return 0
    if "--needs" in sys.argv:
        print(*dict.fromkeys(word for one in chosen for word in one.needs))
        return 0
    records = recorded(chosen) if option("records") else run_all(chosen)
    text = table(records)
    print(text, end="")
    counts = [record["result"] for record in records].count
    summary = f"{counts('passed')} passed, {counts('failed')} failed, {counts('skipped')} skipped"
    print(summary)
    if option("text"):
        pathlib.Path(option("text")).write_text(f"{text}{summary}\n")
    write_json(records)
    if few := too_few_tests(records):
        print(f"FAILED: {few}")
        return 1
    return 1 if counts("failed") else 0 if counts("passed") else 2


sys.exit(main())
