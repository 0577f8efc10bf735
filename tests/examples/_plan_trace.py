# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Driving examples/plan_trace from outside, and a checker of its plans that shares nothing with it."""

import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program = pathlib.Path(os.environ["CUOTA_TRAIN"]).with_name("plan_trace")


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def figures(done):
    """Of the one line that a run prints, as the text of each."""
    found = re.fullmatch(r"buffers=(\d+) lower_bound=(\d+) peak=(\d+) ratio=(\d+\.\d+) seconds=(\d+\.\d+)\n", done.stdout)
    check("one line of figures is printed", found, done)
    return dict(zip(("buffers", "lower_bound", "peak"), map(int, found.groups()[:3])), ratio=float(found[4]))


def most_alive(blocks):
    edges = sorted([(b[0], 1, b[2]) for b in blocks] + [(b[1], 0, -b[2]) for b in blocks])
    alive = most = 0
    for _, _, size in edges:
        alive += size
        most = max(most, alive)
    return most


def check_output(source, output, peak):
    """No two blocks overlap in time and in bytes; the highest end is the peak; the rows are the input's."""
    wanted = [{k: row[k] for k in ("id", "lower", "upper", "size")} for row in csv.DictReader(source.open(newline=""))]
    rows = list(csv.DictReader(output.open(newline="")))
    check("the output has the rows of the input, in order", [
        {k: row[k] for k in ("id", "lower", "upper", "size")} for row in rows] == wanted, output.read_text()[:500])
    blocks = [tuple(int(row[k]) for k in ("lower", "upper", "size", "offset")) for row in rows]
    for i, (from_i, until_i, size_i, at_i) in enumerate(blocks):
        check("no offset is negative", at_i >= 0)
        for from_j, until_j, size_j, at_j in blocks[:i]:
            apart = until_i <= from_j or until_j <= from_i or at_i + size_i <= at_j or at_j + size_j <= at_i
            check("no two blocks overlap", apart or size_i == 0 or size_j == 0, rows[i])
    check("the peak is the highest end", peak == max(at + size for _, _, size, at in blocks), peak)
    return blocks


def plan(path, *options):
    with tempfile.TemporaryDirectory() as out:
        output = pathlib.Path(out) / "planned.csv"
        done = run(path, "--output", output, *options)
        check("the run succeeds and says nothing on standard error", done.returncode == 0 and not done.stderr, done)
        told = figures(done)
        blocks = check_output(path, output, told["peak"])
        check("the bound is what is alive at once", told["lower_bound"] == most_alive(blocks), told)
        check("the ratio is the peak over the bound",
              abs(told["ratio"] - told["peak"] / max(told["lower_bound"], 1)) < 1e-5 or told["peak"] == 0, told)
        check("all blocks are counted", told["buffers"] == len(blocks), told)
        return told
