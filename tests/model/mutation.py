#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Takes one step after another out of the ledger, of what threads keep ready of a pool, and of biased_lock, and wants the
model checker to notice.

    mutation.py --commands=build/dev/compile_commands.json [WORD...]

Each mutation replaces a piece of text, which must be there exactly once, in a copy of a header that is put before the
real one; the scenarios of that header, tests/model/<name>.cpp, are compiled anew and linked with the
checker as it was built.
"""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from mutations import FRONT_MUTATIONS, LEDGER_MUTATIONS, TENURED_LOCK_MUTATIONS

ALL = {"ledger": LEDGER_MUTATIONS, "thread_cache": FRONT_MUTATIONS, "biased_lock": TENURED_LOCK_MUTATIONS}
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from mutating import apply  # noqa: E402


def option(name):
    found = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith(f"--{name}=")]
    return found[-1] if found else sys.exit(f"--{name}=... is missing")


commands = pathlib.Path(option("commands")).resolve()
entries = json.loads(commands.read_text())


def object_of(e):
    words = shlex.split(e["command"])
    return pathlib.Path(e["directory"], words[words.index("-o") + 1])


checker = [object_of(e) for e in entries if "/tests/model/" in e["file"] and not e["file"].endswith(("litmus.cpp", *(f"/{name}.cpp" for name in ALL)))]
checker += [object_of(e) for e in entries if e["file"].endswith("tests/support/catch_main.cpp")]


def explore(scenarios, folder):
    """Compiles and runs the scenarios of that name with the headers in folder first."""
    mine = next(e for e in entries if e["file"].endswith(f"tests/model/{scenarios}.cpp"))
    command = shlex.split(mine["command"])
    command[command.index("-o") + 1] = str(folder / "scenarios.o")
    command = [a for a in command if a != "-Werror"]
    model = next(a for a in command if a.endswith("/tests/model"))  # what stands in for the seam stays first of all
    command[1:1] = ["-w", "-I", model.removeprefix("-I"), "-I", str(folder)]
    done = subprocess.run(command, cwd=mine["directory"], capture_output=True, text=True)
    if done.returncode:
        return "does not compile: " + done.stderr[-2000:]
    simulator = next(commands.parent.rglob("libcuota-simulator.so"))
    done = subprocess.run(["c++", "-o", folder / "scenarios", folder / "scenarios.o", *checker, simulator, f"-Wl,-rpath,{simulator.parent}",
                           "-lCatch2Main" if not any("catch_main" in str(o) for o in checker) else "-pthread"],
                          capture_output=True, text=True)
    if done.returncode:
        return "does not link: " + done.stderr[-2000:]
    try:
        done = subprocess.run([folder / "scenarios", f"[{scenarios}]~[long],[{scenarios}][more]"], capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "failed: it did not end"
    return "passed" if done.returncode == 0 else "failed"


findings = []
words = [a for a in sys.argv[1:] if not a.startswith("--")]
chosen = []
for scenarios, mutations in ALL.items():
    chosen += [(scenarios, f"nothing out of {scenarios}.cpp", None, "", "")] * (not words)
    chosen += [(scenarios, *m) for m in mutations if not words or any(w in m[0] for w in words)]
for scenarios, rule, name, old, new in chosen:
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        folder = pathlib.Path(where)
        if name:
            path = folder / "cuota" / name
            path.parent.mkdir(parents=True)
            shutil.copy(ROOT / "include" / "cuota" / name, path)
            if wrong := apply([(name, old, new)], folder / "cuota"):
                findings.append(wrong)
                continue
        end = explore(scenarios, folder)
        good = end.startswith("failed") if name else end == "passed"
        print("noticed " if good else "MISSED  ", rule, "--", end, flush=True)
        findings += [] if good else [f"{rule}: {end}"]
for finding in findings:
    print("finding:", finding)
print(f"{len(chosen)} steps taken out, {len(findings)} findings")
sys.exit(1 if findings else 0)
