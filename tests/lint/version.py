#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""version.hpp, the top entry of CHANGELOG.md, the inline namespace and what README.md tells users to ask for name one version. The pages
name the oldest CUDA Toolkit that older_toolkits.hpp names."""
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

header = root / "include" / "cuota" / "runtime" / "rt" / "older_toolkits.hpp"
if header.exists():
    oldest = int(re.search(r"^#define CUOTA_OLDEST_CUDA (\d+)$", header.read_text(), flags=re.M)[1])
    oldest = f"{oldest // 1000}.{oldest % 1000 // 10}"
    pages = [readme] if readme.exists() else []
    for path in [header, *pages, *sorted((root / "docs").glob("*.md"))]:
        for named in re.findall(r"CUDA Toolkit,? \(?(\d+\.\d+) or\s+later", path.read_text()):
            if named != oldest:
                findings.append(f"{path.relative_to(root)}: names CUDA Toolkit {named} as the oldest one, older_toolkits.hpp {oldest}")

for path in sorted((root / "include" / "cuota").rglob("*.[hc]pp")):
    for space in re.findall(r"^namespace (cuota\b[^{]*) \{", path.read_text(), flags=re.M):
        if not re.match(rf"cuota::inline v{version.split('.')[0]}(::|$)", space):
            findings.append(f"{path.name}: opens namespace {space}, and the version is {version}")
_lint.finish(findings)
