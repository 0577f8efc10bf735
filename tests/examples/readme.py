# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What the README shows of programs is what they print: first, look and mistake."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).parents[2]
program = pathlib.Path(os.environ["CUOTA_TRAIN"]).with_name("first")
readme = (root / "README.md").read_text()


def block(kind):
    found = re.search(f"^```{re.escape(kind)}\n(.*?)^```$", readme, re.M | re.S)
    return found[1] if found else sys.exit(f"the README has no ```{kind}")


code, refusal = block("cpp examples/first.cpp"), block("text examples/first.cpp")

if len([line for line in code.splitlines() if line.strip()]) > 12:
    sys.exit("the README's program has more than 12 lines")

with tempfile.TemporaryDirectory() as folder:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (512, 64, 64), }"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(512 * 64 * 64 * 4)
    (pathlib.Path(folder) / "images.npy").write_bytes(content)
    done = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=True)

source = (root / "examples" / "first.cpp").read_text().splitlines()


def first_line(found):
    """Of the statement: of one with several lines, g++ and clang name different ones."""
    line = int(found[1])
    while source[line - 2].split("//")[0].rstrip().endswith(","):
        line -= 1
    return f"first.cpp:{line}"


printed, expected = (re.sub(r"first\.cpp:(\d+)", first_line, text) for text in (done.stdout, refusal))
if "(simulated)" not in printed:  # another device has another size
    printed, expected = (re.sub(r"^  device .*\n", "", text, flags=re.M) for text in (printed, expected))
if printed != expected:
    sys.exit(f"the README's refusal is not what the program prints:\n{done.stdout}\nREADME:\n{refusal}")

# The message of the simulated device, with this machine's addresses.
mistake = program.with_name("mistake")
done = subprocess.run([mistake], capture_output=True, text=True, env={**os.environ, "CUOTA_SIM_RACES": "fatal"})
if "(simulated)" in printed:
    told = block("text examples/mistake.cpp").removeprefix("$ CUOTA_SIM_RACES=fatal ./mistake\n")

    def plain(text):
        return re.sub(r"0x[0-9a-f]+|\(schedule .*?\)", "", " ".join(text.split()))

    if plain(told) not in plain(done.stderr):
        sys.exit(f"the README's race is not what the program prints:\n{done.stderr}\nREADME:\n{told}")
    if done.returncode == 0:
        sys.exit("a race that is fatal ended the program well")

# Between the README's dots may stand anything.
done = subprocess.run([program.with_name("look"), "--leak"], capture_output=True, text=True, check=True)
rest = done.stdout
for part in filter(None, map(str.strip, block("text examples/look.cpp").split("..."))):
    _, found, rest = rest.partition(part)
    if not found:
        sys.exit(f"examples/look --leak does not print, in its place:\n{part}\nbut\n{done.stdout}")
