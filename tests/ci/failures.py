#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
""".ci/failures repeats what each failed test printed, its last lines where it was much, what stands before an early error of make, and the
end of the log.

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

# One of two targets at the same time fails first.
OF_TARGETS = f"""the rows fail
make[1]: *** [Makefile:30: rows] Error 1
make[1]: *** Waiting for unfinished jobs....
{chr(10).join(f"line {n}" for n in range(100))}
make: *** [Makefile:20: targets] Error 2
"""


def told_of(text):
    """What stands before the end of the log, and the end."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "ci-test.log"
        log.write_text(text)
        told = subprocess.run([ROOT / ".ci/failures", log], capture_output=True, text=True, check=True).stdout.splitlines()
    at = told.index(f"---- the end of {log}")
    return told[:at], told[at + 1:]


beginning, end = told_of(LOG)
before_error, _ = told_of(OF_TARGETS)
expected = ["---- 2/4 Test    #2: core.two ......***Failed    0.20 sec", "it was to be 3", "and is 4", "",
            "---- 4/4 Test    #4: core.four .....***Timeout   300.00 sec", *(f"line {n}" for n in range(61, 100)), "", ""]
wrong = [what for what, holds in (("what the failed tests printed", beginning == expected), ("the end of the log", end == LOG.splitlines()[-25:]),
                             ("what stands before make's first error",
                              before_error == ["---- before make's first error", *OF_TARGETS.splitlines()[:2], ""])) if not holds]
print(*(f"FAILED: {what}" for what in wrong), *([*beginning, *before_error, *end] if wrong else ["failures: all checks hold"]), sep="\n")
sys.exit(1 if wrong else 0)
