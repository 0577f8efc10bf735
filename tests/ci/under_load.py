#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""tests/under_load.py runs each form as often as asked, in its mode, and names what fails, what is slow and what has no tests.

under_load.py ROOT
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
failures = 0


def case(what, tests, *words, status, says):
    """`tests` are lines of shell, a test each, in the build dev."""
    global failures
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder) / "dev"
        build.mkdir()
        (build / "CTestTestfile.cmake").write_text("".join(
            f'add_test({name} "sh" "-c" "{line}")\nset_tests_properties({name} PROPERTIES LABELS {label} TIMEOUT {limit})\n'
            for name, (line, label, limit) in tests.items()))
        run = subprocess.run([sys.executable, ROOT / "tests/under_load.py", f"--builds={folder}", *words], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode != status or not all(one in run.stdout for one in says):
        failures += 1
        print(f"FAILED: {what}: status {run.returncode}\n{run.stdout}")


case("tests that hold", {"core.one": ("true", "core", 60), "lint.two": ("false", "lint", 60)}, "--forms=plain,late", "--times=2", status=0,
     says=["plain, turn 1: 1 tests, 0 failed", "late, turn 2: 1 tests, 0 failed"])
case("a test that fails", {"core.one": ("true", "core", 60), "core.two": ("echo it was 4; false", "core", 60)}, "--idle", "--forms=plain", status=1,
     says=["plain, turn 1: 2 tests, 1 failed", "FAILED: plain: core.two\nit was 4", "1 failed"])
case("a test that fails in a mode", {"core.one": ("test -z $CUOTA_SIM_CHECKS", "core", 60)}, "--idle", "--forms=plain,strict", status=1,
     says=["plain, turn 1: 1 tests, 0 failed", "strict, turn 1: 1 tests, 1 failed"])
case("a test that chooses its mode itself", {"core.one": ("true", "core", 60), "core.two": ("false", "own_modes", 60)}, "--idle", "--forms=strict", status=0,
     says=["strict, turn 1: 1 tests, 0 failed"])
case("a test that runs into its limit", {"core.one": ("sleep 60", "core", 1)}, "--idle", "--forms=plain", status=1, says=["FAILED: plain: core.one"])
case("a test that comes near its limit", {"core.one": ("sleep 6", "core", 10)}, "--idle", "--forms=plain", status=0, says=["SLOW: plain: core.one took 6 s"])
case("a label that no test has", {"core.one": ("true", "core", 60)}, "--idle", "--forms=plain", "--labels=^pool$", status=1, says=["plain: ", "has no such tests"])
case("a form that there is not", {"core.one": ("true", "core", 60)}, "--idle", "--forms=plan", status=1, says=["there are no forms plan"])
print(f"under_load: {failures} checks failed" if failures else "under_load: all checks hold")
sys.exit(1 if failures else 0)
