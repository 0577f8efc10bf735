#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation as HTML has no warnings of Doxygen's, a page for every public header, and no link to nothing.

docs.py [--output=FOLDER] [ROOT]     with an output it stays there: `make docs`
"""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import _lint

KNOWN = "1.9.4"  # what is no warning for one version is one for another
STYLE = [pathlib.Path("/usr/share/doxygen-awesome-css") / name for name in ("doxygen-awesome.css", "doxygen-awesome-sidebar-only.css")]


def version(root):
    text = (root / "include" / "cuota" / "version.hpp").read_text()
    return ".".join(re.findall(r"^#define CUOTA_VERSION_\w+ (\d+)", text, flags=re.M))


def run(root, output):
    """What Doxygen has to say, a line each."""
    style = filter(pathlib.Path.exists, STYLE)
    done = subprocess.run(["doxygen", "docs/html/Doxyfile"], cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "CUOTA_VERSION": version(root), "CUOTA_DOCS": str(output),
                               "CUOTA_DOCS_STYLE": " ".join(map(str, style))})
    said = done.stdout.replace(f"{root}/", "").splitlines()
    return said or ([f"doxygen: status {done.returncode}"] if done.returncode else [])


def page_of(header):
    """Doxygen's name for the page of a file."""
    name = header.rsplit("/", 1)[-1]
    return name.replace("_", "__").replace(".", "_8") + ".html"


def links(root, folder):
    """Links that lead nowhere: to a file that is not there, or to a place in one that has no such name."""
    names = {}
    for page in folder.glob("*.html"):
        names[page.name] = set(re.findall(r'\b(?:id|name)="([^"]*)"', page.read_text()))
    ours = ["index.html", *(f"{page.stem}.html" for page in sorted((root / "docs").glob("*.md")) if page.stem != "README")]
    for page in map(folder.joinpath, ours):  # the other pages' links are Doxygen's
        for link in sorted(set(re.findall(r'(?:href|src|data)="([^"]*)"', page.read_text()))):
            link = html.unescape(link)
            if re.match(r"[a-z]+:", link):
                continue
            path, _, place = link.partition("#")
            path = urllib.parse.unquote(path) or page.name
            if not (folder / path).exists():
                yield f"{page.name}: a link to {link}, which is not there"
            elif place and path in names and place not in names[path]:
                yield f"{page.name}: a link to {link}, which has no such place"


def check(root, output):
    findings = run(root, output)
    if findings and installed != KNOWN:
        print(*findings, sep="\n")
        print(f"these are not held against anybody: Doxygen is {installed}, and {KNOWN} is what decides")
        findings = []
    folder = output / "html"
    listed = (folder / "files.html").read_text() if (folder / "files.html").exists() else ""
    for header in [*_lint.headers(root)]:
        if not re.search(rf'href="[^"]*{re.escape(page_of(header))}"', listed):
            findings.append(f"include/cuota/{header}: has no page of its own in the documentation")
    return findings + [*links(root, folder)]


tool = shutil.which("doxygen")
if not tool:
    print("SKIPPED: docs needs doxygen: packaging/setup docs")
    sys.exit(77)
installed = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.split()[0]
root = _lint.root()
output = _lint.option("output")
if output:
    shutil.rmtree(pathlib.Path(output) / "html", ignore_errors=True)
    pathlib.Path(output).mkdir(parents=True, exist_ok=True)
    _lint.finish(check(root, pathlib.Path(output).resolve()))
with tempfile.TemporaryDirectory() as folder:
    _lint.finish(check(root, pathlib.Path(folder)))
