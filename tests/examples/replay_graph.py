# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/replay_graph: the launches of a captured step give what the steps do, in any schedule, and break no rule."""

import os
import subprocess

from _plan_trace import check, program

program = program.with_name("replay_graph")

for settings in ({}, {"CUOTA_SIM_CHECKS": "strict"}, {"CUOTA_SIM_SCHEDULE": "late:1"}):
    done = subprocess.run([program], capture_output=True, text=True,
                          env={**os.environ, "CUOTA_SIM_ORDER": "fatal", "CUOTA_SIM_MISUSE": "fatal", **settings})
    check("it succeeds and says so", done.returncode == 0 and not done.stderr and
          done.stdout == "49 launches: the same values; 2 of 2 requests from the slab, 0 bytes more held\n", (settings, done))
