# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Driving examples/train from outside: small data, one run, and what the simulated device counted."""

import gzip
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.environ.get("CUOTA_TRAIN")
if not PROGRAM:
    sys.exit("CUOTA_TRAIN must name the train program")
SKIPPED = 77  # CTest shows it as such

LIVE = ("live_device_allocations", "live_pinned_allocations", "live_streams", "live_events", "live_pools")


def idx(extents, values, kind=8):
    return bytes([0, 0, kind, len(extents)]) + struct.pack(f">{len(extents)}I", *extents) + bytes(values)


def npy(descr, shape, values):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


class Digits:
    """A few small images of three classes that differ by where they are bright."""

    def __init__(self, folder, samples=60, side=6, seed=7):
        pick = random.Random(seed)
        self.side, self.samples = side, samples
        self.labels = [pick.randrange(3) for _ in range(samples)]
        self.pixels = bytes(
            pick.randrange(60) + (180 if row * 3 // side == label else 0)
            for label in self.labels for row in range(side) for _ in range(side))
        self.images_file, self.labels_file = folder / "images.idx", folder / "labels.idx"
        self.images_file.write_bytes(idx([samples, side, side], self.pixels))
        self.labels_file.write_bytes(idx([samples], self.labels))

    def arguments(self):
        return ["--images", self.images_file, "--labels", self.labels_file]


class Run:
    """One run of the program. `sim` is what the simulated device counted; empty on a GPU."""

    def __init__(self, *arguments, fail=None, **variables):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            environment = dict(os.environ, CUOTA_SIM_REPORT=str(report), TMPDIR=folder, **variables)
            if fail:
                environment["CUOTA_SIM_FAIL"] = fail
            done = subprocess.run([PROGRAM, *map(str, arguments)], env=environment, capture_output=True, text=True)
            self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
            self.sim = dict(line.split("=", 1) for line in report.read_text().split()) if report.exists() else {}
            self.left_behind = [p.name for p in pathlib.Path(folder).iterdir() if p != report]

    def number(self, name):
        return int(self.sim[name])

    def live(self):
        return {name: self.number(name) for name in LIVE if self.number(name) != 0} if self.sim else {}

    def losses(self):
        """All but the seconds of every epoch's line."""
        return re.findall(r"^  epoch (\d+)  loss (\S+)  held-out loss (\S+)  held-out accuracy (\S+)", self.out, re.M)

    def check(self, claim, holds):
        if not holds:
            sys.exit(f"NOT SO: {claim}\nstatus {self.status}\n--- out\n{self.out}\n--- err\n{self.err}\n"
                     f"--- simulator\n{self.sim}")

    def check_success(self):
        self.check("the run succeeds", self.status == 0)
        self.check("nothing goes to standard error", self.err == "")
        self.check("every epoch prints a line", self.losses())
        self.check("nothing is alive at the end", not self.live())
        self.check("no file is left behind", not self.left_behind)
        for side in ("device", "pinned"):
            peak, planned, budget, held = map(int, re.search(
                side + r" bytes (\d+), planned (\d+), budget (\d+), held at the end (\d+)", self.out).groups())
            printed = int(re.search(rf"planned {side} bytes (\d+)", self.out)[1])
            self.check(f"the {side} peak is the plan that was printed first", peak == planned == printed)
            self.check(f"the {side} peak is inside the budget", peak <= budget)
            self.check(f"no {side} bytes are held at the end", held == 0)
            if self.sim:
                self.check(f"the simulated device counted the same {side} peak",
                           self.number(f"peak_{side}_bytes") == peak)

    def check_typed_end(self, why):
        """It ended with a typed error, or more, of its own; whatever a refusal adds in further lines is indented."""
        self.check(f"{why}: the status is 1", self.status == 1)
        self.check(f"{why}: only typed errors are printed",
                   re.fullmatch(r"(train: (while giving back: )?cuota::(cuda_error|out_of_memory|budget_exceeded): "
                                r"[^\n]+\n(  .*\n)*)+", self.err))
        self.check(f"{why}: nothing is alive at the end", not self.live())
        self.check(f"{why}: no file is left behind", not self.left_behind)

    def check_refused_line(self, status, *words):
        self.check(f"the status is {status}", self.status == status)
        self.check("standard error is one line of the program's", re.fullmatch(r"train: [^\n]+\n", self.err))
        for word in words:
            self.check(f"the line names {word!r}", str(word) in self.err)
        self.check("nothing is alive at the end", not self.live())
        self.check("no file is left behind", not self.left_behind)


def scratch():
    return tempfile.TemporaryDirectory()


def zipped(data):
    return gzip.compress(data)


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)
