# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The 10,000 real images of MNIST's test set, in a folder that CUOTA_MNIST names: at least 90 % within 5 epochs."""

import os
import pathlib

from _train import Run, skip

folder = os.environ.get("CUOTA_MNIST")
if not folder:
    skip("train_real_images (set CUOTA_MNIST to a folder with t10k-images-idx3-ubyte.gz and its labels)")

run = Run("--images", pathlib.Path(folder) / "t10k-images-idx3-ubyte.gz",
          "--labels", pathlib.Path(folder) / "t10k-labels-idx1-ubyte.gz",
          "--device-budget", "2MiB", "--epochs", 5)
run.check_success()
run.check("8,000 train and 2,000 are held out", "8000 to train, 2000 held out, 10 classes" in run.out)
run.check("the whole set at once is refused", "cuota::budget_exceeded: cannot allocate 29.9 MiB" in run.out)
run.check("at least 90 % of the held-out images are right", float(run.losses()[-1][3]) >= 90)
print(run.out)
