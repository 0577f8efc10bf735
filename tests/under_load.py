#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the suite several times in each form while the machine is busy: no test may depend on the machine's load.

under_load.py [--times=N] [--forms=NAME,...] [--labels=PATTERN] [--jobs=N] [--builds=DIR] [--idle]

--times   how often each form runs; 1
--forms   of plain, strict, late, asan, tsan; all of them
--labels  only tests with such a label: a regular expression
--jobs    tests that run side by side; one more than processors
--builds  the folder of the builds dev, asan and tsan; build
--idle    without what keeps the machine busy: for the tests of this script

Beside the tests, two processes compute and one compiles again and again. Prints the output of each test that failed, and the name of each
that took more than half of its time limit. Exit status 1 if a test failed or ran into its limit, or if a form has no test.
"""
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lint"))
import _lint  # noqa: E402

FORMS = {"plain": ("dev", {}), "strict": ("dev", {"CUOTA_SIM_CHECKS": "strict"}), "late": ("dev", {"CUOTA_SIM_SCHEDULE": "late:{turn}"}),
         "asan": ("asan", {}), "tsan": ("tsan", {})}
LINTS = "^lint$"
WITHOUT_MODES = "^(lint|compile_fail|model|scripts|own_modes)$"  # as make modes: a mode changes nothing for them, or they choose it themselves
CTESTS_OWN = 1500  # seconds, the limit of a test that names none
COMPILED = shlex.quote('#include <regex>\nbool f(char const* x) { return std::regex_match(x, std::regex{"a*b"}); }\n')


def option(name, default):
    return _lint.option(name) or default


@contextlib.contextmanager
def load():
    """The processes that keep the machine busy."""
    if "--idle" in sys.argv:
        yield
        return
    compiler = os.environ.get("CXX", "c++")
    once = ["", "", f"printf %s {COMPILED} | {compiler} -std=c++20 -O2 -x c++ -c -o /dev/null - || exit"]
    running = [subprocess.Popen(["bash", "-c", f"while :; do :; {one}\ndone"], start_new_session=True) for one in once]
    try:
        yield
        if ended := [one for one in running if one.poll() is not None]:
            sys.exit(f"{len(ended)} of the {len(running)} processes that were to keep the machine busy have ended")
    finally:
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def run(form, turn):
    """Returns the number of tests, those that failed with their output, and those that came near their limits with their seconds."""
    build, variables = FORMS[form]
    ctest = ["ctest", "--test-dir", pathlib.Path(option("builds", "build")) / build,
             "--label-exclude", WITHOUT_MODES if variables else LINTS]
    if option("labels", ""):
        ctest += ["--label-regex", option("labels", "")]
    told = subprocess.run([*ctest, "--show-only=json-v1"], capture_output=True, text=True)
    limits = {one["name"]: next((each["value"] for each in one.get("properties", []) if each["name"] == "TIMEOUT"), CTESTS_OWN)
              for one in json.loads(told.stdout)["tests"]} if told.returncode == 0 else {}
    if not limits:
        sys.exit(f"{form}: {ctest[2]} has no such tests\n{told.stderr}")
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        subprocess.run([*ctest, "--parallel", option("jobs", str((os.cpu_count() or 1) + 1)), "--output-junit", report], stdout=subprocess.DEVNULL,
                       env={**os.environ, **{name: value.format(turn=turn) for name, value in variables.items()}})
        tests = [one for one in xml.etree.ElementTree.parse(report).iter("testcase") if one.get("status") != "disabled"]
    failed = [(one.get("name"), one.findtext("system-out") or "") for one in tests if one.get("status") == "fail"]
    slow = [(one.get("name"), float(one.get("time"))) for one in tests if float(one.get("time")) > limits[one.get("name")] / 2]
    return len(tests), failed, slow


forms = option("forms", ",".join(FORMS)).split(",")
if unknown := set(forms) - set(FORMS):
    sys.exit(f"there are no forms {', '.join(sorted(unknown))}; there are {', '.join(FORMS)}")
failures = 0
with load():
    for turn in range(1, int(option("times", "1")) + 1):
        for form in forms:
            began = time.monotonic()
            tests, failed, slow = run(form, turn)
            failures += len(failed)
            print(f"{form}, turn {turn}: {tests} tests, {len(failed)} failed, in {time.monotonic() - began:.0f} s", flush=True)
            for name, output in failed:
                print(f"FAILED: {form}: {name}\n{output}", flush=True)
            for name, seconds in slow:
                print(f"SLOW: {form}: {name} took {seconds:.0f} s, more than half of its limit", flush=True)
print(f"{failures} failed")
sys.exit(1 if failures else 0)
