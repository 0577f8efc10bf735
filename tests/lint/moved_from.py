#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every class that fwd.hpp declares is named by a test with the tag [moved_from], which moves from it and looks at what is left. The
structs there are values, and what they have of the library's are such classes."""
import re

import _lint

# Tested only where the library that it needs is there, or what it needs cannot be made twice in a test.
ELSEWHERE = {"numa_node": "a number, and needs libnuma", "numa_memory": "a handle without state, and needs libnuma",
             "pytorch_allocator": "is not moved", "device_limits": "is not moved", "transform_context": "the loader makes it, for one call",
             "mpi_error": "as cuda_error", "nccl_error": "as cuda_error"}

root = _lint.root()
declared = re.findall(r"^class (\w+);", (root / "include/cuota/fwd.hpp").read_text(), re.M)
tested = set()
for path in sorted((root / "tests").rglob("*.cpp")):
    text = path.read_text()
    if "[moved_from]" in text:
        tested |= set(re.findall(r"\w+", re.sub(r"//.*", "", text)))
findings = [f"fwd.hpp declares {name}, and no test with [moved_from] names it" for name in declared
            if name not in tested and name not in ELSEWHERE]
findings += [f"moved_from.py lists {name}, which fwd.hpp does not declare" for name in ELSEWHERE if name not in declared]
_lint.finish(findings)
