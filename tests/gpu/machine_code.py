#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code that nvcc makes of the kernels that move much memory (kernels.cu), for sm_90. A GPU reaches the speed of
its memory only with wide accesses, enough threads and few instructions, and machine code shows all three without a GPU.

machine_code.py [--list] [--keep=FILE]

--list prints what each kernel uses. --keep writes the machine code to FILE. Needs nvcc and cuobjdump; where one of them is missing
it says SKIPPED and its status is 0.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURE = "sm_90"
OPTIONS = ["-std=c++20", f"-arch={ARCHITECTURE}", "-O3", "--extended-lambda", "-DNDEBUG", "-Werror=all-warnings",
           "-diag-suppress=177,186"]

# Accesses of global memory, by the bits of one thread's.
LOAD = {bits: rf"LDG\.E\.(?:[A-Z.]*\.)?{bits}\b" for bits in (64, 128)}
STORE = {bits: rf"STG\.E\.(?:[A-Z.]*\.)?{bits}\b" for bits in (64, 128)}
LOAD[32] = r"LDG\.E(?:\.[A-Z]+)* R"
STORE[32] = r"STG\.E(?:\.[A-Z]+)* desc"

# In no kernel: memory of a thread's own, which is where registers are spilled to, and a division in double.
NOWHERE = {"local memory": r"\b(?:LDL|STL)\b", "a division in double": r"MUFU\.RCP64H"}
DOUBLE = {"arithmetic in double": r"\bD(?:FMA|MUL|ADD|SETP)\b|\bF2F\.F(?:32\.F64|64\.F32)\b"}
TO_HALF = {"a conversion to half": r"F2FP\.F16\.F32\.PACK_AB|F2F\.F16\.F32"}
OF_HALF = {"a conversion of half": r"HADD2\.F32"}
TO_BFLOAT16 = {"a conversion to bfloat16": r"F2FP\.BF16\.F32\.PACK_AB"}
VOTE = {"a vote of the warp": r"\bVOTE\b"}
SHUFFLE = {"an exchange within the warp": r"\bSHFL\b|\bREDUX\b|\bCREDUX\b"}


class Rule:
    """Of the kernels whose name has `name`: the widest load and store, instructions that must be there, and must not."""

    def __init__(self, name, load, store, needs=(), without=(), registers=40):
        self.name, self.registers = name, registers
        self.needs = {}
        if load:
            self.needs[f"loads of {load} bits"] = LOAD[load]
        if store:
            self.needs[f"stores of {store} bits"] = STORE[store]
        for more in needs:
            self.needs.update(more)
        self.without = dict(NOWHERE)
        for more in without:
            self.without.update(more)


# 256 threads of at most 32 registers fill a multiprocessor; of 40, three quarters of it, which is enough for what has several
# accesses under way in each thread. Between types of two widths the narrower access is of fewer bits: 4 floats are 4 halves.
HALF, BFLOAT16 = r"cuota::v0::half", r"cuota::v0::bfloat16"
RULES = [
    Rule(rf"cast_number<float, {HALF}>", 128, 64, [TO_HALF], [DOUBLE]),
    Rule(rf"cast_number<{HALF}, float>", 64, 128, [OF_HALF], [DOUBLE]),
    Rule(rf"cast_number<float, {BFLOAT16}>", 128, 64, [TO_BFLOAT16], [DOUBLE]),
    Rule(rf"cast_number<{BFLOAT16}, float>", 64, 128, [], [DOUBLE]),
    Rule(rf"cast_number<{HALF}, {BFLOAT16}>", 128, 128, [OF_HALF, TO_BFLOAT16], [DOUBLE]),
    Rule(r"find_non_finite<float>", 128, None, [VOTE], [DOUBLE]),
    Rule(rf"find_non_finite<{HALF}>", 128, None, [VOTE], [DOUBLE]),
    Rule(rf"find_non_finite<{BFLOAT16}>", 128, None, [VOTE], [DOUBLE]),
    Rule(r"unscale_number<float>", 128, 128, [VOTE]),
    Rule(rf"unscale_number<{HALF}>", 128, 128, [VOTE, TO_HALF, OF_HALF]),
    Rule(rf"unscale_number<{BFLOAT16}>", 128, 128, [VOTE, TO_BFLOAT16]),
    Rule(r"store_block<float, 256ul>", 128, 32, [SHUFFLE], [DOUBLE]),
    Rule(rf"store_block<{HALF}, 256ul>", 64, 32, [SHUFFLE, OF_HALF], [DOUBLE]),
    Rule(r"load_number<float, 256ul>", 32, 128, [], [DOUBLE]),
    Rule(rf"load_number<{HALF}, 256ul>", 64, 128, [TO_HALF], [DOUBLE]),
    Rule(r"adamw_block<256ul>", 128, 128, [SHUFFLE], [DOUBLE], registers=64),
    Rule(r"store_moments<256ul>", 128, 32, [SHUFFLE], [DOUBLE], registers=64),
    Rule(r"mark_\w+<.*above_threshold<float> *>", 32, 32, [VOTE], [DOUBLE]),
    Rule(rf"mark_\w+<.*above_threshold<{HALF}> *>", None, 32, [VOTE, OF_HALF], [DOUBLE]),
    Rule(r"fill_with<.*value_bytes<8ul, 8ul> *>", None, 128, [], [DOUBLE]),
    Rule(r"fill_with<.*value_bytes<16ul, \d+ul> *>", None, 128, [], [DOUBLE]),
    Rule(r"convert_byte<float>", 32, 128, [], [DOUBLE]),
    Rule(rf"convert_byte<{HALF}>", 64, 128, [TO_HALF], [DOUBLE]),
    Rule(rf"convert_byte<{BFLOAT16}>", 64, 128, [TO_BFLOAT16], [DOUBLE]),
    Rule(r"convert_numbers", 128, 128, [TO_HALF, OF_HALF, TO_BFLOAT16], registers=64),
]


def tool(name):
    folders = (pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin", ROOT / "build/cuobjdump/bin")  # of packaging/setup
    return shutil.which(name) or next((str(folder / name) for folder in folders if (folder / name).is_file()), None)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compiled(folder, nvcc):
    made = folder / "kernels.cubin"
    done = subprocess.run([nvcc, *OPTIONS, f"-I{ROOT / 'include'}", "-x", "cu", "-cubin", str(ROOT / "tests/gpu/kernels.cu"), "-o",
                           str(made)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"machine_code: nvcc failed\n{done.stdout}{done.stderr}")
    return made


def kernels_of(cubin, cuobjdump):
    """By mangled name: the instructions, and the registers."""
    code, registers = {}, {}
    for part in re.split(r"^\s*Function : ", output_of(cuobjdump, "-sass", str(cubin)), flags=re.M)[1:]:
        name, _, body = part.partition("\n")
        code[name.strip()] = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", body, flags=re.M)
    for name, count in re.findall(r"Function (\S+):\s+REG:(\d+)", output_of(cuobjdump, "-res-usage", str(cubin))):
        registers[name] = int(count)
    return {name: (lines, registers[name]) for name, lines in code.items()}


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True)
    return dict(zip(names, done.stdout.splitlines()))


def short(name):
    """Without namespaces, return type and parameters."""
    return re.sub(r"\(anonymous namespace\)::|cuota::|v0::|detail::|checked_views::|unchecked_views::|^void ", "", name.partition(">(")[0] + ">")


def findings_of(rule, kernels, names):
    mine = [name for name in kernels if re.search(rule.name, names[name])]
    if not mine:
        yield f"{rule.name}: there is no such kernel"
    for name in mine:
        lines, registers = kernels[name]
        of = short(names[name])
        for what, pattern in rule.needs.items():
            if not any(re.search(pattern, line) for line in lines):
                yield f"{of}: lacks {what}"
        for what, pattern in rule.without.items():
            count = sum(bool(re.search(pattern, line)) for line in lines)
            if count:
                yield f"{of}: has {what}, in {count} instructions"
        if registers > rule.registers:
            yield f"{of}: takes {registers} registers, and {rule.registers} are allowed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    tools = {name: tool(name) for name in ("nvcc", "cuobjdump")}
    missing = [name for name, path in tools.items() if not path]
    if missing:
        print(f"SKIPPED: the machine code of kernels (no {' and no '.join(missing)} on this machine)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        cubin = compiled(pathlib.Path(folder), tools["nvcc"])
        kernels = kernels_of(cubin, tools["cuobjdump"])
        if options.keep:
            options.keep.write_text(output_of(tools["cuobjdump"], "-sass", str(cubin)))
    names = demangled(list(kernels))
    if options.list:
        for name, (lines, registers) in kernels.items():
            print(f"{short(names[name])}: {registers} registers, {len(lines)} instructions")
    findings = [f for rule in RULES for f in findings_of(rule, kernels, names)]
    for one in findings:
        print(one)
    print(f"machine_code: {len(RULES)} rules on {len(kernels)} kernels of {ARCHITECTURE}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
