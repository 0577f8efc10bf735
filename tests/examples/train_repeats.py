# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The same seed gives the same losses, bit for bit, whatever the number of workers; another seed gives others."""

import pathlib

from _train import Digits, Run, scratch

with scratch() as folder:
    data = Digits(pathlib.Path(folder), samples=200)
    common = [*data.arguments(), "--batch", 16, "--hidden", 16, "--epochs", 3]
    first = Run(*common, "--seed", 5)
    first.check_success()
    for workers in (1, 1, 2, 3, 8):
        again = Run(*common, "--seed", 5, "--workers", workers)
        again.check_success()
        again.check(f"the losses repeat with {workers} workers", again.losses() == first.losses())
    other = Run(*common, "--seed", 6)
    other.check("another seed has other losses", other.losses() != first.losses())
