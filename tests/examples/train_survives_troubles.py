# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that fail by chance or for their size, full devices and slow ones: a typed error and nothing alive, or the same training."""

import pathlib

from _train import Digits, Run, scratch, skip

TAKE = ("cudaMalloc", "cudaHostAlloc", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaStreamWaitEvent",
        "cudaEventCreateWithFlags", "cudaStreamSynchronize", "cuota_simulator_launch")


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
        if run.status == 0:
            run.check_success()
        else:
            run.check_typed_end(f"chance, seed {seed}")
        ends[run.status] += 1
    whole.check("some runs fail and some do not", min(ends) > 0)

    run = Run(*arguments, fail=">1KiB")
    run.check_typed_end("nothing large")
    run = Run(*arguments, fail="cudaMemcpyAsync:5:sticky")
    run.check_typed_end("no copies from the fifth on")
    run = Run(*arguments, CUOTA_SIM_OTHERS="8GiB")
    run.check_typed_end("a full device")

    for slow in ({"CUOTA_SIM_JITTER": "300us:seed=5"}, {"CUOTA_SIM_LINK": "1GB/s,20us,kernel=5us"},
                 {"CUOTA_SIM_SCHEDULE": "late:4"}, {"CUOTA_SIM_CHECKS": "strict"}):
        run = Run(*arguments, **slow, CUOTA_SIM_RACES="fatal", CUOTA_SIM_MISUSE="fatal")
        run.check_success()
        run.check(f"{slow}: the same training", run.losses() == whole.losses())
    print(f"by chance {ends[1]} of {sum(ends)} runs failed")
