#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What nvcc's front ends refuse in the sources of a build and in each public header alone.

by_nvcc.py --commands=FILE [--sources [--kernels] [--device-only]] [--compiled=PATTERN] [--headers=FORMS] [--only=HEADER] [--jobs=N] [ROOT]

FILE: the compile_commands.json of a build of the preset gpu, whose generated sources are made.
--sources  each file that this build compiles by nvcc: read by the front end for the host, and compiled to PTX for the device. Left
           out are the host's compiler, which takes most of the time and reads what nvcc makes of a text that g++ reads in the
           other builds, and ptxas.
--kernels  of these files only those that have kernels or include a file of the project that has some, each once, although several targets
           may compile it with other options.
--device-only  leaves out the front end for the host, which takes half of the time: that for the device reads the same text with
           __CUDA_ARCH__, and reports errors of host code, too.
--compiled leaves out sources whose objects' paths match this regular expression: the build has compiled them.
--headers  each public header alone, by the front end for the host, with definitions "in place", "apart" or, both, "in place,apart".
           lint.headers has them by g++. Several share a file in a way that shows each alone: see lint/_headers.py
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS / "lint"))
import _headers  # noqa: E402
import _lint  # noqa: E402

# The build chooses by this, too, which tests nvcc compiles.
KERNEL = re.compile(re.search(r'^set\(kernels "(.+)"\)', (TESTS / "CMakeLists.txt").read_text(), flags=re.M)[1])


def side_of(step):
    """Which front end the step is, or prepares the text for: "host" or "device"; None for any other step."""
    by_cicc = re.match(r'\S*cicc"? ', step)
    if not (by_cicc or step.startswith("cudafe++ ") or " -E " in step):
        return None
    return "device" if by_cicc or " -D__CUDA_ARCH__=" in step else "host"


def said_by_nvcc(command, folder, *, sides):
    """What the front ends say of the command's source; nothing when they take it. The steps are those that nvcc itself tells."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "TMPDIR": scratch}
        told = subprocess.run([*command, "--dryrun"], cwd=folder, text=True, capture_output=True, env=environment)
        told_steps = re.findall(r"^#\$ (.*)$", told.stderr, flags=re.M)
        environment |= dict(step.split("=", 1) for step in told_steps if re.match(r"\w+=", step))  # where its programs are
        steps = [step for step in told_steps if side_of(step) in sides]
        if told.returncode or {side_of(step) for step in steps if " -E " not in step} != set(sides):
            return f"nvcc does not tell its steps:\n{told.stderr}"
        if "host" not in sides:  # the front end for the host would write it, for names in the object file
            for path in re.findall(r'--module_id_file_name "([^"]+)"', "\n".join(steps)):
                pathlib.Path(path).write_text("_by_nvcc")
        run = subprocess.run(["bash", "-e", "-c", "\n".join(steps)], cwd=folder, text=True, stdin=subprocess.DEVNULL, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return (run.stdout or "no reason given") if run.returncode else ""


def check_source(entry):
    name = os.path.relpath(entry["file"], root)
    sides = ["device"] if "--device-only" in sys.argv else ["host", "device"]
    said = said_by_nvcc(shlex.split(entry["command"]), entry["directory"], sides=sides)
    return [f"{name} is refused by nvcc:\n{said}"] if said else []


def has_kernels(path):
    """Whether the file, or one that it includes by a quoted name from its own folder or from tests/, has kernels."""
    seen, waiting = set(), [path]
    while waiting:
        if (one := waiting.pop()) in seen or not one.exists():
            continue
        seen.add(one)
        text = one.read_text()
        if KERNEL.search(text):
            return True
        waiting += [folder / name for name in re.findall(r'^#include "(.+)"', text, flags=re.M) for folder in (one.parent, root / "tests")]
    return False


def said_of_headers(chain, form):
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "headers.cu"
        source.write_text(_headers.source(chain))
        return said_by_nvcc([*line, *_headers.options_of(form), "-c", str(source), "-o", f"{source}.o"], scratch, sides=["host"])


def check_headers(job):
    chain, form = job
    if not said_of_headers(chain, form):
        return []
    alone = {one: said_of_headers([one], form) for one in chain}
    return [f"{one} does not compile alone by nvcc, definitions {form}:\n{said}" for one, said in alone.items() if said] or [
        f"{', '.join(chain)} compile alone by nvcc, but not in this order, definitions {form}"]


def is_compiled(entry):
    words = shlex.split(entry["command"])
    return bool(_lint.option("compiled") and re.search(_lint.option("compiled"), words[words.index("-o") + 1]))


def line_of(entry):
    """nvcc and its flags for a source of tests, in no form, for the tree under check."""
    own = f"-I{pathlib.Path(entry['file']).parents[1] / 'include'}"
    words = iter(shlex.split(entry["command"]))
    found = []
    for word in words:
        if word in ("-c", "-o", "-x"):
            next(words)
        elif word != own and not re.match(r"-DCUOTA_SEPARATE_COMPILATION=", word):
            found.append(word)
    return [*found, f"-I{root}/include", "-x", "cu"]


root = _lint.root().resolve()
commands = json.loads(pathlib.Path(_lint.option("commands")).read_text())
entries = [entry for entry in commands if pathlib.Path(shlex.split(entry["command"])[0]).name == "nvcc"]
if not entries:
    sys.exit(f"{_lint.option('commands')} has no file that nvcc compiles")
jobs = []
if "--sources" in sys.argv:
    for entry in entries:
        if not pathlib.Path(entry["file"]).exists():
            sys.exit(f"{entry['file']} is not made: build the target that generates it first")
    left = [entry for entry in entries if not is_compiled(entry)]
    said = [f"{len(entries) - len(left)} compiled by the build"] if len(left) != len(entries) else []
    if "--kernels" in sys.argv:
        with_kernels = {entry["file"]: entry for entry in reversed(left) if has_kernels(pathlib.Path(entry["file"]))}
        said += [f"{len(left) - len(with_kernels)} left out, without kernels or again with other options"]
        left = list(with_kernels.values())
    jobs += [(check_source, entry) for entry in left]
    print(", ".join([f"{len(entries)} sources", *said]))
if _lint.option("headers"):
    line = line_of(next(entry for entry in entries if entry["file"].endswith("tests/odr.cpp")))
    headers = _headers.Headers(root, list(_lint.headers(root)))
    with tempfile.TemporaryDirectory() as folder:
        lacking = headers.lacking(line, pathlib.Path(folder))
    headers.names = [_lint.option("only")] if _lint.option("only") else [name for name in headers.names if name not in lacking]
    chains = [(chain, form) for form in _lint.option("headers").split(",") for chain in headers.chains(form)]
    jobs += [(check_headers, chain) for chain in chains]
    print(f"{len(headers.names)} headers, definitions {_lint.option('headers')}, in {len(chains)} files",
          *(f"SKIPPED: {name} by nvcc (no {library})" for name, library in lacking.items()), sep="\n", flush=True)
with concurrent.futures.ThreadPoolExecutor(int(_lint.option("jobs") or os.cpu_count())) as pool:
    results = list(pool.map(lambda job: job[0](job[1]), jobs))
_lint.finish([finding for findings in results for finding in findings])
