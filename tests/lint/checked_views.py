#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are compiled with checked views of device memory and files that are not never take each other's functions and classes for the
same: each name that depends on it says so. A class that has a view as a member stands in CUOTA_VIEWS: in_place.py has g++ look for that, and of
class templates, which g++ sees only when they are made, their text is read here. A function that returns a view has the tag of that namespace in
its symbol, whose two forms are compared.

checked_views.py --commands=FILE ROOT: the compiler's flags, as for odr.cpp."""
import re
import subprocess
import sys
import tempfile

import _lint

PROBE = """#include <cuota/buffer/scratch_arena.hpp>
#include <cuota/data/loader/batch.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/slot_layout.hpp>
auto one(cuota::batch const& b, cuota::stream_ref s) { return b.row_offsets(s).size(); }
auto two(cuota::transform_context const& j) { return j.row_offsets().size(); }
auto three(cuota::detail::slot_contents const& c) { return c.row_offsets(0, "", {}).size(); }
auto four(cuota::scratch_arena& a, cuota::stream_ref s) { return a.needed(s); }
"""
VIEWS = "device_span|device_matrix|lease|device_buffer|device_scalar|device_appender|append_buffer|host_device|imported_buffer|pruned"
MEMBER = re.compile(rf"^ {{4,}}(?:mutable )?(?!using |return |auto |friend |static |typedef |//)[\w:<>, *]*\b(?:{VIEWS})<[^;()=]*>+\s*[*&]?\s*\w+(?:{{}})?;")
OPENED = re.compile(r"^(?:inline )?namespace (.*?) *{(?!})")
CLOSED = re.compile(r"^}  // namespace")

root = _lint.root()
findings = []
for name in _lint.headers(root):
    inside = []
    for number, line in enumerate((root / "include/cuota" / name).read_text().splitlines(), 1):
        if opened := OPENED.match(line):
            inside.append(opened[1])
            names = [word for word in re.split(r"::|\s+", re.sub(r"\[\[.*?\]\]", "", " ".join(inside))) if word not in ("", "inline")]
            if names[-1] == "CUOTA_VIEWS" and names[:-1] not in (["cuota", "v0"], ["cuota", "v0", "detail"]):
                findings.append(f"include/cuota/{name}:{number}: CUOTA_VIEWS is opened in {'::'.join(names[:-1])}: nvcc qualifies names of cuota "
                                "and of detail with CUOTA_VIEWS, which a second one in an inline namespace makes ambiguous")
        elif CLOSED.match(line):
            inside.pop()
        if "CUOTA_VIEWS" not in " ".join(inside) and MEMBER.match(line):
            findings.append(f"include/cuota/{name}:{number}: a member that is a view, in a class outside of CUOTA_VIEWS")

if findings:
    _lint.finish(findings)

line = [word for word in _lint.compile_line() if not word.startswith("-W")] + [f"-I{root / 'include'}"]
symbols = {}
with tempfile.TemporaryDirectory() as folder:
    probe = f"{folder}/probe.cpp"
    with open(probe, "w") as file:
        file.write(PROBE)
    for checked, tag in ((1, "checked_views"), (0, "unchecked_views")):
        made = subprocess.run([*line, f"-DCUOTA_CHECKED={checked}", "-DCUOTA_SEPARATE_COMPILATION=1", "-c", probe, "-o", f"{folder}/{tag}.o"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            sys.exit(made.stdout)
        listed = subprocess.run(["nm", "--undefined-only", f"{folder}/{tag}.o"], text=True, stdout=subprocess.PIPE, check=True).stdout
        symbols[tag] = {word for word in listed.split() if re.search(r"row_offsets|needed", word)}
    if len(symbols["checked_views"]) != 4 or len(symbols["unchecked_views"]) != 4:
        findings.append(f"the probe uses 4 functions that depend on views, and refers to {symbols}")
    findings += [f"{symbol} is the same in files with checked views and in others" for symbol in
                 sorted(symbols["checked_views"] & symbols["unchecked_views"])]
_lint.finish(findings)
