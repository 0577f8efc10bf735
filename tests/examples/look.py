# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/look shows what it did: in a summary, in words, and in files that readers of their kind take."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

program = pathlib.Path(os.environ["CUOTA_TRAIN"]).with_name("look")


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "new"
    done = run("--leak", "--out", out)
    check("it succeeds", done.returncode == 0 and not done.stderr, done)
    for line in ("trainer .*64.0 MiB", "moments +11.4 MiB", r"log +4.6 MiB +\d+ % +4.6 MiB +12 ", "activations +0 B",
                 "leak in pool network: log .look.cpp:[0-9]+. grew by 390.8 KiB in each of the last 11 steps",
                 "budget trainer refused 1 request"):
        check("the summary and the words have " + line, re.search(line, done.stdout), done.stdout)
    page = (out / "timeline.html").read_text()
    check("the page names what was there", all(f'"{tag}"' in page for tag in ("weights", "activations", "log")))
    check("the page fetches nothing", not re.search(r"(src|href)=.https?:|@import|url\(http", page))
    xml.etree.ElementTree.parse(out / "timeline.svg")
    snapshot = json.loads((out / "snapshot.json").read_text())
    check("the snapshot has the pool's segments", sum(s["total_size"] for s in snapshot["segments"]) == 38 << 20, snapshot["segments"])
    check("the trace has events", len(json.loads((out / "trace.json").read_text())["traceEvents"]) > 100)
    planned = subprocess.run([program.with_name("plan_trace"), out / "lifetimes.csv"], capture_output=True, text=True)
    check("plan_trace takes the lifetimes", re.match(r"buffers=\d+ lower_bound=\d+", planned.stdout), planned)
    metrics = (out / "metrics.txt").read_text()
    check("metrics have the limit", re.search(r'^cuota_budget_limit_bytes{budget="trainer"} 67108864$', metrics, re.M), metrics)

done = run("--steps", 4)
check("without a leak none is found", done.returncode == 0 and "leak" not in done.stdout, done)
done = run("--steps", "x")
check("what is no number is refused", done.returncode == 2 and "--steps: 'x' is not a number" in done.stderr, done)
done = run("--out", "/proc/none/there")
check("a folder that cannot be is an error", done.returncode == 1 and done.stderr.startswith("look: "), done)
