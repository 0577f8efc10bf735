#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
""".ci/failures repeats what each failed test printed, its last lines where it was much, and the end of the log.

failures.py ROOT
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
LOG = f"""        Start    1: core.one
  1/4 Test    #1: core.one ......   Passed    0.10 sec
        Start    2: core.two
  2/4 Test    #2: core.two ......***Failed    0.20 sec
it was to be 3
and is 4
        Start    3: core.three
  3/4 Test    #3: core.three ....***Skipped   0.10 sec
nothing to see
  4/4 Test    #4: core.four .....***Timeout   300.00 sec
{chr(10).join(f"line {n}" for n in range(100))}

50% tests passed, 2 tests failed out of 4
make: *** [Makefile:44: test] Error 8
"""

with tempfile.TemporaryDirectory() as folder:
    log = pathlib.Path(folder) / "ci-test.log"
    log.write_text(LOG)
    told = subprocess.run([ROOT / ".ci/failures", log], capture_output=True, text=True, check=True).stdout.splitlines()
beginning = told[:told.index(f"---- the end of {log}")]
end = told[len(beginning) + 1:]
expected = ["---- 2/4 Test    #2: core.two ......***Failed    0.20 sec", "it was to be 3", "and is 4", "",
            "---- 4/4 Test    #4: core.four .....***Timeout   300.00 sec", *(f"line {n}" for n in range(61, 100)), "", ""]
wrong = [what for what, holds in (("what the failed tests printed", beginning == expected), ("the end of the log", end == LOG.splitlines()[-25:]))
         if not holds]
print(*(f"FAILED: {what}" for what in wrong), *(told if wrong else ["failures: all checks hold"]), sep="\n")
sys.exit(1 if wrong else 0)
