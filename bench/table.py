#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks and prints one table: what cuota does, what its peers do in the same run, and what was to be reached.

table.py --build=FOLDER [--rmm] [--json=FILE] [--only=REGEX] [--turns=N] [--strict]
table.py --results=FOLDER [--json=FILE] [--only=REGEX] [--strict]
table.py --programs [--rmm] [--only=REGEX]

FOLDER is a build of the preset release, with bench-rmm for --rmm; or, where run_gpu ran, what it left: the rows are those of a
GPU then. --programs says which programs the rows need. Every figure is the median of N turns (5); a row that cannot be measured
here says why.
The status is 0 however the rows come out: machines differ. With --strict it is 1 when one is not met.
CUOTA_MINIMALLOC, a folder with the eleven *.1048576.csv of the MiniMalloc benchmark, adds a row.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
SCALE = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "GB/s": 1e9, "MB": 1e6, "": 1}

# Of a program's benchmark one field: a time in ns, or a counter.
Figure = collections.namedtuple("Figure", "program name field")


def cpu(program, name):
    return Figure(program, name, "cpu_time")


def item(program, name):
    """The time of each item, where one iteration is many."""
    return Figure(program, name, "item")


class Row:
    """ours and each peer: a figure or several, which `of` makes one number of. The target is (relation, limit, of what)."""

    def __init__(self, name, ours, peers, target, unit, of=max, runs="quick"):
        self.name, self.peers, self.target, self.unit, self.of, self.runs = name, peers, target, unit, of, runs
        self.ours = ours

    def figures(self):
        for one in [self.ours, *self.peers.values()]:
            if not callable(one):
                yield from one if isinstance(one, list) else [one]


def seeds(name, streams, live):
    return [Figure("fragmentation", f"{name}/streams:{streams}/live%:{live}/seed:{seed}/iterations:1", "refusals") for seed in (1, 2, 3)]


def pair(peer, holes):
    return cpu("pool", f"pair<{peer}>/holes:{holes}/bytes:512")


def threads(peer, n, field="cpu_time"):
    return Figure("pool", f"pair_by_threads<{peer}>/bytes:512/real_time/threads:{n}", field)


def falsely(limiter):
    return [Figure("guard", f"refusals_of_what_fits<{limiter}>/threads:{n}/iterations:1/real_time", "false_refusals") for n in (2, 3, 4)]


def gathered(name, size, order):
    return Figure("gather", f"{name}/record:{size}/shuffled:{order}", "bytes_per_second")


# ---- Google Benchmark's programs.

def run_program(build, program, names, turns, slow):
    """The figures of these benchmarks, by name: the runs as the program's JSON has them."""
    pattern = "^(" + "|".join(re.escape(name) for name in sorted(names)) + ")$"
    path = build / "bench" / f"bench-{program}"
    if not path.is_file():
        return {}, f"{path.name} was not built"
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run(
            [path, f"--benchmark_filter={pattern}", f"--benchmark_out={out.name}", "--benchmark_out_format=json",
             "--benchmark_min_time=0.05", f"--benchmark_repetitions={1 if slow else turns}"],
            capture_output=True, text=True, env={**os.environ, "CUOTA_SIM_RACES": "off"})
        text = pathlib.Path(out.name).read_text()
    if not text:
        return {}, f"{path.name} ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    found = collections.defaultdict(list)
    for one in json.loads(text)["benchmarks"]:
        if one.get("run_type") == "iteration":
            found[one["run_name"]].append(one)
    return found, None


def value_of(runs, field):
    if any(run.get("error_occurred") for run in runs):
        raise LookupError(runs[0].get("error_message", "it failed"))
    if field in ("cpu_time", "real_time"):
        return statistics.median(run[field] * SCALE[run["time_unit"]] for run in runs)
    if field == "item":
        return statistics.median(1e9 / run["items_per_second"] for run in runs)
    if field not in runs[0]:
        raise LookupError(f"it has no {field}")
    return statistics.median(run[field] for run in runs)


def minimalloc(build):
    folder = os.environ.get("CUOTA_MINIMALLOC")
    if not folder:
        raise LookupError("CUOTA_MINIMALLOC names no folder with its instances")
    paths = sorted(pathlib.Path(folder).glob("*.1048576.csv"))
    if len(paths) != 11:
        raise LookupError(f"{folder} has {len(paths)} instances, not 11")
    longest = 0
    for path in paths:
        started = time.monotonic()
        done = subprocess.run([build / "examples" / "plan_trace", path, "--capacity", "1048576"], capture_output=True, text=True)
        longest = max(longest, time.monotonic() - started)
        if done.returncode:
            return float("inf")  # it did not fit
    return longest * 1e9


class Models:
    """Steps of published models (tests/examples/_model_steps.py), replayed on addresses without memory."""

    def __init__(self, build):
        sys.path.insert(0, str(SOURCE / "tests/examples"))  # run_gpu has this file alone, and no use for these rows
        import _model_steps

        self.build, self.steps, self.folder, self.seen = build, _model_steps, None, {}

    def ratio(self, model, *options):
        """The bytes that a policy of examples/replay_trace reserves, or a plan takes, over those that are live at once."""
        if (model, options) not in self.seen:
            self.folder = self.folder or tempfile.TemporaryDirectory()
            path = pathlib.Path(self.folder.name) / f"{model}.pickle"
            program = [self.build / "examples" / "plan_trace"] if options == ("plan",) else [self.build / "examples" / "replay_trace", *options]
            if not program[0].is_file():
                raise LookupError(f"{program[0].name} was not built")
            done = subprocess.run([program[0], path if path.is_file() else self.steps.write(self.folder.name, model), *program[1:]], capture_output=True, text=True)
            found = re.search(r" ratio=([\d.]+) ", done.stdout)
            if not found:
                raise LookupError(done.stderr.strip() or f"{program[0].name} ended with {done.returncode}")
            self.seen[model, options] = float(found[1])
        return self.seen[model, options]

    def reserved(self, title, model):
        def of(*options):
            return lambda: self.ratio(model, *options)
        return Row(f"models: reserved over live, {title}", of(), {
            "by pages": of("--largest-mapping", "2MiB"), "PyTorch, modelled": of("--policy", "pytorch"),
            "expandable_segments, modelled": of("--policy", "pytorch-expandable"), "RMM's pool, modelled": of("--policy", "rmm-pool")},
            ("<=", 1.03, ""), "")

    def planned(self):
        return Row("models: planned over live, the worst of ten", lambda: max(self.ratio(model, "plan") for model in self.steps.MODELS), {}, ("<=", 1.01, ""), "")


def no_gpu():
    raise LookupError("there is no GPU; run_gpu measures it where there is one")


def rows(build, turns):
    import compiling  # run_gpu has this file alone

    reading, compile = compiling.ReadingTime(build, turns), compiling.Programs(build, turns)
    models, separate = Models(build), "-DCUOTA_SEPARATE_COMPILATION=1"
    return [
        Row("pool: pair, 512 B, 10 holes", pair("our_pool", 10), {
            "best-fit list": pair("best_fit_list", 10), "CUB": pair("cub_caching", 10),
            "cudaMallocAsync, simulated": pair("runtime_async", 10), "malloc": cpu("pool", "malloc_pair/bytes:512"),
            "mimalloc": cpu("pool", "mimalloc_pair/bytes:512")}, ("<=", 25, "ns"), "ns"),
        Row("pool: pair, 512 B, 50,000 holes", pair("our_pool", 50000), {
            "best-fit list": pair("best_fit_list", 50000), "CUB": pair("cub_caching", 50000)}, ("<=", 60, "ns"), "ns"),
        Row("pool: pair by each of two threads", threads("our_pool", 2), {
            "one thread": threads("our_pool", 1), "best-fit list, two": threads("best_fit_list", 2),
            "CUB, two": threads("cub_caching", 2)}, ("<=", 1.05, "one thread"), "ns"),  # two runs of one thread differ by that
        Row("pool: 100,000 random blocks up to 1 MiB", cpu("pool", "random_allocations/100000"), {
            "best-fit list": cpu("pool", "random_allocations_on_a_list/100000/iterations:1")}, ("<=", 50, "ms"), "ms", runs="slow"),
        Row("pool: refusals, 60 % live, 16 streams", seeds("streams_on_one_pool", 16, 60), {
            "a list for each stream": seeds("streams_on_one_list_each", 16, 60)}, ("<=", 0, ""), "", of=sum, runs="slow"),
        Row("pool: refusals, 70 % live, 16 streams", seeds("streams_on_one_pool", 16, 70), {
            "one stream": seeds("streams_on_one_pool", 1, 70),
            "a list for each stream": seeds("streams_on_one_list_each", 16, 70)}, ("<=", 1, "one stream"), "", of=sum, runs="slow"),
        Row("budget: false refusals in 3,000,000", falsely("budget"), {
            "adds, then compares": falsely("adds_first")}, ("<=", 0, ""), "", of=sum),
        Row("pool: taken over live, steps of one size", Figure("online", "steps_of_one_size<our_pool>/iterations:1", "ratio"), {
            "CUB": Figure("online", "steps_of_one_size<cub_caching>/iterations:1", "ratio")}, ("<=", 1.03, ""), ""),
        Row("pool: taken over live, steps of many lengths", Figure("online", "steps_of_many_lengths<our_pool>/iterations:1", "ratio"), {
            "CUB": Figure("online", "steps_of_many_lengths<cub_caching>/iterations:1", "ratio")}, ("<=", 1.03, ""), ""),
        Row("plan: slab over live, 10,000 blocks", Figure("plan", "plan_a_training_step/blocks:10000", "ratio"), {
            "one simple rule": Figure("plan", "plan_by_one_simple_rule/blocks:10000", "ratio")}, ("<=", 1.004, ""), ""),
        models.reserved("GPT-2", "gpt2"), models.reserved("GPT-2, checkpointed", "gpt2_checkpointed"),
        models.reserved("GPT-2, checkpointed, lengths vary", "gpt2_lengths_checkpointed"),
        models.reserved("LoRA, checkpointed, lengths vary", "lora_checkpointed"), models.reserved("mixture of experts", "experts"),
        models.reserved("diffusion, aspect ratios vary", "diffusion"), models.planned(),
        Row("plan: MiniMalloc's 11, the longest", lambda: minimalloc(build), {}, ("<=", 10, "s"), "s"),
        Row("device_buffer: made and ended, warm pool", cpu("buffer", "buffer_on_a_pool"), {
            "the pool's pair": cpu("buffer", "pair_of_a_pool"), "thrust::device_vector, host": cpu("buffer", "thrust_device_vector"),
            "cudaMallocAsync, simulated": cpu("buffer", "raw_call_of_the_runtime")}, ("<=", 30, "ns"), "ns"),
        Row("loader: of the slowest stage's speed", Figure(
            "loader_stages", "loader/host_slots:0/device_slots:0/iterations:1/repeats:5/manual_time", "efficiency"), {
            "fill, copy, synchronise": Figure("loader_stages", "fill_copy_synchronise/iterations:1/repeats:2/manual_time", "efficiency")},
            (">=", 0.97, ""), "", runs="fixed"),
        Row("loader: of a raw pinned copy, on a GPU", no_gpu, {}, (">=", 0.95, ""), ""),
        Row("cuota.hpp, precompiled, definitions apart", lambda: reading.of("cuota/cuota.hpp", separate, precompiled=True), {
            "thrust/device_vector.h, precompiled": lambda: reading.of("thrust/device_vector.h", precompiled=True)}, ("<=", 600, "ms"), "ms"),
        Row("cuota.hpp, read, definitions apart", lambda: reading.of("cuota/cuota.hpp", separate), {
            "thrust/device_vector.h": lambda: reading.of("thrust/device_vector.h"),
            "cuda/memory_resource": lambda: reading.of("cuda/memory_resource", "-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"),
            "all of it": lambda: reading.of("cuota/cuota.hpp")}, ("<=", 600, "ms"), "ms"),

        Row("compile: first.cpp by nvcc, CMake's default", lambda: compile.seconds("nvcc", "first", separate), {
            "a Thrust reduce": lambda: compile.seconds("nvcc", "thrust")}, ("<=", 0.4, "a Thrust reduce"), "s"),
        Row("compile: first.cpp by nvcc, headers alone", lambda: compile.seconds("nvcc", "first"), {
            "a Thrust reduce": lambda: compile.seconds("nvcc", "thrust")}, ("<=", 1.7, "a Thrust reduce"), "s"),
        Row("compile: that, memory of the largest process", lambda: compile.memory("nvcc", "first"), {
            "a Thrust reduce": lambda: compile.memory("nvcc", "thrust")}, ("<=", 1.25, "a Thrust reduce"), "MB"),
        Row("compile: first.cpp by g++ -O2, headers alone", lambda: compile.seconds("g++", "first"), {
            "spdlog, headers alone": lambda: compile.seconds("g++", "spdlog"),
            "CMake's default": lambda: compile.seconds("g++", "first", separate)}, ("<=", 1.3, "spdlog, headers alone"), "s"),
        Row("compile: a budget by g++ -O2, headers alone", lambda: compile.seconds("g++", "budget"), {
            "CMake's default": lambda: compile.seconds("g++", "budget", separate)}, ("<=", 2, "s"), "s"),
        Row("compile: the definitions by g++ -O2, once for a program", lambda: compile.parts(), {
            "first.cpp, headers alone": lambda: compile.seconds("g++", "first")}, ("<=", 4, "first.cpp, headers alone"), "s"),

        Row("budget: charge and refund", cpu("guard", "charge_and_refund<budget>"), {
            "a lock": cpu("guard", "charge_and_refund<locks>"), "adds, then compares": cpu("guard", "charge_and_refund<adds_first>"),
            "compares and swaps": cpu("guard", "charge_and_refund<compares_and_swaps>")}, ("<=", 1, "compares and swaps"), "ns"),
        Row("budget: charge that is refused", cpu("guard", "refused_try_charge<budget>"), {
            "a lock": cpu("guard", "refused_try_charge<locks>")}, ("<=", 1, "a lock"), "ns"),
        Row("tracked: pair, 1,000 live", cpu("resource", "pair<tracked>/live:1000/threads:1"), {
            "a lock and a map": cpu("resource", "pair<locked_map>/live:1000/threads:1")}, ("<=", 1, "a lock and a map"), "ns"),
        Row("lease on the home stream", cpu("buffer", "lease_at_home"), {
            "a pointer": cpu("buffer", "pointer_instead_of_a_lease")}, ("<=", 2, "ns"), "ns"),
        Row("lease that hands over to another stream", cpu("buffer", "handed_to_and_fro"), {
            "events by hand": cpu("buffer", "events_by_hand")}, ("<=", 1.25, "events by hand"), "ns"),
        Row("planned step of 1,000 blocks", cpu("plan", "serve_a_planned_step/blocks:1000"), {
            "by the pool": cpu("plan", "serve_a_step_by_the_pool/blocks:1000"),
            "by a pointer that rises": cpu("plan", "serve_a_step_by_a_rising_pointer/blocks:1000")}, ("<=", 1, "by the pool"), "us"),
        Row("loader: a batch of nothing", item("loader_alone", "batch_of_nothing/batch:16/workers:1/device_slots:2/real_time"), {
            "a number through a queue": item("loader_alone", "number_through_a_queue/room:2/real_time")},
            ("<=", 0.5, "a number through a queue"), "us"),
        Row("memory_dataset: bytes a second, shuffled", gathered("memory_dataset", 3072, 1), {
            "memcpy each": gathered("memcpy_each", 3072, 1)}, (">=", 0.9, "memcpy each"), "GB/s"),
        Row("raw_dataset: bytes a second, shuffled", gathered("raw_dataset", 3072, 1), {
            "pread each": gathered("pread_each", 3072, 1)}, (">=", 0.95, "pread each"), "GB/s"),
        Row("chain_plan of 100 stages", cpu("training", "plan_chain/100/25"), {}, ("<=", 100, "ms"), "ms"),
        Row("recorder: an event", cpu("report", "put_by_clock_of_processor/real_time/threads:1"), {
            "under a lock": cpu("report", "put_under_a_lock/real_time/threads:1")}, ("<=", 25, "ns"), "ns"),
        Row("summary of 100,000 blocks", cpu("report", "summary_of_100k_blocks"), {}, ("<=", 100, "ms"), "ms"),
    ]


def rows_beside_rmm():
    """Both in bench-rmm."""
    def both(name, arguments, field="cpu_time"):
        return [Figure("rmm", f"{name}<{peer}>/{arguments}", field) for peer in ("our_pool", "rmm_pool", "rmm_arena")]

    few, many = (both("pair", f"holes:{holes}/bytes:512") for holes in (10, 50000))
    one, two = (both("pair_by_threads", f"bytes:512/real_time/threads:{n}") for n in (1, 2))
    ours, theirs, _ = zip(*(both("shared_by_streams", f"streams:16/live%:60/seed:{seed}/iterations:1", "refusals") for seed in (1, 2, 3)))
    def fitting(limit):
        return [Figure("rmm", f"refusals_of_what_fits<{limit}>/threads:{n}/iterations:1/real_time", "false_refusals") for n in (2, 3, 4, 8)]

    return [
        Row("beside RMM: pair, 512 B, 10 holes", few[0], {"RMM's pool": few[1], "RMM's arena": few[2]}, ("<=", 25, "ns"), "ns"),
        Row("beside RMM: pair, 512 B, 50,000 holes", many[0], {"RMM's pool": many[1], "RMM's arena": many[2]}, ("<=", 60, "ns"), "ns"),
        Row("beside RMM: pair by each of two threads", two[0], {"one thread": one[0], "RMM's pool, two": two[1], "RMM's pool, one": one[1]},
            ("<=", 1.05, "one thread"), "ns"),
        Row("beside RMM: 100,000 random blocks up to 1 MiB", cpu("rmm", "random_allocations<our_pool>/100000"), {
            "RMM's pool": cpu("rmm", "random_allocations<rmm_pool>/100000/iterations:1")}, ("<=", 50, "ms"), "ms", runs="slow"),
        Row("beside RMM: refusals, 60 % live, 16 streams", list(ours), {"RMM's pool": list(theirs)}, ("<=", 0, ""), "", of=sum, runs="slow"),
        Row("beside RMM: false refusals in 3,000,000", fitting("budget"), {"RMM's limit": fitting("rmm_limit")}, ("<=", 0, ""), "", of=sum, runs="slow"),
        Row("beside RMM: owner made and ended, warm pool", cpu("rmm", "our_buffer"), {"rmm::device_buffer": cpu("rmm", "rmm_buffer")}, ("<=", 30, "ns"), "ns"),
    ]


def rate(name, field="bytes_per_second"):
    return Figure("device", f"{name}/real_time", field)


def taken(name, field="real_time"):
    return Figure("device", f"{name}/real_time", field)


def rows_of_a_gpu():
    return [
        Row("pool: pair, 512 B, 10 holes", pair("our_pool", 10), {
            "cudaMallocAsync": pair("runtime_async", 10), "CUB": pair("cub_caching", 10),
            "best-fit list": pair("best_fit_list", 10)}, ("<=", 25, "ns"), "ns"),
        Row("pool: pair, 512 B, 50,000 holes", pair("our_pool", 50000), {
            "cudaMallocAsync": pair("runtime_async", 50000), "CUB": pair("cub_caching", 50000),
            "best-fit list": pair("best_fit_list", 50000)}, ("<=", 60, "ns"), "ns"),
        Row("pool: pair by each of two threads", threads("our_pool", 2), {
            "one thread": threads("our_pool", 1), "cudaMallocAsync, two": threads("runtime_async", 2)}, ("<=", 1.05, "one thread"), "ns"),
        Row("pool: pair, 16 threads together", threads("our_pool", 16, "real_time"), {
            "cudaMallocAsync, 16": threads("runtime_async", 16, "real_time")}, ("<=", 0.333, "cudaMallocAsync, 16"), "ns"),  # time divided by the pairs of all threads
        Row("device_buffer: made and ended, warm pool", cpu("buffer", "buffer_on_a_pool"), {
            "cudaMallocAsync": cpu("buffer", "raw_call_of_the_runtime")}, ("<=", 30, "ns"), "ns"),
        *(Row(f"loader: slots of {size} MiB", rate(f"loader/MiB:{size}"), {
            "raw pinned copy": rate(f"raw_pinned_copy/MiB:{size}")}, (">=", 0.95, "raw pinned copy"), "GB/s") for size in (1, 4, 8, 32)),
        Row("loader: of memory, by 4 threads, 8 MiB", rate("loader_of_memory/MiB:8"), {
            "raw pinned copy": rate("raw_pinned_copy/MiB:8"), "memcpy by 4 threads": rate("copy_into_pinned_memory/MiB:8")}, (">=", 0.8, "memcpy by 4 threads"), "GB/s"),
        Row("kernel by leases, of a thousand", taken("kernels_by_leases", "item"), {
            "by pointers": taken("kernels_by_pointers", "item")}, ("<=", 1.05, "by pointers"), "us"),
        Row("kernel with a buffer of its own", taken("kernels_with_a_buffer_each", "item"), {
            "with cudaMallocAsync": taken("kernels_with_cudaMallocAsync_each", "item"),
            "by pointers": taken("kernels_by_pointers", "item")}, ("<=", 1, "with cudaMallocAsync"), "us"),
        Row("lease that hands over to another stream", cpu("buffer", "handed_to_and_fro"), {
            "events by hand": cpu("buffer", "events_by_hand")}, ("<=", 1.25, "events by hand"), "ns"),
        *(Row(f"pool grown by pages, {n} blocks of 8 MiB", taken(f"pool_that_grows<cuota::pool_growth::automatic>/blocks:{n}"), {
            "by segments": taken(f"pool_that_grows<cuota::pool_growth::segments>/blocks:{n}"),
            "cudaMalloc each": taken(f"cudaMalloc_each/blocks:{n}")}, ("<=", 1.25, "cudaMalloc each"), "ms") for n in (100, 1024)),
        Row("planned step of 100 kernels, as a graph", taken("planned_step_as_a_graph"), {
            "a graph made by hand": taken("graph_made_by_hand"), "launched one by one": taken("planned_step")},
            ("<=", 1.05, "a graph made by hand"), "us"),
        *(Row(f"cast to {name} and back, bytes a second", rate(f"cast_there_and_back<cuota::{name}>"), {
            "copy on the device": rate("copy_on_the_device")}, (">=", 0.8, "copy on the device"), "GB/s") for name in ("half", "bfloat16")),
        *(Row(what, rate(name), {"copy on the device": rate("copy_on_the_device")}, (">=", 0.8, "copy on the device"), "GB/s")
          for what, name in (("look for what is not finite, floats", "look_for_non_finite<float>"),
                             ("look for what is not finite, halfs", "look_for_non_finite<cuota::half>"),
                             ("unscale and look, floats", "unscale_gradients<float>"),
                             ("unscale and look, halfs", "unscale_gradients<cuota::half>"),
                             ("convert bytes to floats", "convert_bytes<float>"), ("convert bytes to halfs", "convert_bytes<cuota::half>"),
                             ("quantized: store floats", "quantized_store"), ("quantized: load floats", "quantized_load"))),
        *(Row(f"fill with a value of {n} bytes", rate(f"fill_buffer/bytes_{n}"), {"memset of bytes": rate("memset_of_bytes"),
              "copy on the device": rate("copy_on_the_device")}, (">=", 0.8, "memset of bytes"), "GB/s") for n in (2, 4, 8)),
        Row("AdamW in 8 bits, 100 million parameters, 16 bytes each", rate("adamw_in_8_bits"), {
            "copy on the device": rate("copy_on_the_device")}, (">=", 0.5, "copy on the device"), "GB/s"),
    ]


def read_results(folder):
    """The runs of every benchmark, by program and name, as run_gpu left them."""
    found = collections.defaultdict(list)
    for path in sorted(folder.glob("bench-*.json")):
        for one in json.loads(path.read_text())["benchmarks"]:
            if one.get("run_type") == "iteration":
                found[(path.stem.removeprefix("bench-"), one["run_name"])].append(one)
    return found


# ---- The table.

def text_of(value, unit):
    number = value / SCALE[unit]
    digits = f"{number:,.0f}" if number >= 1000 or number == int(number) else f"{number:.3g}" if number < 100 and unit else f"{number:.4g}"
    return f"{digits} {unit}".rstrip()


def verdict(row, ours, peers):
    relation, limit, of = row.target
    if of in row.peers:
        if of not in peers:
            return f"{relation} {limit} of {of}", None
        base = peers[of]
        reached = ours <= limit * base if relation == "<=" else ours >= limit * base
        return f"{relation} {limit:g} of {of}", reached
    limit_in_base = limit * SCALE[of] if of else limit
    return f"{relation} {limit:g} {of}".rstrip(), ours <= limit_in_base if relation == "<=" else ours >= limit_in_base


def circumstances(asked):
    """Where and by what the figures came about."""
    now = datetime.datetime.now().isoformat(timespec="seconds")
    if asked.results:
        machine = asked.results / "machine.txt"
        return {"when": now, "machine": machine.read_text().splitlines() if machine.is_file() else []}
    import compiling

    compiler = subprocess.run([compiling.Compiler(asked.build).cxx, "--version"], capture_output=True, text=True).stdout
    return {"when": now, "machine": platform.platform(), "processor": processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
            "compiler": compiler.splitlines()[0],
            "version": re.search(r"^## \[?([\d.]+)", (SOURCE / "CHANGELOG.md").read_text(), flags=re.M)[1], "turns": asked.turns, "beside": versions(asked.build)}


def versions(build):
    """Of what others made and the rows have beside ours, as far as this machine can tell."""
    cache = (build / "CMakeCache.txt").read_text()
    found = {}
    if header := re.search(r"^CUDAToolkit_\w*INCLUDE\w*:\w+=(.+)$|^CUOTA_CCCL:\w+=(.+)/cccl$", cache, flags=re.M):
        text = (pathlib.Path(header[1] or header[2]) / "cuda_runtime_api.h").read_text()
        found["CUDA"] = re.search(r"#define CUDART_VERSION\s+(\d+)", text)[1]
    if root := re.search(r"^CUOTA_RMM_ROOT:\w+=(.+)$", cache, flags=re.M):
        found["RMM"] = (pathlib.Path(root[1]) / "librmm/VERSION").read_text().strip()
    try:
        listed = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n", "libmimalloc*", "libbenchmark-dev", "libc6", "libspdlog-dev"],
                                capture_output=True, text=True).stdout
        found.update(line.removeprefix("ii").split() for line in listed.splitlines() if line.startswith("ii"))
    except FileNotFoundError:
        pass  # not Debian's
    return found


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), flags=re.M)
    return found[1] if found else platform.machine()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--build", type=pathlib.Path)
    where.add_argument("--results", type=pathlib.Path)
    where.add_argument("--programs", action="store_true")
    options.add_argument("--rmm", action="store_true")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--only", default="")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--strict", action="store_true")
    asked = options.parse_args()
    all_rows = rows_of_a_gpu() if asked.results else rows(asked.build, asked.turns)
    if asked.rmm:
        all_rows += rows_beside_rmm()
    chosen = [row for row in all_rows if re.search(asked.only, row.name)]

    wanted = collections.defaultdict(set)
    for row in chosen:
        for figure in row.figures():
            wanted[(figure.program, row.runs)].add(figure.name)
    if asked.programs:
        print(*sorted({f"bench-{program}" for program, _ in wanted}), *["plan_trace"] * any("MiniMalloc" in row.name or "models:" in row.name for row in chosen),
              *["replay_trace"] * any("models:" in row.name for row in chosen))
        return 0
    found, why_not = read_results(asked.results) if asked.results else {}, {}
    for (program, runs), names in sorted(wanted.items()) if asked.build else []:
        print(f"measuring {program}: {len(names)} benchmarks", file=sys.stderr, flush=True)
        seen, why = run_program(asked.build, program, names, asked.turns, runs != "quick")
        found.update({(program, name): seen[name] for name in seen})
        why_not.update({(program, name): why or "there is no such benchmark in this build" for name in names - seen.keys()})

    def number(one, of):
        if callable(one):
            return one()
        values = []
        for figure in one if isinstance(one, list) else [one]:
            key = (figure.program, figure.name)
            if key not in found:
                raise LookupError(f"{figure.name}: {why_not.get(key, 'it is not among the results')}")
            values.append(value_of(found[key], figure.field))
        return of(values)

    results, lines = [], [("row", "ours", "peer", "", "ratio", "target", "")]
    for row in chosen:
        peers, absent, ours = {}, {}, None
        try:
            ours = number(row.ours, row.of)
        except LookupError as why:
            absent["ours"] = str(why)
        for name, one in row.peers.items() if ours is not None else []:
            try:
                peers[name] = number(one, row.of)
            except (LookupError, subprocess.CalledProcessError) as why:
                absent[name] = str(why)
        target, met = verdict(row, ours, peers) if ours is not None else (f"{row.target[0]} {row.target[1]:g} {row.target[2]}".rstrip(), None)
        said = "not run" if met is None else "met" if met else "NOT MET"
        results.append({"row": row.name, "unit": row.unit, "ours": ours and ours / SCALE[row.unit], "target": target, "verdict": said,
                        "peers": {n: v / SCALE[row.unit] for n, v in peers.items()}, "absent": absent})
        first = True
        for name, value in peers.items() or [("", None)]:
            ratio = f"{ours / value:.3g}" if value else ""
            lines.append((row.name if first else "", text_of(ours, row.unit) if first and ours is not None else "",
                          name, text_of(value, row.unit) if value is not None else "", ratio, target if first else "", said if first else ""))
            first = False

    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    for line in lines:
        print("  ".join(text.ljust(width) if i in (0, 2, 5, 6) else text.rjust(width)
                        for i, (text, width) in enumerate(zip(line, widths))).rstrip())
    print()
    for result in results:
        for name, why in result["absent"].items():
            print(f"not run: {result['row']}{'' if name == 'ours' else ', ' + name}: {why}")
    if asked.build and not asked.rmm:
        print("not run: the rows beside RMM: no RMM was named")
    count = collections.Counter(result["verdict"] for result in results)
    print(f"{count['met']} met, {count['NOT MET']} not met, {count['not run']} not run")
    if asked.json:
        asked.json.write_text(json.dumps({**circumstances(asked), "rows": results}, indent=1) + "\n")
        print(f"{asked.json}: the same as JSON")
    return 1 if asked.strict and count["NOT MET"] else 0


if __name__ == "__main__":
    sys.exit(main())
