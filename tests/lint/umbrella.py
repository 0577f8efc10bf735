#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every header is in its umbrella once: those of report/ and training/ in the one of that name, all others in cuota.hpp, but the
interop, the simulator and the opt-in ones below."""
import collections
import re

import _lint

OPT_IN = {"data/gzip.hpp": "needs zlib", "data/safetensors_source.hpp": "needs nlohmann's JSON",
          "data/arrow_column.hpp": "needs Arrow", "data/arrow_source.hpp": "needs Arrow",
          "data/kvikio_source.hpp": "needs KvikIO", "resource/numa_memory.hpp": "needs libnuma",
          "report/nvtx.hpp": "needs NVTX"}

UMBRELLAS = ("cuota.hpp", "report.hpp", "training.hpp")


def umbrella_of(name):
    """Nothing for a header that is in none."""
    folder = name.split("/")[0]
    if name in UMBRELLAS or folder in ("interop", "simulator") or name in OPT_IN:
        return None
    return f"{folder}.hpp" if f"{folder}.hpp" in UMBRELLAS else "cuota.hpp"


root = _lint.root()
public = set(_lint.headers(root))
findings = []
for umbrella in UMBRELLAS:
    text = (root / "include" / "cuota" / umbrella).read_text()
    included = collections.Counter(re.findall(r"^\s*#\s*include\s*<cuota/([^>]+)>", text, flags=re.M))
    if umbrella != "cuota.hpp" and included.pop("cuota.hpp", 0) != 1:
        findings.append(f"{umbrella} does not include cuota.hpp once")
    for name in sorted(public | set(included)):
        wanted = 1 if umbrella_of(name) == umbrella else 0
        if name not in public:
            findings.append(f"{umbrella} includes {name}, which is not there")
        elif included[name] != wanted:
            findings.append(f"{umbrella} includes {name} {included[name]} times, not {wanted}")
findings += [f"umbrella.py lists {name} as opt-in, which is not there" for name in OPT_IN if name not in public]
_lint.finish(findings)
