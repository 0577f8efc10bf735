# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots that PyTorch wrote, from the folder CUOTA_SNAPSHOTS: the peaks of examples/replay_trace are those that the snapshots' own events
and segments give, also for the model of PyTorch's allocator."""

import os
import pathlib
import pickle
import re
import subprocess
import sys

from _plan_trace import check, program

program = program.with_name("replay_trace")


class DataOnly(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is not data")


def peaks(snapshot):
    """Of live and of reserved bytes of the device with the most events, counted back from the segments at the end."""
    traces = snapshot["device_traces"]
    device = max(range(len(traces)), key=lambda i: len(traces[i]))
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    reserved = most_reserved = sum(s["total_size"] for s in segments)
    live = most_live = sum(b["requested_size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated")
    for event in reversed(traces[device]):
        size = event.get("size", 0)
        if event["action"] in ("segment_alloc", "segment_map"): reserved -= size
        if event["action"] in ("segment_free", "segment_unmap"): reserved += size
        if event["action"] == "alloc": live -= size
        if event["action"] == "free_requested": live += size
        most_reserved, most_live = max(most_reserved, reserved), max(most_live, live)
    return most_live, most_reserved


def replayed(path, policy):
    done = subprocess.run([program, path, "--policy", policy], capture_output=True, text=True)
    found = re.match(r"live_peak=(\d+) reserved_peak=(\d+) ", done.stdout)
    check("the snapshot is replayed", done.returncode == 0 and found, path, done)
    return int(found[1]), int(found[2])


folder = os.environ.get("CUOTA_SNAPSHOTS")
paths = sorted(pathlib.Path(folder).glob("*.pickle")) if folder else []
if not paths:
    print("SKIPPED: no snapshots of PyTorch: set CUOTA_SNAPSHOTS to a folder of them")
    sys.exit(77)
for path in paths:
    with path.open("rb") as file:
        live, reserved = peaks(DataOnly(file).load())
    told, by_model = replayed(path, "pytorch")
    print(f"{path.name}: live {live}, replayed {told}; reserved {reserved}, by the model {by_model} ({by_model / reserved:.4f})")
    check("the peak of live bytes is what the snapshot's own figures give", told == live, path)
    check("the model reserves what PyTorch reserved, within a hundredth", 0.99 <= by_model / reserved <= 1.01, path)
