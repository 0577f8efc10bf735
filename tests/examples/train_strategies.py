# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every strategy trains in the memory it was given; all but half with the losses of keeping everything, to the last digit."""

import os
import pathlib
import re
import xml.dom.minidom

from _train import Digits, Run, scratch

ROW = re.compile(r"^(\w+) +(\S+) % +(\d+) +(\d+) +(\d+) +\S+ +\S+ +(\S+) % +(\S+) +(.+)$", re.M)
PAGES = 64 << 20  # what a driver rounds up to, and loads for the kernels
BAND = 0.05  # of the exact loss, for what is stored in 16 bits


class Deep(Run):
    """One run with a strategy, checked for what holds for all of them."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.check("the run succeeds", self.status == 0)
        self.check("nothing goes to standard error", self.err == "")
        self.check("nothing is alive at the end", not self.live())
        self.check("no file is left behind", not self.left_behind)
        self.epochs = [float(loss) for loss in re.findall(r"^  epoch \d+  loss (\S+)", self.out, re.M)]
        self.digits = re.findall(r"^  epoch \d+  loss (\S+  accuracy \S+)", self.out, re.M)
        self.rows = [(name, float(memory), int(peak), int(planned), int(budget), float(share), loss, how)
                     for name, memory, peak, planned, budget, share, loss, how in ROW.findall(self.out)]
        self.check("there is a table", self.rows)
        for _, _, peak, planned, budget, _, _, _ in self.rows:
            self.check("the peak is the planned one", peak == planned)
            self.check("the peak is within the budget", peak <= budget)
        seen = re.search(r"activations peak bytes (\d+), planned (\d+)", self.out)
        self.check("activations take what was planned, to the byte", not seen or seen[1] == seen[2])
        driver = re.search(r"driver's bytes (\d+), of which counted (\d+)", self.out)
        self.check("the driver has given what was counted, in its own pages",
                   not seen or (driver and 0 <= int(driver[1]) - int(driver[2]) <= (0 if self.sim else PAGES)))
        if self.sim:
            self.check("the simulated device saw no more than the budget",
                       self.number("peak_device_bytes") <= max(row[4] for row in self.rows))

    @property
    def share(self):
        return self.rows[0][5]

    @property
    def how(self):
        return self.rows[0][7]


def boxes(svg):
    """Where the labels of a picture are, about."""
    found = []
    for text in svg.getElementsByTagName("text"):
        x, y = float(text.getAttribute("x")), float(text.getAttribute("y"))
        words = text.firstChild.data
        width = 7.2 * len(words)  # of 13 pixels a letter in a wide font
        left = {"start": x, "middle": x - width / 2, "end": x - width}[text.getAttribute("text-anchor")]
        found.append((words, left, left + width, y - 10, y + 3))  # a bar of the whole height has its number under the title
    return found


def check_strategies(run_of, learned):
    exact = run_of("naive", 100)
    exact.check("the network learns", exact.epochs[-1] < learned)
    exact.check("nothing is done twice", exact.share == 0 and exact.how == "keep all")

    for strategy, memory, does in (
        ("micro", 50, "keep all, 2 x"), ("micro", 25, "keep all, "), ("micro", 12.5, "keep all, "),
        ("checkpoint", 50, "checkpoint"), ("checkpoint", 25, "checkpoint"),
        ("offload", 50, "offload"), ("offload", 25, "offload"),
        ("auto", 100, "keep all"), ("auto", 50, ""), ("auto", 25, ""), ("auto", 12.5, ""),
    ):
        run = run_of(strategy, memory)
        run.check(f"{strategy} at {memory} % has the losses of naive, to the last digit", run.digits == exact.digits)
        run.check(f"{strategy} at {memory} % does what it is called", run.how.startswith(does))
        run.check(f"{strategy} at {memory} % has a smaller budget", memory == 100 or run.rows[0][4] < exact.rows[0][4])
        if strategy == "checkpoint":
            run.check("what was dropped is run again", run.share > 0)
        if strategy in ("micro", "offload"):
            run.check("nothing is run again", run.share == 0)
        if strategy == "auto":
            run.check("it says why", "everything fits" in run.out or " ms" in run.out)
        if strategy == "auto" and memory == 25 and run.sim:
            # By times that it has measured: on a busy machine they may be of something else, now and then.
            shares = [run.share]
            while shares[-1] > 35 and len(shares) < 6:
                shares.append(run_of(strategy, memory).share)
            run.check(f"auto recomputes no more than 35 %: {shares}", shares[-1] <= 35)

    half = run_of("half", 60)
    for seen, wanted in zip(half.epochs, exact.epochs, strict=True):
        half.check(f"half is within {BAND:.0%}", abs(seen - wanted) <= BAND * wanted)
    half.check("half is no float", half.digits != exact.digits)
    return exact


with scratch() as folder:
    folder = pathlib.Path(folder)
    data = Digits(folder, samples=200, side=12)
    # 160 to train: batches of 64, 64 and 32.
    small = [*data.arguments(), "--batch", 64, "--layers", 16, "--width", 32, "--epochs", 3, "--rate", 0.003]

    exact = check_strategies(
        lambda strategy, memory: Deep(*small, "--strategy", strategy, "--memory", memory), learned=0.7)

    # Units that are left out are left out again when a layer is run again, and in whatever part they are.
    thinned = [*small, "--dropout", 0.2, "--steps", 4]
    whole = Deep(*thinned, "--strategy", "naive")
    whole.check("dropout changes the losses", whole.digits[0] != exact.digits[0])
    for strategy in ("micro", "checkpoint"):
        run = Deep(*thinned, "--strategy", strategy, "--memory", 30)
        run.check(f"{strategy} leaves out the same units", run.digits == whole.digits)

    # The sweep, and its picture.
    picture = folder / "sweep.svg"
    run = Deep(*small, "--sweep", picture)
    run.check("four amounts of memory", [row[1] for row in run.rows] == [100, 50, 25, 12.5])
    run.check("one loss", len({row[6] for row in run.rows}) == 1 and run.digits == 4 * exact.digits)
    run.check("less memory each time", sorted((row[4] for row in run.rows), reverse=True) == [r[4] for r in run.rows])
    svg = xml.dom.minidom.parse(str(picture))
    run.check("it is drawn for light and dark", "prefers-color-scheme:dark" in picture.read_text())
    labels = boxes(svg)
    words = [label[0] for label in labels]
    for wanted in ("time per step, ms", "forward work done again, %", "100 %", "12.5 %"):
        run.check(f"the picture says {wanted!r}", wanted in words)
    for i, (a, left, right, top, bottom) in enumerate(labels):
        run.check(f"{a!r} is inside the picture", left >= 0 and right <= 730 and top >= 0 and bottom <= 490)
        for b, left2, right2, top2, bottom2 in labels[:i]:
            run.check(f"{a!r} and {b!r} do not overlap",
                      right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top)

    # What makes no sense, and what does not fit.
    for status, arguments, named in (
        (2, ["--strategy", "nonsense"], ["--strategy", "'nonsense'", "checkpoint"]),
        (2, ["--strategy"], ["--strategy", "needs a value"]),
        (2, ["--strategy", "auto", "--memory", 0], ["--memory"]),
        (2, ["--strategy", "auto", "--memory", "nan"], ["--memory"]),
        (2, ["--strategy", "auto", "--layers", 3], ["--layers", "12"]),
        (2, ["--strategy", "auto", "--dropout", 1], ["--dropout"]),
        (2, ["--strategy", "naive", "--sweep", picture], ["--sweep", "auto"]),
        (1, ["--sweep", folder / "nowhere" / "sweep.svg"], ["--sweep", "nowhere"]),
        (1, ["--strategy", "naive", "--memory", 50], ["--memory", "naive", "KiB"]),
        (1, ["--strategy", "checkpoint", "--memory", 3], ["--memory", "checkpoint", "KiB"]),
        (1, ["--strategy", "auto", "--memory", 0.1], ["--memory", "auto", "KiB"]),
        (1, ["--strategy", "micro", "--memory", 0.1], ["--memory", "micro", "single sample"]),
        (1, ["--strategy", "offload", "--memory", 50, "--pinned-budget", "40KiB"], ["--pinned-budget"]),
    ):
        Run(*small, *arguments).check_refused_line(status, *named)

# The real images, where somebody has them and the time.
mnist = os.environ.get("CUOTA_MNIST")
if mnist and os.environ.get("CUOTA_TRAIN_LONG") == "1":
    real = ["--images", pathlib.Path(mnist) / "t10k-images-idx3-ubyte.gz",
            "--labels", pathlib.Path(mnist) / "t10k-labels-idx1-ubyte.gz", "--steps", 40]
    print(check_strategies(
        lambda strategy, memory: Deep(*real, "--strategy", strategy, "--memory", memory), learned=2.0).out)
else:
    print("left out: the real images (set CUOTA_MNIST to their folder, and CUOTA_TRAIN_LONG=1)")
