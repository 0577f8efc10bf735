#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No header has a name that was given up because the field uses the word for something else, or has another word for the thing. CHANGELOG
has the table of all renamed ones. Comments, messages and docs/design name nothing that does not exist: each word with an underscore occurs in
the project's code or its paths."""
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

# Names of the outside world that no code of the project has.
FOREIGN = {"use_fast_math", "logging_resource_adaptor", "bounce_buffer_size", "data_offsets", "fixed_size_binary", "numa_alloc_onnode", "temporary_storage", "data_batch_1",
           "data_batch_5", "test_batch", "coarse_label", "fine_label", "segment_map", "segment_unmap", "cntvct_el0", "asymmetric_thread_fence_light",
           "device_ptr", "offset_i", "offset_j", "nvmlGetMemoryLimits_v1_t", "nvmlDeviceSetMemoryLimits_v1", "limit_in_bytes",
           "profile_memory", "with_stack"}
NAME = re.compile(r"(?<![\w`{,/-])[a-z]\w*_[a-z0-9_]*[a-z0-9]\b")
SENTENCE = re.compile(r'(?<!#include )"((?:\\.|[^"\\\n])* (?:\\.|[^"\\\n])*)"')
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*')
SOURCES = (".hpp", ".cpp", ".cu", ".h", ".js", ".py", ".txt", ".cmake", "")


def without_strings(text):
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', _lint.code(text))


def known_names(top):
    words = set(FOREIGN)
    for path in _lint.files(top):
        words.update(re.findall(r"\w+", path.relative_to(top).as_posix()))
        if path.suffix in SOURCES and path.parent.name != "lint":  # test_lints has names that do not exist
            text = path.read_text(errors="replace")
            words.update(re.findall(r"\w+", without_strings(text) if path.suffix in (".hpp", ".cpp", ".cu", ".h") else text))
    return words


def sentences(path):
    """Pairs of a line's number and its prose: comments but for code in them, and messages with more than one word."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md":
            yield number, line.replace("`", " ")
            continue
        for found in COMMENT.findall(line):
            if found.startswith("//") and not re.match(r"//[/!]?<? {4}", found):
                yield number, found
        if not line.lstrip().startswith(("//", "#")):
            for found in SENTENCE.findall(line):
                yield number, found


root = _lint.root()
findings = []
known = known_names(root)
for path in [*sorted((root / "include" / "cuota").rglob("*")), *sorted((root / "docs" / "design").glob("*.md"))]:
    if path.suffix in (".hpp", ".cpp", ".md") and path.name != "timeline_scripts.hpp":
        findings += [f"{path.relative_to(root)}:{number}: {name} does not exist in the code"
                     for number, text in sentences(path) for name in NAME.findall(text) if name not in known and name.removesuffix("s") not in known]
for path in sorted((root / "include" / "cuota").rglob("*")):
    if path.suffix not in (".hpp", ".cpp"):
        continue
    for number, line in enumerate(without_strings(path.read_text()).splitlines(), 1):
        for pattern, instead in GIVEN_UP.items():
            if found := re.search(rf"(?<!\w)(?:{pattern})(?!\w)", line):
                findings.append(f"{path.relative_to(root)}:{number}: {found[0]} was given up for {instead}")
_lint.finish(findings)
