# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Python reads the budget and the summary of the library for PyTorch, and meets its refusals, through ctypes."""

import ctypes
import json
import os
import pickle
import subprocess
import sys
import tempfile
import types

MiB = 1 << 20


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


def load():
    library = ctypes.CDLL(os.environ["CUOTA_PYTORCH"])
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    functions = types.SimpleNamespace()
    for name, result, arguments in (
            ("alloc", pointer, [size, ctypes.c_int, pointer]), ("free", None, [pointer, size, ctypes.c_int, pointer]),
            ("limit", size, [ctypes.c_int]), ("held", size, [ctypes.c_int]), ("peak", size, [ctypes.c_int]),
            ("live", size, [ctypes.c_int]), ("trim", size, []), ("set_limit", ctypes.c_int, [ctypes.c_int, size]),
            ("set_fraction", None, [ctypes.c_double, ctypes.c_int]), ("configure", ctypes.c_int, [ctypes.c_char_p]),
            ("summary", size, [ctypes.c_char_p, size]), ("summary_json", size, [ctypes.c_char_p, size]),
            ("last_failure", size, [ctypes.c_char_p, size]), ("record", ctypes.c_int, []),
            ("write_timeline", ctypes.c_int, [ctypes.c_char_p]), ("write_memory_viz", ctypes.c_int, [ctypes.c_char_p])):
        function = getattr(library, "cuota_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return functions


def text(function):
    buffer = ctypes.create_string_buffer(function(None, 0) + 1)
    function(buffer, len(buffer))
    return buffer.value.decode()


def serves():
    cuota = load()
    check("the limit is the environment's", cuota.limit(0) == 64 * MiB, cuota.limit(0))
    first, second = cuota.alloc(5 * MiB, 0, None), cuota.alloc(3 * MiB, 0, None)
    check("both are served", first and second and first != second, first, second)
    check("what is live was asked for", cuota.live(0) == 8 * MiB, cuota.live(0))
    check("held is what was taken", 8 * MiB <= cuota.held(0) <= cuota.peak(0) <= 64 * MiB, cuota.held(0), cuota.peak(0))
    check("too much is null", cuota.alloc(60 * MiB, 0, None) is None)
    check("the reason is told", "cannot allocate 60.0 MiB" in text(cuota.last_failure), text(cuota.last_failure))
    told, = json.loads(text(cuota.summary_json))
    budget, pool = told["budgets"][0], told["pools"][0]
    check("the summary has the budget", (budget["name"], budget["limit"], budget["held"]) ==
          ("device 0", 64 * MiB, cuota.held(0)), budget)
    check("the summary has the pool", (pool["stats"]["requested"], pool["stats"]["live_blocks"]) == (8 * MiB, 2), pool)
    check("the screen has both", all(word in text(cuota.summary) for word in ("device 0", "pytorch", "64.0 MiB")), text(cuota.summary))
    cuota.free(first, 5 * MiB, 0, None)
    cuota.trim()
    check("what is given back is gone", (cuota.live(0), cuota.held(0)) == (3 * MiB, 4 * MiB), cuota.live(0), cuota.held(0))
    cuota.set_fraction(0.25, 0)
    check("a share is one of the device", cuota.limit(0) == 2 << 30, cuota.limit(0))
    check("a device that is not there is told", cuota.set_limit(3, MiB) == -1)
    # The second one is alive while the process ends, as much of PyTorch's is.


def records():
    cuota = load()
    with tempfile.TemporaryDirectory() as folder:
        page, snapshot = (os.path.join(folder, name).encode() for name in ("page.html", "snapshot.pickle"))
        check("nothing is written of what is not recorded", cuota.write_timeline(page) == -1 and not os.path.exists(page))
        check("recording begins once", (cuota.record(), cuota.record()) == (0, -1))
        cuota.free(cuota.alloc(5 * MiB, 0, None), 5 * MiB, 0, None)
        check("both files are written", (cuota.write_timeline(page), cuota.write_memory_viz(snapshot)) == (0, 0), text(cuota.last_failure))
        check("a folder that is not there is told", cuota.write_memory_viz(b"/proc/none/there") == -1)
        with open(page) as file:
            check("the page knows the pool", "pytorch" in file.read())
        with open(snapshot, "rb") as file:
            events = [(e["action"], e["size"]) for e in pickle.load(file)["device_traces"][0]]
        for event in (("alloc", 5 * MiB), ("free_requested", 5 * MiB)):
            check("the snapshot has " + event[0], event in events, events)


def refuses():
    cuota = load()
    check("a wrong limit refuses all", cuota.alloc(1, 0, None) is None)
    check("and the item is named", "CUOTA_BUDGET: '64MB' is not a limit" in text(cuota.last_failure), text(cuota.last_failure))
    check("until it is right", cuota.configure(b"64MiB") == 0 and cuota.alloc(1, 0, None) is not None)


if len(sys.argv) == 2:
    {"serves": serves, "records": records, "refuses": refuses}[sys.argv[1]]()
    sys.exit(0)
for part, limits, errors in (("serves", "0=64MiB,50%", 1), ("records", "64MiB", 3), ("refuses", "64MB", 1)):
    run = subprocess.run([sys.executable, __file__, part], env={**os.environ, "CUOTA_BUDGET": limits, "CUOTA_SIM_MEMORY": "8GiB"},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(part, run.returncode == 0, run.returncode, run.stdout, run.stderr)
    check(part + " says on standard error what is no refusal, and at the end nothing", run.stderr.count("\n") == errors, run.stderr)
