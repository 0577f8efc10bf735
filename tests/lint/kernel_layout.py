#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""No header with functions for kernels has a member that is [[no_unique_address]]: nvcc 13.0 gives an empty one room in device code
and none in host code, so that a kernel reads what follows it in its arguments elsewhere than the launch has written it."""
import re

import _lint

FOR_KERNELS = re.compile(r"\b(CUOTA_KERNEL|CUOTA_HOST_DEVICE)\b")

root = _lint.root()
findings = []
for name in _lint.headers(root):
    text = _lint.code((root / "include" / "cuota" / name).read_text())
    if FOR_KERNELS.search(text):
        findings += [f"include/cuota/{name}:{number}: [[no_unique_address]] in a header with functions for kernels"
                     for number, line in enumerate(text.splitlines(), 1) if "no_unique_address" in line]
_lint.finish(findings)
