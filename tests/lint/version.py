#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""version.hpp, the top entry of CHANGELOG.md, the inline namespace and what README.md tells users to ask for name one version."""
import re

import _lint

root = _lint.root()
text = (root / "include" / "cuota" / "version.hpp").read_text()
version = ".".join(re.findall(r"^#define CUOTA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, flags=re.M))
findings = []

entries = re.findall(r"^## \[?(\d+\.\d+\.\d+)", (root / "CHANGELOG.md").read_text(), flags=re.M)
if not entries or entries[0] != version:
    findings.append(f"CHANGELOG.md: its top entry is {entries[0] if entries else 'missing'}, version.hpp says {version}")

readme = root / "README.md"
for asked in re.findall(r"find_package\(cuota (\d[\d.]*)|GIT_TAG v?(\d[\d.]*)|cuota/(\d+\.\d+\.\d+)",
                        readme.read_text() if readme.exists() else ""):
    asked = "".join(asked)
    if asked != version and not version.startswith(asked + "."):
        findings.append(f"README.md: asks for {asked}, version.hpp says {version}")

for path in sorted((root / "include" / "cuota").rglob("*.[hc]pp")):
    for space in re.findall(r"^namespace (cuota\b[^{]*) \{", path.read_text(), flags=re.M):
        if not re.match(rf"cuota::inline v{version.split('.')[0]}(::|$)", space):
            findings.append(f"{path.name}: opens namespace {space}, and the version is {version}")
_lint.finish(findings)
