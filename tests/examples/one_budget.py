# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/one_budget holds at its peak what it planned, to the byte, and is refused when a byte is lacking."""

import os
import pathlib
import re
import subprocess
import sys

program = pathlib.Path(os.environ["CUOTA_TRAIN"]).with_name("one_budget")
if not program.exists():
    print("SKIPPED: this build has no examples/one_budget (Thrust was not found)")
    sys.exit(77)


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


done = run()
check("it succeeds", done.returncode == 0 and not done.stderr, done)
held = re.search(r"^held at the most what was planned: (\d+) bytes$", done.stdout, re.M)
check("it says what it held", held, done.stdout)
planned = int(held[1])
check("that is more than its two arrays", planned > 8_000_000, planned)
check("the numbers are right", "odd: 500000 of 1000000; sums by " in done.stdout, done.stdout)
check("each part was planned, and measured", all(len(re.findall(rf"^ +{part} ", done.stdout, re.M)) == 2
                                                 for part in ("flags", "sums", "cub")), done.stdout)
check("nothing was left", ", 0 not freed" in done.stdout, done.stdout)

done = run("--limit", planned)
check("a limit of the plan is enough", done.returncode == 0 and not done.stderr, done)
done = run("--limit", planned - 1)
check("a byte less is refused", done.returncode == 1, done)
check("the refusal has numbers and a place", re.search(
    r"^one_budget: cuota::budget_exceeded: cannot allocate .* for plan at one_budget\.cpp:\d+: [\d']+ bytes free$",
    done.stderr, re.M), done.stderr)
check("nothing was run", "odd:" not in done.stdout, done.stdout)
for wrong in (("--limit",), ("--limit", "much"), ("--budget", "1")):
    done = run(*wrong)
    check(f"{wrong} makes no sense", done.returncode == 2 and "usage: one_budget" in done.stderr, done)
