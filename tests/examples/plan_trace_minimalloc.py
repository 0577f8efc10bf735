# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The eleven instances of the MiniMalloc benchmark, in a folder that CUOTA_MINIMALLOC names: each fits 1,048,576 bytes."""

import os
import pathlib
import sys

from _plan_trace import check, plan

folder = os.environ.get("CUOTA_MINIMALLOC")
if not folder:
    print("SKIPPED: plan_trace_minimalloc (set CUOTA_MINIMALLOC to a folder with its *.1048576.csv)")
    sys.exit(77)

instances = sorted(pathlib.Path(folder).glob("*.1048576.csv"))
check("all eleven are there", len(instances) == 11, folder)
for path in instances:
    print(path.name, plan(path, "--capacity", 1048576))
