# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/replay_trace: one line of figures that a count of our own agrees with, bad input refused by line."""

import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import tempfile

from _plan_trace import check, most_alive, program

program = program.with_name("replay_trace")


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=dict(os.environ))


def replay(*arguments):
    done = run(*arguments)
    check("the run succeeds and says nothing on standard error", done.returncode == 0 and not done.stderr, done)
    found = re.fullmatch(r"live_peak=(\d+) reserved_peak=(\d+) ratio=(\d+\.\d+) waits=(\d+) refusals=(\d+) mapped=(\d+) unmapped=(\d+) seconds=(\d+\.\d+)\n",
                         done.stdout)
    check("one line of figures is printed", found, done)
    told = dict(zip(("live_peak", "reserved_peak", "waits", "refusals", "mapped", "unmapped"), map(int, (*found.groups()[:2], *found.groups()[3:7]))))
    told["ratio"] = float(found[3])
    check("the ratio is that of the peaks",
          told["live_peak"] == 0 or abs(told["ratio"] - told["reserved_peak"] / told["live_peak"]) < 1e-5, told)
    return told


def text_of(blocks):
    return "id,lower,upper,size\n" + "".join(f"{i},{a},{b},{size}\n" for i, (a, b, size) in enumerate(blocks))


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)

    def file(name, text):
        path = folder / name
        path.write_bytes(text.encode())
        return path

    # ---- figures
    pick = random.Random(7)
    blocks = []
    for i in range(300):
        lower = pick.randrange(300)
        blocks.append((lower, lower + pick.randrange(1, 30), 512 * pick.randrange(1, 4000)))
    trace = file("random.csv", text_of(blocks))
    live = most_alive(blocks)
    for options in ([], ["--streams", 4], ["--policy", "plan"], ["--policy", "plan", "--streams", 4], ["--steps", 3],
                    ["--policy", "plan", "--steps", 3]):
        told = replay(trace, *options)
        check("what is live is counted right", told["live_peak"] == live, options, told, live)
        check("nothing is refused without a cap", told["refusals"] == 0, options, told)
        check("what is live is reserved", told["reserved_peak"] >= live, options, told)
        check("streams wait for each other, and one for nobody", (told["waits"] != 0) == ("--streams" in options), options, told)
        if "plan" in options:
            check("a plan takes hardly more than what is live", told["ratio"] < 1.05, options, told)
    check("several passes reserve as one does, by a plan",
          replay(trace, "--policy", "plan", "--steps", 5)["reserved_peak"] ==
          replay(trace, "--policy", "plan")["reserved_peak"])

    # The same blocks as PyTorch would have traced them: at equal times, frees come first.
    edges = sorted([(lower, 1, i) for i, (lower, _, _) in enumerate(blocks)] + [(upper, 0, i) for i, (_, upper, _) in enumerate(blocks)])
    entries = [{"action": action, "addr": i << 30, "size": blocks[i][2], "stream": 0, "time_us": 10**15 + time, "frames": []}
               for time, begins, i in edges for action in (["alloc"] if begins else ["free_requested", "free_completed"])]
    for protocol in (2, 3, 4, 5):
        snapshot = folder / f"{protocol}.pickle"
        snapshot.write_bytes(pickle.dumps({"segments": [], "device_traces": [[], entries]}, protocol))
        told = replay(snapshot)
        check("a snapshot's blocks are those of the file", told["live_peak"] == live, protocol, told, live)
    rmm = file("rmm.csv", "Thread,Time,Action,Pointer,Size,Stream\n" + "".join(
        f"1,10:00:{time // 1000:02}.{time % 1000:03}000,{'allocate' if begins else 'free'},{hex(i << 30 | 256)},{blocks[i][2]},0x0\n" for time, begins, i in edges))
    told = replay(rmm)
    check("so are those of a log of RMM", told["live_peak"] == live, told, live)
    # A trace that has lost its beginning, and a final state with two blocks, of which it has one.
    final = [{"device": 1, "address": 5 << 40, "total_size": 1536, "blocks": [
        {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []},
        {"size": 512, "requested_size": 7, "state": "active_allocated", "frames": []}]}]
    tail = [{**entries[0], "action": "free_requested", "addr": 1, "size": 4000}, {**entries[0], "addr": 5 << 40, "size": 1000}]
    (folder / "tail.pickle").write_bytes(pickle.dumps({"segments": final, "device_traces": [[], tail]}))
    check("blocks from before the trace count", replay(folder / "tail.pickle")["live_peak"] == 4007)
    (folder / "code.pickle").write_bytes(pickle.dumps({"segments": [os.system]}))
    done = run(folder / "code.pickle")
    check("a pickle that asks for code is refused", done.returncode == 1 and "data_error" in done.stderr and "not for data" in done.stderr, done)

    # ---- Chrome traces
    done = run(file("empty.json", "[]"))
    if "no memory events" in done.stderr:
        profile = [{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time + 0.25, "args": {
            "Device Type": 1, "Device Id": 0, "Addr": (i + 1) << 20, "Bytes": blocks[i][2] if begins else -blocks[i][2]}} for time, begins, i in edges]
        told = replay(file("profile.json", json.dumps({"traceEvents": profile})))
        check("so are those of a profile", told["live_peak"] == live, told, live)
    else:
        print("SKIPPED: Chrome traces: replay_trace was built without nlohmann's JSON library")
        check("JSON is then a table without columns", "no column 'id'" in done.stderr, done)

    # ---- models of other allocators
    for policy in ("pytorch", "pytorch-expandable", "rmm-pool"):
        told = replay(trace, "--policy", policy, "--steps", 2)
        check("a model serves all without a cap, and reserves what is live", told["refusals"] == 0 and told["reserved_peak"] >= told["live_peak"] == live, policy, told)
        told = replay(trace, "--policy", policy, "--cap", live // 2)
        check("it keeps a cap and counts what it refuses", told["reserved_peak"] <= live // 2 and told["refusals"] > 0, policy, told)
    told = replay(trace, "--policy", "rmm-arena", "--cap", 4 * live)
    check("an arena serves all with enough memory", told["refusals"] == 0, told)
    # Requests of 1 MiB share a segment of 2 MiB. One of 2 MiB gets one of 20 MiB, where 11 MiB fit as well, but not 17 MiB.
    by_hand = file("by_hand.csv", text_of([(0, 9, 1 << 20), (1, 9, 1 << 20), (2, 9, 2 << 20), (3, 9, 11 << 20), (4, 9, 17 << 20)]))
    check("PyTorch's segments are as documented", replay(by_hand, "--policy", "pytorch")["reserved_peak"] == (2 + 20 + 18) << 20)
    check("the 17 MiB are behind the other large blocks in one expandable segment",
          replay(by_hand, "--policy", "pytorch-expandable")["reserved_peak"] == (2 + 40) << 20)
    check("RMM's pool grows by doubling", replay(by_hand, "--policy", "rmm-pool")["reserved_peak"] == (1 + 1 + 2 + 11 + 17) << 20)

    huge = file("huge.csv", text_of([(0, 2, 2**50), (1, 3, 2**50), (2, 4, 2**50)]))
    for policy in ("pool", "plan"):
        check("more than any machine has is replayed", replay(huge, "--policy", policy)["live_peak"] == 2**51)

    # ---- a cap
    for policy in ("pool", "plan"):
        told = replay(trace, "--policy", policy, "--cap", live // 2)
        check("a cap holds, and what does not fit is counted", told["reserved_peak"] <= live // 2 and told["refusals"] > 0 and
              told["live_peak"] <= live // 2, told)
    fitting = file("fitting.csv", text_of([(0, 3, 4 << 20), (3, 5, 8 << 20), (4, 9, 4 << 20)]))
    check("a cap that is just enough is enough for a plan",
          replay(fitting, "--policy", "plan", "--cap", "12MiB")["refusals"] == 0)

    # ---- bad files: the reader is plan_trace's, whose tests have the rest
    for name, text, words in (
        ("empty", "", ["line 0"]),
        ("negative", "id,lower,upper,size\na,0,1,5\nb,0,1,-5\n", ["line 3", "size '-5'", "negative"]),
        ("reversed", "id,lower,upper,size\na,3,2,5\n", ["line 2", "[3, 2) is reversed"]),
        ("overflow", f"id,lower,upper,size\na,0,1,{2**64}\n", ["line 2", "more than 64 bits"]),
        ("same-id", "id,lower,upper,size\na,0,1,5\na,2,3,5\n", ["line 3", "id 'a'", "line 2"]),
    ):
        done = run(file(name, text))
        check(f"{name}: the status is 1, with one line and nothing printed",
              done.returncode == 1 and done.stderr.count("\n") == 1 and not done.stdout, done)
        check(f"{name}: a data error of that file, with line and reason",
              done.stderr.startswith("replay_trace: cuota::data_error: ") and all(word in done.stderr for word in (name, *words)),
              done)
    done = run(folder / "absent")
    check("a file that is none is a data error", done.returncode == 1 and "data_error" in done.stderr, done)

    # ---- the command line
    for arguments, words in (
        ([], "a file is needed"), ([trace, trace], "one file"), ([trace, "--nonsense"], "'--nonsense'"),
        ([trace, "--cap"], "needs a value"), ([trace, "--cap", "-1"], "'-1'"), ([trace, "--cap", "1XiB"], "'1XiB'"),
        ([trace, "--streams", 0], "at least 1"), ([trace, "--streams", 65], "64"), ([trace, "--steps", "many"], "'many'"),
        ([trace, "--policy", "best"], "'best'"),
    ):
        done = run(*arguments)
        check("the status is 2, with the reason and the usage",
              done.returncode == 2 and words in done.stderr and "usage: replay_trace" in done.stderr and not done.stdout, done)
    helped = run("--help")
    check("help is no error", helped.returncode == 0 and "--policy" in helped.stdout, helped)
