#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The header with the JavaScript of the timeline is what packaging/timeline_scripts makes of its files."""
import runpy

import _lint

root = _lint.root()
made = runpy.run_path(str(root / "packaging" / "timeline_scripts"))
path = root / made["FOLDER"] / "timeline_scripts.hpp"
scripts = [*path.parent.glob("*.js")]
is_made = path.exists() and path.read_text() == made["header"](root) if scripts else not path.exists()
_lint.finish([] if is_made else [f"{path.relative_to(root)} is not what packaging/timeline_scripts makes of the .js files beside it: run it"])
