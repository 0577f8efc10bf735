#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Includes go down: a header may see its own folder and folders of lower rank. Only runtime/ calls CUDA. A header's
definitions are of its folder's part, or of the kernels' part."""
import os
import re

import _lint

RANK = {"core": 0, "runtime": 1, "resource": 2, "guard": 3, "pool": 4, "buffer": 5, "data": 6, "training": 7, "report": 7,
        "interop": 8}
SEES_CUDA = {"runtime", "simulator", "interop"}
CALLS_CUDA = {"runtime", "simulator"}
PARTS = {"data": "DATA", "training": "TRAINING", "report": "REPORT"}  # the others: MEMORY
DEFINITIONS = re.compile(r"\bCUOTA_(DEFINE|PART)_(\w+)")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"cuda(_\w+)?(\.h)?$|cuda/|cu[a-z]+\.h$|device_launch_parameters\.h|driver_types\.h|vector_types\.h")
CUDA_CALL = re.compile(r"(?<![\w:])(?:::)?(cu(?:da)?[A-Z]\w*)\s*\(")


def check_include(folder, kind, target):
    if kind == '"' and not target.startswith("cuota/"):
        target = "cuota/" + os.path.normpath(os.path.join(folder or ".", target))
    if not target.startswith("cuota/"):
        if CUDA_HEADER.match(target) and folder not in SEES_CUDA:
            return f"only runtime/ includes CUDA's headers, not {folder or 'this file'} ({target})"
        return None
    seen = target.split("/")[1].replace("simulator.hpp", "simulator")
    if seen == folder or seen in ("fwd.hpp", "version.hpp") or target == "cuota/core/config.hpp":
        return None
    if folder == "simulator" and target == "cuota/core/bytes.hpp":  # constants and constexpr functions
        return None
    if seen == "simulator":
        return "the simulator is included by nobody"
    if folder not in RANK:
        return f"{folder or 'this file'} may include no layer ({target})"
    if RANK.get(seen, 99) >= RANK[folder]:
        return f"{folder} may not include {seen.removesuffix('.hpp')} ({target})"
    return None


findings = []
base = _lint.root() / "include" / "cuota"
for path in sorted([*base.rglob("*.hpp"), *base.rglob("*.cuh"), *base.rglob("*.cpp")]):
    name = path.relative_to(base).as_posix()
    folder = name.split("/")[0] if "/" in name else "simulator" if name == "simulator.hpp" else ""
    if folder and folder not in RANK and folder not in ("parts", "simulator"):
        findings.append(f"{name}: the folder {folder} has no rank")
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if (found := INCLUDE.match(line)) and name not in ("cuota.hpp", "report.hpp", "training.hpp", "all.hpp", "cuota.cpp") and folder != "parts" and (why := check_include(folder, found[1], found[2])):
            findings.append(f"{name}:{number}: {why}")
    for number, line in enumerate(_lint.code(text).splitlines(), 1):
        for macro in DEFINITIONS.findall(line) if folder in RANK and name != "core/config.hpp" else []:
            own = PARTS.get(folder, "MEMORY")
            if macro not in (("DEFINE", own), ("PART", "KERNELS")):
                findings.append(f"{name}:{number}: definitions of {folder} stand under CUOTA_DEFINE_{own}, or CUOTA_PART_KERNELS if they "
                                f"launch kernels, not CUOTA_{'_'.join(macro)}")
        for call in CUDA_CALL.findall(line) if folder not in CALLS_CUDA else []:
            if not call.endswith("_t"):
                findings.append(f"{name}:{number}: only runtime/ calls CUDA ({call})")
_lint.finish(findings)
