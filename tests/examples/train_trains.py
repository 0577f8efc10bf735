# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Trains what it is given, holds what it planned, refuses the whole set at once, and gives everything back."""

import pathlib
import struct

from _train import Digits, Run, npy, scratch, zipped

SMALL = ["--batch", 8, "--hidden", 16, "--epochs", 6]

with scratch() as folder:
    folder = pathlib.Path(folder)
    data = Digits(folder)

    run = Run(*data.arguments(), *SMALL, "--device-budget", "64KiB")
    run.check_success()
    run.check("it learns", float(run.losses()[-1][3]) >= 90)
    run.check("a set that fits is said to fit", "would fit the budget" in run.out)

    # 60 images of 36 floats do not fit beside nothing in 8 KiB; a small network does.
    tight = ["--batch", 4, "--hidden", 2, "--epochs", 1, "--device-budget", "7KiB"]
    run = Run(*data.arguments(), *tight)
    run.check_success()
    run.check("the whole set at once is refused", "cuota::budget_exceeded: cannot allocate 8.4 KiB" in run.out)
    run.check("the refusal comes with what would fit", "request at most 1'792 floats" in run.out)

    # The first allocation call of all fails: the refusal was printed before it, so no call came earlier.
    run = Run(*data.arguments(), *tight, fail="cudaMalloc:1")
    run.check("the refusal is printed", "cuota::budget_exceeded: cannot allocate 8.4 KiB" in run.out)
    run.check("then the training fails", run.status == 1 and "\ntraining\n" not in run.out)
    if run.sim:
        run.check("the refusal made no allocation call", run.number("allocation_calls") == 1)

    # The same data as .gz and as .npy gives the same losses.
    expected = Run(*data.arguments(), *SMALL).losses()
    (folder / "images.gz").write_bytes(zipped(data.images_file.read_bytes()))
    (folder / "labels.gz").write_bytes(zipped(data.labels_file.read_bytes()))
    run = Run("--images", folder / "images.gz", "--labels", folder / "labels.gz", *SMALL)
    if "built without zlib" in run.err:
        print("left out: .gz (built without zlib)")
    else:
        run.check("gz files give the same losses", run.losses() == expected)

    shape = (data.samples, data.side, data.side)
    (folder / "x.npy").write_bytes(npy("|u1", shape, data.pixels))
    (folder / "y.npy").write_bytes(npy("<i8", (data.samples,), struct.pack(f"<{data.samples}q", *data.labels)))
    run = Run("--npy", folder / "x.npy", folder / "y.npy", *SMALL)
    run.check_success()
    run.check("npy files of bytes give the same losses", run.losses() == expected)

    scaled = struct.pack(f"<{len(data.pixels)}f", *(p / 255 for p in data.pixels))
    (folder / "x.npy").write_bytes(npy("<f4", shape, scaled))
    run = Run("--npy", folder / "x.npy", folder / "y.npy", *SMALL)
    run.check_success()
    run.check("npy files of floats train, too", float(run.losses()[-1][3]) >= 90)

    # Without files it makes its own, larger than its budget, and cleans up.
    run = Run("--epochs", 1, "--hidden", 32)
    run.check_success()
    run.check("the synthetic set does not fit at once", "cuota::budget_exceeded" in run.out)
    run.check("the synthetic set can be learned", float(run.losses()[-1][3]) >= 60)
