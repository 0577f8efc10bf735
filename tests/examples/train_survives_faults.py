# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every CUDA call fails once, in a run of its own: a typed error, status 1, nothing alive, whichever it was. With CUOTA_TEST_DIVISOR, of
the calls after the first 40 one in so many fails.
"""

import itertools
import os
import pathlib
import sys

from _train import Digits, Run, scratch, skip

with scratch() as folder:
    data = Digits(pathlib.Path(folder), samples=80)
    arguments = [*data.arguments(), "--batch", 8, "--hidden", 4, "--epochs", 1, "--device-budget", "9KiB"]
    whole = Run(*arguments)
    if not whole.sim:
        skip("faults can be injected on the simulated device only")
    whole.check_success()
    whole.check("the refusal is part of it", "cuota::budget_exceeded" in whole.out)

    calls = 0
    for n in itertools.chain(range(1, 41), range(41, 5000, int(os.environ.get("CUOTA_TEST_DIVISOR", "1")))):
        run = Run(*arguments, fail=f"any:{n}")
        if run.number("faults_injected") == 0:
            run.check_success()
            break
        calls += 1
        run.check_typed_end(f"call {n}")
    else:
        sys.exit("the faults never ended")
    whole.check("as many calls failed as a whole run makes, give or take what two threads race for",
                abs(n - 1 - whole.number("calls")) <= whole.number("calls") // 4)
    print(f"{calls} of {n - 1} calls failed, one a run")
