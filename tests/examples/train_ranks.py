# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Several ranks have one rank's losses, and none of them hangs when one is refused memory, is killed, or stops.

CUOTA_REPEAT=100 tries each trouble so often, and then says how long the longest took: at most 10 seconds each.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PROGRAM = os.environ.get("CUOTA_TRAIN_RANKS")
if not PROGRAM:
    print("SKIPPED: train_ranks (no MPI in this build, or a sanitizer)")
    sys.exit(SKIPPED)
MPIRUN = os.environ["CUOTA_MPIRUN"].split()
REPEAT = int(os.environ.get("CUOTA_REPEAT", "0"))
ONLY = os.environ.get("CUOTA_ONLY")  # a trouble's name
# Ranks may be that far apart on a busy machine, but where it is the limit itself that is tried.
DEADLINE = 4 if REPEAT else 20
SMALL = ["--batch", 64, "--steps", 6, "--hidden", 16, "--bucket", "4KiB", "--deadline", DEADLINE]
# mpirun's own end of all ranks when one ends badly, put off: then the ranks have to find out.
# By the runtime of Open MPI up to 4: the next one's ends them all the same.
ON_THEIR_OWN = ["--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0"]
CAN_LEAVE_THEM = re.search(r"(Open MPI|OpenRTE)\) [1-4]\.", subprocess.run([*MPIRUN[:1], "--version"], capture_output=True, text=True).stdout)


class Run:
    def __init__(self, ranks, *arguments, mpirun=()):
        # To each rank a file of its own: of what several say at a time, mpirun may put one's words among another's.
        with tempfile.TemporaryDirectory() as said:
            own_file = ["sh", "-c", f'exec "$0" "$@" 2> "{said}/$$"']
            started = time.monotonic()
            done = subprocess.run([*MPIRUN, *mpirun, "-n", str(ranks), *own_file, PROGRAM, *map(str, arguments)],
                                  capture_output=True, text=True)
            self.seconds = time.monotonic() - started
            self.err = "".join([done.stderr, *(one.read_text() for one in sorted(pathlib.Path(said).iterdir()))])
        self.status, self.out = done.returncode, done.stdout

    def losses(self):
        return [float(loss) for loss in re.findall(r"^step \d+  samples \d+  loss (\S+)$", self.out, re.M)]

    def said(self):
        """What each rank said at its end."""
        return {int(rank): text for rank, text in re.findall(r"^train_ranks: rank (\d+): (.*)$", self.err, re.M)}

    def complaints(self):
        """What the program or cuota wrote to standard error: an MPI has remarks of its own about the machine."""
        return re.findall(r"^.*(?:train_ranks|cuota).*$", self.err, re.M)

    def check(self, claim, holds):
        if not holds:
            sys.exit(f"NOT SO: {claim}\nstatus {self.status}, {self.seconds:.1f} s\n"
                     f"--- out\n{self.out}\n--- err\n{self.err}")


def distance(some, others):
    return max(abs(a - b) / abs(b) for a, b in zip(some, others))


def losses_are_those_of_one_rank():
    """Sums of the same numbers in another order: they differ by less than a part in a million of each loss."""
    data = ["--mnist", os.environ["CUOTA_MNIST"]] if os.environ.get("CUOTA_MNIST") else []
    for arguments, several in ((["--batch", 256, "--steps", 12, "--hidden", 32, "--bucket", "32KiB"], (2, 4)),
                               # beyond an epoch, and its last, smaller batch
                               (["--batch", 64, "--steps", 70, "--hidden", 16, "--bucket", "2KiB"], (4,))):
        one = Run(1, *data, *arguments, "--deadline", 120)
        one.check("one rank trains", one.status == 0 and one.losses()[-1] < one.losses()[0])
        for ranks in several:
            many = Run(ranks, *data, *arguments, "--deadline", 120)
            many.check(f"{ranks} ranks train", many.status == 0 and not many.complaints())
            many.check("they make as many steps", len(many.losses()) == len(one.losses()))
            apart = distance(many.losses(), one.losses())
            many.check(f"their losses are one rank's to 1e-5, not {apart:.2g}", apart < 1e-5)
            print(f"{ranks} ranks: losses differ by {apart:.2g} at most, of {len(one.losses())} steps")
    again = Run(4, *data, *arguments, "--deadline", 120)
    again.check("four ranks have the same losses every time, to the last digit", again.losses() == many.losses())


def refused(number, option):
    rank, step = number % 4, number // 4 % 5
    run = Run(4, *SMALL, option, f"{rank}@{step}")
    said = run.said()
    run.check("all ranks say something", sorted(said) == [0, 1, 2, 3])
    run.check("the status tells of it", run.status not in (0, 77))
    for other, text in said.items():
        what = "the gradients of a step" if option == "--refuse-late" else "the next batch"
        run.check("the refused one has its budget's refusal, the others its number",
                  "cuota::budget_exceeded: " in text if other == rank else f"rank {rank} was refused memory for {what}" in text)
    run.check("the steps before were made", len(run.losses()) == step)
    return run


def lost(number, option, mpirun=()):
    """No rank goes on, and all that say who is gone say the same."""
    rank, step = number % 4, number // 4 % 5
    run = Run(4, *SMALL, option, f"{rank}@{step}", mpirun=mpirun)
    if not mpirun:  # on their own, its status may say nothing
        run.check("the status tells of it", run.status not in (0, 77))
    run.check("no rank goes on", len(run.losses()) <= step)
    for text in run.said().values():
        run.check("the one that is gone is named", f"cuota::rank_lost_error: rank {rank} of 4: " in text)
    return run


def killed(number):
    """mpirun ends the others, naming the rank, unless they have found out before."""
    run = lost(number, "--kill")
    run.check("somebody names the rank", run.said() or (
        re.search(rf"process rank {number % 4} with PID \d+ on node \S+ exited on signal 9", " ".join(run.err.split()))))
    return run


def killed_unseen(number):
    run = lost(number, "--kill", ON_THEIR_OWN)
    run.check("a rank names the one that is gone", run.said())
    return run


def stopped(number):
    run = lost(number, "--stop")
    run.check("a rank names the one that is gone", run.said())
    return run


TROUBLES = {"refuse": lambda n: refused(n, "--refuse"), "refuse-late": lambda n: refused(n, "--refuse-late"),
            "kill": killed, "stop": stopped}
if CAN_LEAVE_THEM:
    TROUBLES["kill-unseen"] = killed_unseen
else:
    print("left out: kill-unseen (this MPI ends all ranks when one is killed)")

if not REPEAT:
    losses_are_those_of_one_rank()
for name, trouble in TROUBLES.items():
    if ONLY and ONLY != name:
        continue
    # Those that wait for the deadline once.
    numbers = range(REPEAT) if REPEAT else (6,) if name in ("stop", "kill-unseen") else (1, 10)
    runs = [trouble(number) for number in numbers]
    seconds = sorted(run.seconds for run in runs)
    spoke = sorted(len(run.said()) for run in runs)
    print(f"{name}: {len(runs)} runs, {seconds[len(seconds) // 2]:.1f} s, {seconds[-1]:.1f} s the longest; "
          f"{spoke[0]} to {spoke[-1]} ranks spoke", flush=True)
    if REPEAT and seconds[-1] > 10:
        sys.exit(f"NOT SO: each ends within 10 s: {name}")
