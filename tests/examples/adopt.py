# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/adopt: with cuota, each prints the same as before, has fewer lines of code, and names the holders of memory
when a request exceeds the limit.

docs/adopting.md states the lines of code, and shows an "after" program's refusal in full.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from _plan_trace import check, program

root = pathlib.Path(__file__).parents[2]
page = (root / "docs" / "adopting.md").read_text()
# The unkindness stale-errors is left out: the programs without cuota check their launches by cudaGetLastError. They also free memory
# that kernels still use, and rely on cudaFree to wait: free-at-once is for the programs with cuota alone.
modes = ({"CUOTA_SIM_CHECKS": "strict"}, {"CUOTA_SIM_SCHEDULE": "late:1"}, {"CUOTA_SIM_SCHEDULE": "late:2"},
         {"CUOTA_SIM_UNKIND": "serial-host,free-at-once"})
without_modes = {key: value for key, value in os.environ.items() if not key.startswith("CUOTA_SIM_")}

# For each pair: lists of arguments that both programs accept, arguments that exceed a limit, and the text of the refusal.
pairs = {
    "trainer": ([(), (64,), (1000,)], (256, "100KiB"), r"cannot allocate 256\.0 KiB for inputs at trainer_after\.cpp:\d+: .* free"),
    "array": ([(), (1,), (3000, 1)], (5000, 1), r"cannot allocate 1\.2 MiB for inputs at array_after\.cpp:\d+: 1\.0 MiB free"),
    "pool": ([(), (1,), (100_000, 2)], (500_000, 1), r"cannot allocate 1\.9 MiB for scratch at pool_after\.cpp:\d+: 1\.0 MiB free"),
}


def run(name, arguments, mode):
    """The finished process, and the report of the simulated device; None in place of the report of a real device."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        done = subprocess.run([program.with_name(name), *map(str, arguments)], capture_output=True, text=True,
                              env={**without_modes, "CUOTA_SIM_RACES": "fatal", "CUOTA_SIM_MISUSE": "fatal",
                                   "CUOTA_SIM_REPORT": str(report), **mode})
        return done, dict(line.split("=", 1) for line in report.read_text().splitlines()) if report.exists() else None


def without_free_at_once(mode):
    return {key: value.removesuffix(",free-at-once") for key, value in mode.items()}


def check_nothing_is_left(name, report, *shown):
    if report is not None:
        left = {key: value for key, value in report.items()
                if (key.startswith("live_") or key in ("misuse", "races")) and value != "0"}
        check(f"{name} leaves nothing allocated, and has no race and no misuse",
              "live_device_allocations" in report and not left, left, *shown)


def expected_of(source):
    """The output that the comment at the top of a source states."""
    comment = source.read_text().split("Expected output:\n", 1)[1].split("#include", 1)[0]
    return "".join(line + "\n" for line in re.findall(r"^///     (.*)$", comment, re.M))


def lines_of_code(source):
    return sum(1 for line in source.read_text().splitlines() if line.strip() and not line.strip().startswith("//"))


for name, (runs, too_much, refusal) in pairs.items():
    before, after = f"{name}_before", f"{name}_after"
    sources = [root / "examples" / "adopt" / f"{one}.cpp" for one in (before, after)]
    for mode in modes:
        for arguments in runs:
            outputs = []
            for one, source in zip((before, after), sources):
                done, report = run(one, arguments, without_free_at_once(mode) if one == before else mode)
                check(f"{one} succeeds, and prints nothing to standard error",
                      done.returncode == 0 and not done.stderr, arguments, mode, done)
                check_nothing_is_left(one, report, arguments, mode)
                if report is not None and not arguments:
                    check(f"{one} prints the output that its comment states", done.stdout == expected_of(source), mode,
                          done.stdout)
                outputs.append(done.stdout)
            check(f"{before} and {after} print the same", outputs[0] == outputs[1] and outputs[0], arguments, mode, *outputs)
        done, report = run(after, too_much, mode)
        check(f"{after} handles the refusal", done.returncode == 2, mode, done)
        check(f"{after} prints the refusal",
              re.search(r"cuota::budget_exceeded: " + refusal + r"\n(  .*\n)+\Z", done.stderr), mode, done.stderr)
        check_nothing_is_left(after, report, too_much, mode)
        if name != "trainer":  # which has no limit without cuota
            done, report = run(before, too_much, without_free_at_once(mode))
            check(f"{before} handles its limit, and prints one line",
                  done.returncode == 2 and len(done.stderr.splitlines()) == 1, mode, done)
            check_nothing_is_left(before, report, too_much, mode)

    counts = [lines_of_code(source) for source in sources]
    check(f"{after} has fewer lines of code", counts[1] < counts[0], counts)
    links = [f"[{count}](../examples/adopt/{one}.cpp)" for count, one in zip(counts, (before, after))]
    check(f"docs/adopting.md states the lines of code of {name}", " | ".join(links) in page, links)

# ---- The page's refusal, which names the lines of array_after.cpp.
command = "```text examples/adopt/array_after.cpp\n$ ./array_after 5000 1\n"
check("docs/adopting.md shows a refusal", command in page)
done, report = run("array_after", (5000, 1), {})
if report is None:
    print("SKIPPED: reports of leaks, races and misuse, and the texts in comments and on the page: this build runs on a GPU")
else:
    shown = page.split(command)[1].split("```\n")[0]
    check("docs/adopting.md shows the refusal of array_after", done.stderr == shown, done.stderr, shown)
