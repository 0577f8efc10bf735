#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""cuota.hpp includes every public header once, but the interop, the simulator and the opt-in ones below."""
import collections
import re

import _lint

OPT_IN = {"data/gzip.hpp": "needs zlib", "data/safetensors_source.hpp": "needs nlohmann's JSON",
          "data/arrow_column.hpp": "needs Arrow", "data/arrow_source.hpp": "needs Arrow",
          "data/kvikio_source.hpp": "needs KvikIO", "resource/numa_memory.hpp": "needs libnuma",
          "report/nvtx.hpp": "needs NVTX"}

root = _lint.root()
umbrella = (root / "include" / "cuota" / "cuota.hpp").read_text()
included = collections.Counter(re.findall(r"^\s*#\s*include\s*<cuota/([^>]+)>", umbrella, flags=re.M))
public = set(_lint.headers(root))
findings = []
for name in sorted(public - {"cuota.hpp"}):
    wanted = 0 if name.startswith(("interop/", "simulator/")) or name in OPT_IN else 1
    if included[name] != wanted:
        findings.append(f"cuota.hpp includes {name} {included[name]} times, not {wanted}")
findings += [f"cuota.hpp includes {name}, which is not there" for name in sorted(set(included) - public)]
findings += [f"umbrella.py lists {name} as opt-in, which is not there" for name in OPT_IN if name not in public]
_lint.finish(findings)
