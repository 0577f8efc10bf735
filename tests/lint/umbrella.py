#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every header is in one umbrella, once: those of report/ and training/ in the one of that name, what most programs use in cuota.hpp, and
the others in all.hpp, which includes these three; but the interop, the simulator and the opt-in ones below. A header that declares
nothing outside of namespace detail is in the folder detail of its layer, and no other header is; umbrellas do not include it. A folder has
at most 16 headers and folders. What a header defines is in one file of parts/, the one that sets the macro of its definitions. Every
header reaches version.hpp, which refuses a compiler in a mode before C++20."""
import collections
import re

import _headers
import _lint

OPT_IN = {"data/io/gzip.hpp": "needs zlib", "data/datasets/safetensors_dataset.hpp": "needs nlohmann's JSON",
          "data/detail/datasets/arrow_column.hpp": "needs Arrow", "data/datasets/arrow_dataset.hpp": "needs Arrow",
          "data/datasets/kvikio_dataset.hpp": "needs KvikIO", "resource/numa_memory.hpp": "needs libnuma",
          "report/export/nvtx.hpp": "needs NVTX", "report/import/chrome_trace.hpp": "needs nlohmann's JSON"}

UMBRELLAS = {"cuota.hpp": (), "report.hpp": ("cuota.hpp",), "training.hpp": ("cuota.hpp",),
             "all.hpp": ("cuota.hpp", "report.hpp", "training.hpp")}  # and the umbrellas that each includes
MOST_ENTRIES = 16  # of a folder
NAMESPACE = re.compile(r"^namespace (.+?) *{", re.M)
INCLUDE = re.compile(r"^\s*#\s*include\s*<cuota/([^>]+)>", re.M)


def is_inside(text):
    """Whether a header has no names for programs: all are in namespace detail, or in std."""
    opened = NAMESPACE.findall(re.split(r"#if CUOTA_(?:DEFINE|PART)_", text)[0])
    return bool(opened) and all(re.search(r"::detail\b", name) or name == "std" for name in opened)


def is_in_detail(name):
    return "detail" in name.split("/")[1:-1]


def umbrella_of(name):
    """Nothing for a header that is in none."""
    folder = name.split("/")[0]
    if name in UMBRELLAS or name == "simulator.hpp" or folder == "interop" or name in OPT_IN or name in inside:
        return None
    if f"{folder}.hpp" in UMBRELLAS:
        return f"{folder}.hpp"
    return "cuota.hpp" if name in common else "all.hpp"


root = _lint.root()
texts = {name: (root / "include" / "cuota" / name).read_text() for name in _lint.headers(root)}
public = set(texts)
inside = {name for name, text in texts.items() if is_inside(text)}
common = set(INCLUDE.findall(texts["cuota.hpp"]))
findings = []
for umbrella, others in UMBRELLAS.items():
    included = collections.Counter(INCLUDE.findall(texts[umbrella]))
    for other in others:
        if included.pop(other, 0) != 1:
            findings.append(f"{umbrella} does not include {other} once")
    for name in sorted(public | set(included)):
        wanted = 1 if umbrella_of(name) == umbrella else 0
        if name not in public:
            findings.append(f"{umbrella} includes {name}, which is not there")
        elif included[name] != wanted:
            findings.append(f"{umbrella} includes {name} {included[name]} times, not {wanted}")
for name in sorted(public - set(UMBRELLAS)):
    layer, _, rest = name.partition("/")
    if name in inside and not is_in_detail(name):
        findings.append(f"{name} declares nothing outside of namespace detail: it belongs in {layer}/detail")
    elif is_in_detail(name) and name not in inside:
        findings.append(f"{name} declares a name outside of namespace detail: it does not belong in {layer}/detail")
entries = collections.Counter()
for folder in {"/".join(name.split("/")[:depth]) for name in public for depth in range(1, name.count("/") + 1)}:
    entries[folder] = len({name[len(folder) + 1:].split("/")[0] for name in public if name.startswith(f"{folder}/")})
findings += [f"{folder} has {count} headers and folders, more than {MOST_ENTRIES}: make folders in it"
             for folder, count in sorted(entries.items()) if count > MOST_ENTRIES]
needed = {name for text in texts.values() for name in INCLUDE.findall(text)}
findings += [f"{name} is for other headers only, and none includes it" for name in sorted(inside - needed - OPT_IN.keys())]
findings += [f"umbrella.py lists {name} as opt-in, which is not there" for name in OPT_IN if name not in public]
headers = _headers.Headers(root, sorted(public))
for part in _headers.PARTS:
    source = root / "include" / "cuota" / "parts" / f"{part}.cpp"
    if not source.is_file():
        findings.append(f"parts/{part}.cpp is not there")
        continue
    reached = headers.reached(INCLUDE.findall(source.read_text()), part)
    of_part = {name for name in public if re.search(rf"^#if CUOTA_(DEFINE|PART)_{part.upper()}$", texts[name], flags=re.M) and name not in OPT_IN
               and name.split("/")[0] != "interop"}
    findings += [f"parts/{part}.cpp does not reach {name}, which has definitions for it" for name in sorted(of_part - reached)]
findings += [f"{name} does not include cuota/version.hpp, itself or by another header: it does not say that it needs C++20"
             for name in sorted(public) if "version.hpp" not in headers.reached([name], None)]
_lint.finish(findings)
