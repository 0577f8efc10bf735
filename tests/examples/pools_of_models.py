# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of published models through examples/replay_trace: how near a pool and a plan stay to what is live, and with how many mappings. With
CUOTA_TEST_DIVISOR, of every second model.
"""

import os
import re
import subprocess
import tempfile

from _model_steps import MODELS, write
from _plan_trace import check, figures, program, run

program = program.with_name("replay_trace")
PAGE = 2 << 20
LONG_PLANS = ("diffusion", "experts", "gpt2_checkpointed")  # of seconds each: planned by `make bench ONLY=models`


def replay(path, *options):
    done = subprocess.run([program, path, *map(str, options)], capture_output=True, text=True)
    check("the run succeeds and says nothing on standard error", done.returncode == 0 and not done.stderr, done)
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", done.stdout)}


def driver_calls(run):
    """cuMemCreate, cuMemMap and cuMemRelease for a mapping, cuMemUnmap for its end; cuMemSetAccess is called once for many mappings."""
    return 3 * run["mapped"] + run["unmapped"]


chosen = list(MODELS)[::2] if int(os.environ.get("CUOTA_TEST_DIVISOR", "1")) > 1 else list(MODELS)
if left_out := [model for model in MODELS if model not in chosen]:
    print(f"left out: {', '.join(left_out)} (not in the short form of make integration)")
print(f"left out: plans of {', '.join(LONG_PLANS)}, which make bench ONLY=models has")
with tempfile.TemporaryDirectory() as folder:
    for model in chosen:
        path = write(folder, model)
        grown = replay(path, "--remap-above", "inf")
        usual = replay(path)
        later = replay(path, "--steps", 10)
        fine = replay(path, "--largest-mapping", "2MiB")
        pages = replay(path, "--remap-above", "inf", "--largest-mapping", "2MiB")
        capped = replay(path, "--cap", int(1.02 * usual["live_peak"]))
        pytorch = replay(path, "--policy", "pytorch-expandable")
        print(f"{model:26} without remapping {grown['ratio']:.4f}, usual {usual['ratio']:.4f}, after ten passes {later['ratio']:.4f}, "
              f"by pages {fine['ratio']:.4f}")
        check("by pages, the pool keeps its bound", fine["reserved_peak"] <= 1.0205 * fine["live_peak"] + 2 * PAGE, model, fine)
        check("by larger mappings, it stays near it", usual["ratio"] <= 1.03, model, usual)
        check("it stays near it after ten passes", later["ratio"] <= 1.03, model, later)
        check("a cap of 1.02 times what is live suffices", capped["refusals"] == 0, model, capped)
        check("remapping is never worse than growth by more than a hundredth", usual["ratio"] <= grown["ratio"] + 0.01, model, usual, grown)
        check("ten passes take at most half more driver calls than growth by pages that remaps nothing",
              driver_calls(later) <= 1.5 * driver_calls(pages), model, later, pages)
        check("the pool takes hardly more than expandable segments, or its bound", usual["ratio"] <= max(pytorch["ratio"] + 0.01, 1.0205), model, usual, pytorch)
        if model in LONG_PLANS:
            continue
        planned = figures(run(path))
        check("a plan takes at most a hundredth more than what is live", planned["ratio"] <= 1.01, model, planned)
