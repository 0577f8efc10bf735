# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Bad input ends with status 2 (command line) or 1 (data, budget), one line that names the thing, nothing alive."""

import pathlib
import struct

from _train import Digits, Run, idx, npy, scratch, zipped

with scratch() as folder:
    folder = pathlib.Path(folder)
    data = Digits(folder)
    good_images, good_labels = data.images_file, data.labels_file

    def file(name, content):
        path = folder / name
        path.write_bytes(content)
        return path

    # ---- the command line
    for arguments, words in (
        (["--nonsense"], ["'--nonsense'"]),
        (["--batch", "0"], ["--batch", "at least 1"]),
        (["--batch", "-3"], ["--batch", "'-3'"]),
        (["--batch", "12x"], ["--batch", "'12x'"]),
        (["--batch"], ["--batch", "needs a value"]),
        (["--batch", "99999999999999999999999"], ["--batch"]),
        (["--epochs", "0"], ["--epochs"]),
        (["--workers", "0"], ["--workers"]),
        (["--workers", "1000"], ["--workers"]),
        (["--seed", "one"], ["--seed", "'one'"]),
        (["--rate", "0"], ["--rate"]),
        (["--rate", "nan"], ["--rate"]),
        (["--device-budget", "2MB"], ["--device-budget", "'2MB'"]),
        (["--device-budget", "0"], ["--device-budget"]),
        (["--device-budget", "99999999999GiB"], ["--device-budget", "is not a size"]),
        (["--images", good_images], ["--images", "--labels"]),
        (["--npy", good_images], ["--npy", "needs a value"]),
    ):
        Run(*arguments).check_refused_line(2, *words)
    helped = Run("--help")
    helped.check("help is no error", helped.status == 0 and "--device-budget" in helped.out)

    # ---- data
    header = idx([60, 6, 6], b"")
    for images, labels, words in (
        (folder / "absent", good_labels, ["absent", "No such file"]),
        (folder, good_labels, [folder.name]),
        (file("empty", b""), good_labels, ["empty", "at byte 0"]),
        (file("magic", b"\x01" + good_images.read_bytes()[1:]), good_labels, ["magic", "at byte 0"]),
        (file("kind", idx([60, 6, 6], data.pixels, kind=7)), good_labels, ["kind", "at byte 2"]),
        (file("short-header", header[:9]), good_labels, ["short-header"]),
        (file("truncated", good_images.read_bytes()[:-1]), good_labels, ["truncated"]),
        (file("trailing", good_images.read_bytes() + b"x"), good_labels, ["trailing"]),
        (file("overflow", idx([2**32 - 1] * 3, b"")), good_labels, ["overflow"]),
        (file("overflow-64", idx([2**32 - 1] * 5, b"")), good_labels, ["overflow-64"]),
        (file("claims-more", idx([2**31, 6, 6], data.pixels)), good_labels, ["claims-more"]),
        (good_images, file("fewer", idx([59], data.labels[:59])), ["fewer", "59", "60"]),
        (good_images, file("wide", idx([60, 2], data.labels * 2)), ["wide", "one label"]),
        (good_images, file("float", idx([60], struct.pack(">60f", *data.labels), kind=0x0D)), ["float", "f32"]),
        (file("few", idx([2, 6, 6], data.pixels[:72])), file("few-labels", idx([2], [0, 1])), ["few", "5 samples"]),
        (file("doubles", idx([60, 6, 6], struct.pack(">2160d", *data.pixels), kind=0x0E)), good_labels, ["f64"]),
    ):
        Run("--images", images, "--labels", labels).check_refused_line(1, *words)

    packed = zipped(good_images.read_bytes())
    corrupt = bytearray(packed)
    corrupt[len(corrupt) // 2] ^= 0xFF
    for name, content in (("cut.gz", packed[: len(packed) // 2]), ("corrupt.gz", bytes(corrupt)),
                          ("no-gz.gz", packed[:5])):
        Run("--images", file(name, content), "--labels", good_labels).check_refused_line(1, name)

    labels_npy = file("y.npy", npy("<i8", (60,), struct.pack("<60q", *data.labels)))
    for name, content, words in (
        ("objects.npy", npy("|O", (60,), b"\0" * 480), []),
        ("fortran.npy", npy("|u1", (60, 36), data.pixels).replace(b"'fortran_order': False", b"'fortran_order': True "),
         ["ortran"]),
        ("big-endian.npy", npy(">f4", (60, 36), b"\0" * 60 * 36 * 4), []),
        ("short.npy", npy("|u1", (60, 37), data.pixels), []),
        ("overflow.npy", npy("<f4", (2**62, 2**62), b""), []),
        ("negative.npy", npy("|u1", (-60, 36), data.pixels), []),
        ("code.npy", b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').abort()        ", []),
    ):
        Run("--npy", file(name, content), labels_npy).check_refused_line(1, name, *words)
    images_npy = file("x.npy", npy("|u1", (60, 36), data.pixels))
    for bad in (-1, 5000):
        wrong = file("label.npy", npy("<i8", (60,), struct.pack("<60q", *[bad] * 60)))
        Run("--npy", images_npy, wrong).check_refused_line(1, "label.npy", f"is {bad}", "sample 0")

    # ---- budgets
    run = Run(*data.arguments(), "--device-budget", "1KiB", "--batch", 8)
    run.check_refused_line(1, "--device-budget 1.0 KiB", "not even a batch of one sample")
    run = Run(*data.arguments(), "--pinned-budget", "1KiB", "--batch", 8)
    run.check_refused_line(1, "--pinned-budget 1.0 KiB", "not even a batch of one sample")
    run = Run(*data.arguments(), "--device-budget", "16KiB", "--hidden", 8)
    run.check_refused_line(1, "--device-budget 16.0 KiB", "--batch", "would fit")
    fitting = run.err.split("--batch ")[1].split()[0]
    Run(*data.arguments(), "--device-budget", "16KiB", "--hidden", 8, "--batch", fitting).check_success()
    larger = Run(*data.arguments(), "--device-budget", "16KiB", "--hidden", 8, "--batch", int(fitting) + 1)
    larger.check_refused_line(1, "--device-budget")
    if run.sim:
        run.check("a plan that does not fit makes no allocation call", run.number("allocation_calls") == 0)
