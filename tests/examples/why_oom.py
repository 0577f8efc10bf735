# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/why_oom: the request and the holders of a snapshot that Python wrote, and a least limit that its own replays confirm."""

import os
import pathlib
import pickle
import random
import re
import subprocess
import tempfile

from _plan_trace import check, program

program = program.with_name("why_oom")
MiB = 1 << 20


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=dict(os.environ))


def frames(name, line):
    return [{"name": "empty", "filename": "/lib/torch/functional.py", "line": 1}, {"name": name, "filename": "/home/me/model.py", "line": line}]


def traced(seed, refused):
    """Weights from before the trace, steps of activations, and a refusal in the middle of the last step; what is live then, and at most."""
    pick = random.Random(seed)
    weights = [(i << 34, pick.randrange(1, 40) * MiB) for i in range(1, 9)]
    trace, next_address, time, live = [], 1 << 44, 10**15, {}
    most = 0
    for step in range(4):
        stack = []
        for layer in range(12):
            size, time = pick.randrange(1, 9 * MiB), time + 7
            trace.append({"action": "alloc", "addr": next_address, "size": size, "stream": 0, "time_us": time, "frames": frames("forward", layer)})
            live[next_address] = size
            stack.append(next_address)
            next_address += 1 << 30
            most = max(most, sum(live.values()))
            if refused and step == 3 and layer == 11:
                trace.append({"action": "oom", "size": 64 * MiB, "device_free": 20 * MiB, "stream": 0, "time_us": time, "frames": frames("backward", 99)})
                most = max(most, sum(live.values()) + 64 * MiB)
        for address in reversed(stack):
            size, time = live.pop(address), time + 3
            for action in ("free_requested", "free_completed"):
                trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": []})
    segments = [{"device": 0, "address": address, "total_size": size, "is_expandable": False, "blocks": [
        {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": frames("weights", 5)}]} for address, size in weights]
    return {"segments": segments, "device_traces": [trace]}, sum(size for _, size in weights), most


def bytes_of(text):
    if text == "-": return None
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": MiB, "GiB": 1 << 30}[unit]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)

    def file(name, content):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
        return path

    for seed in range(4):
        snapshot, weights, most = traced(seed, True)
        path = file(f"{seed}.pickle", snapshot)
        page = folder / f"{seed}.html"
        done = run(path, "--html", page)
        check("it explains, and says nothing on standard error", done.returncode == 0 and not done.stderr, done)
        check("the refused request is shown with its call site", "PyTorch:0: refused 64.0 MiB for backward (model.py:99)\n" in done.stdout, done)
        check("the device's free memory is shown", "free on the device: 20.0 MiB\n" in done.stdout, done)
        check("the largest holder comes first", re.search(r"live: \S+ MiB\n +\S+ MiB +\d+ %  weights \(model.py:5\)\n", done.stdout), done)
        check("the page is written", page.stat().st_size > 10_000, done)
        told = {name: tuple(map(bytes_of, row)) for name, *row in re.findall(r"^    (\S.*?)  +(-|\S+ \wi?B) +(-|\S+ \wi?B)$", done.stdout, re.MULTILINE)}
        check("figures for the same blocks are printed", set(told) == {
            "live at once", "planned offsets", "cuota::scoped_pool", "PyTorch", "PyTorch, expandable_segments", "rmm::pool_memory_resource",
            "rmm::arena_memory_resource"}, done, told)
        live = weights + most
        check("the bytes that are live at once are counted right", abs(told["live at once"][1] - live) < 0.06 * MiB, told, live)
        check("a plan takes at least those, and hardly more", live - 0.06 * MiB <= told["planned offsets"][1] <= 1.02 * live, told)
        for name, (reserved, least) in told.items():
            check("no allocator needs less than what is live at once", least >= live - 0.06 * MiB, name, told)
            check("without a limit, an allocator reserves hardly less than its least limit", reserved is None or reserved >= 0.97 * least, name, told)
        least = round(told["cuota::scoped_pool"][1])
        served, refused = run(path, "--limit", least), run(path, "--limit", least - 2 * MiB)
        check("the least limit suffices", "would serve them\n" in served.stdout, served)
        check("a page less does not, and the refusal has its holders",
              "would refuse as well:\n\ncuota::" in refused.stdout and re.search("held by +weights ", refused.stdout), refused)
        check("a small cut of the largest holder is said to suffice", re.search(r"\n      [1-9] % less  weights \(model.py:5\)\n", refused.stdout), refused)
        hopeless = run(path, "--limit", "8MiB")
        check("no cut of one call site makes a hopeless limit suffice", "no single call site" in hopeless.stdout, hopeless)

    snapshot, weights, most = traced(9, False)
    done = run(file("calm.pickle", snapshot))
    check("without a refusal the peak is explained", "no request was refused; at the peak:\n" in done.stdout and done.returncode == 0, done)
    check("there is no limit to compare with", "a pool of" not in done.stdout, done)

    huge = [{"action": "oom", "size": 1 << 59, "device_free": MiB, "stream": 0, "time_us": 1, "frames": []}]
    done = run(file("huge.pickle", {"segments": [], "device_traces": [huge]}))
    check("a request that no device can hold ends the search", done.returncode == 0 and "no device can hold them" in done.stdout, done)

    for name, content, words in (("text", b"id,lower,upper,size\n", "is not a pickle"), ("code", {"segments": [os.system]}, "not for data"),
                                 ("nothing", {"segments": []}, "has no device")):
        done = run(file(name, content))
        check(f"{name}: the status is 1, with one line and nothing printed",
              done.returncode == 1 and done.stderr.count("\n") == 1 and words in done.stderr and not done.stdout, done)
    for arguments, words in (([], "a file is needed"), ([path, path], "one file"), ([path, "--limit"], "needs a value"),
                             ([path, "--limit", "0"], "'0'"), ([path, "--nonsense"], "'--nonsense'")):
        done = run(*arguments)
        check("the status is 2, with the reason and the usage", done.returncode == 2 and words in done.stderr and "usage: why_oom" in done.stderr, done)
    helped = run("--help")
    check("help is no error", helped.returncode == 0 and "--limit" in helped.stdout, helped)
