# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that fail by chance or for their size, full devices and slow ones: a typed error and nothing alive, or the same training."""

import pathlib
import re

from _train import Digits, Run, scratch, skip

TAKE = ("cudaMalloc", "cudaHostAlloc", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaStreamWaitEvent",
        "cudaEventCreateWithFlags", "cudaStreamSynchronize", "cuota_simulator_launch")


def check_typed_end(run, why):
    run.check(f"{why}: it succeeds or ends with status 1", run.status in (0, 1))
    run.check(f"{why}: nothing is alive at the end", not run.live())
    run.check(f"{why}: no file is left behind", not run.left_behind)
    if run.status == 0:
        return run.check_success()
    run.check(f"{why}: only typed errors are printed",
              re.fullmatch(r"(train: (while giving back: )?cuota::(cuda_error|out_of_memory|budget_exceeded): "
                           r"[^\n]+\n([ -].*\n)*)+", run.err))


with scratch() as folder:
    data = Digits(pathlib.Path(folder), samples=80)
    arguments = [*data.arguments(), "--batch", 8, "--hidden", 4, "--epochs", 1, "--device-budget", "9KiB"]
    whole = Run(*arguments)
    if not whole.sim:
        skip("troubles can be made on the simulated device only")
    whole.check_success()

    ends = [0, 0]
    for seed in range(1, 31):
        run = Run(*arguments, fail=",".join(f"{name}:0.3%:seed={seed}" for name in TAKE))
        check_typed_end(run, f"chance, seed {seed}")
        ends[run.status] += 1
    whole.check("some runs fail and some do not", min(ends) > 0)

    run = Run(*arguments, fail=">1KiB")
    check_typed_end(run, "nothing large")
    run.check("nothing large: it is refused", run.status == 1)
    run = Run(*arguments, fail="cudaMemcpyAsync:5:sticky")
    check_typed_end(run, "no copies from the fifth on")
    run.check("no copies from the fifth on: it fails", run.status == 1)
    run = Run(*arguments, CUOTA_SIM_OTHERS="8GiB")
    check_typed_end(run, "a full device")
    run.check("a full device: it is refused", run.status == 1)

    for slow in ({"CUOTA_SIM_JITTER": "300us:seed=5"}, {"CUOTA_SIM_LINK": "1GB/s,20us,kernel=5us"},
                 {"CUOTA_SIM_SCHEDULE": "late:4"}, {"CUOTA_SIM_CHECKS": "strict"}):
        run = Run(*arguments, **slow, CUOTA_SIM_ORDER="fatal", CUOTA_SIM_MISUSE="fatal")
        run.check_success()
        run.check(f"{slow}: the same training", run.losses() == whole.losses())
    print(f"by chance {ends[1]} of {sum(ends)} runs failed")
