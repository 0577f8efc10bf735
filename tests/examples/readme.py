# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The README's first screen is true: its program is part of examples/first.cpp, its refusal is what that prints."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).parents[2]
program = pathlib.Path(os.environ["CUOTA_TRAIN"]).with_name("first")
code, refusal = re.findall(r"^```(?:cpp)?\n(.*?)^```$", (root / "README.md").read_text(), re.M | re.S)[:2]

if code not in (root / "examples/first.cpp").read_text():
    sys.exit("the README's program is not in examples/first.cpp, line for line")
if len([line for line in code.splitlines() if line.strip()]) > 12:
    sys.exit("the README's program has more than 12 lines")

with tempfile.TemporaryDirectory() as folder:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (512, 64, 64), }"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(512 * 64 * 64 * 4)
    (pathlib.Path(folder) / "images.npy").write_bytes(content)
    done = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=True)

printed, expected = done.stdout, refusal
if "(simulated)" not in printed:  # another device has another size
    printed, expected = (re.sub(r"^  device .*\n", "", text, flags=re.M) for text in (printed, expected))
if printed != expected:
    sys.exit(f"the README's refusal is not what the program prints:\n{done.stdout}\nREADME:\n{refusal}")

# The message of the simulated device, with this machine's addresses.
mistake = program.with_name("mistake")
done = subprocess.run([mistake], capture_output=True, text=True, env={**os.environ, "CUOTA_SIM_ORDER": "fatal"})
if "(simulated)" in printed:
    told = re.search(r"^\$ CUOTA_SIM_ORDER=fatal ./mistake\n(.*?)^```$", (root / "README.md").read_text(), re.M | re.S)[1]

    def plain(text):
        return re.sub(r"0x[0-9a-f]+|\(schedule .*?\)", "", " ".join(text.split()))

    if plain(told) not in plain(done.stderr):
        sys.exit(f"the README's race is not what the program prints:\n{done.stderr}\nREADME:\n{told}")
    if done.returncode == 0:
        sys.exit("a race that is fatal ended the program well")
