# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Small examples print what their first lines say, however the simulated device goes about it, and leave nothing behind.

Expected output stands in the comment at the top, four columns in from "Expected output"; "..." there is what may differ
from machine to machine. examples/README.md has each program once, with the first line of its comment. With CUOTA_TEST_DIVISOR, in the
stricter mode only.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from _plan_trace import check, program

examples = pathlib.Path(__file__).parents[2] / "examples"
modes = ({}, {"CUOTA_SIM_CHECKS": "strict", "CUOTA_SIM_SCHEDULE": "late:1"})
if int(os.environ.get("CUOTA_TEST_DIVISOR", "1")) > 1:
    modes = modes[1:]
    print("left out: the plain mode (not in the short form of make integration)")


def comment_of(source):
    """The lines of the comment at the top."""
    lines = source.read_text().split("\n\n", 1)[1].splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    return [re.sub("^///? ?", "", line) for line in lines[:end]]


def expected_of(source):
    """What the comment says is printed; None where it says nothing."""
    comment = comment_of(source)
    begin = next((i for i, line in enumerate(comment) if "Expected output" in line), None)
    block = [line[4:] for line in comment[begin + 1:] if line.startswith("    ")] if begin is not None else []
    return "".join(line + "\n" for line in block) or None


def matches(printed, expected):
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), printed) is not None


def run(name, mode):
    """What it prints; None for the report of a real device."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        done = subprocess.run([program.with_name(name)], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "CUOTA_SIM_RACES": "fatal", "CUOTA_SIM_MISUSE": "fatal",
                                   "CUOTA_SIM_REPORT": str(report), **mode})
        check(f"{name} succeeds, and nothing goes to standard error", done.returncode == 0 and not done.stderr, mode, done)
        if not report.exists():
            return done.stdout, None
        return done.stdout, dict(line.split("=", 1) for line in report.read_text().splitlines())


expected = {path.stem: expected_of(path) for path in sorted(examples.glob("*.cpp"))}
small = {name: text for name, text in expected.items() if text}
for name in sorted(small.keys() & {"library_workspaces"}):  # needs cuBLAS's header
    if not program.with_name(name).exists():
        print(f"SKIPPED: {name} (it is not in this build)")
        del small[name]
check("there are small examples", len(small) > 10, small)
for name, text in small.items():
    check("another output would be noticed", not matches(text + "more\n", text) and not matches("", text))
    for mode in modes:
        printed, report = run(name, mode)
        check(f"{name} prints what its comment says", matches(printed, text), mode, "---- it says", text, "---- it prints", printed)
        if report is None:
            break  # on a GPU there are no modes
        left = {key: value for key, value in report.items()
                if (key.startswith("live_") or key in ("misuse", "races")) and value != "0"}
        check(f"{name} leaves nothing behind, and breaks no rule", "live_device_allocations" in report and not left, mode, left)

# ---- The list of the examples is theirs.
rows = re.findall(r"^\| \[(\w+)\]\(([\w.]+)\) \| (.*) \|$", (examples / "README.md").read_text(), re.M)
check("the list has each program once", sorted(name for name, *_ in rows) == sorted(expected), rows)
for name, file, purpose in rows:
    check("a row leads to its program", file == f"{name}.cpp", file)
    check("a row says what the program's first line says", purpose == comment_of(examples / file)[0], purpose)
