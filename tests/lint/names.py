#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No header has a name that was given up because the field uses the word for something else, or has another word for the thing. CHANGELOG
has the table of all renamed ones."""
import re

import _lint

GIVEN_UP = {
    r"place(?=::| const\b| where\b)": "source_location", r"place_text": "source_location_text",
    r"(?:with_)?granule": "granularity", r"room(?=\(\))|room_to_grow": "available", r"elsewhere(?=\()|elsewhere_(?:growth|bytes|ratio)": "external",
    r"sole|sole_array|shared_value": "detail::light_unique_ptr, light_unique_array, light_shared_ptr",
    r"fenced|fence_(?:options|damage|broken|keeper)": "guarded, guard_options, guard_violation, guard_bytes_error",
    r"lifespan|Meant": "lifetime_hint, Lifetime", r"taken_again": "thread_cache_hits", r"host_device": "mirrored_buffer",
    r"rank_link|reduce_link|(?:mpi|nccl)_sums": "rank_transport, all_reduce_backend, mpi_all_reduce, nccl_all_reduce",
    r"quantised\w*": "quantized", r"levels_of|level_(?:curve|point|share|at)": "usage_series, usage_over_time", r"place_change": "site_change",
    r"old_managed_tensor": "dlpack's own names", r"throw_misuse": "throw_usage_error"}

root = _lint.root()
findings = []
for path in sorted((root / "include" / "cuota").rglob("*")):
    if path.suffix not in (".hpp", ".cpp"):
        continue
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', _lint.code(path.read_text()))
    for number, line in enumerate(code.splitlines(), 1):
        for pattern, instead in GIVEN_UP.items():
            if found := re.search(rf"(?<!\w)(?:{pattern})(?!\w)", line):
                findings.append(f"{path.relative_to(root)}:{number}: {found[0]} was given up for {instead}")
_lint.finish(findings)
