#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, included twice, with the flags of tests/odr.cpp: with its definitions apart, with those of its
part of cuota.cpp, and with all of them in place.

headers.py --commands=FILE [--forms=FORMS] [--stamps=FOLDER] [--system=FOLDER] [--only=HEADER] [ROOT]

FORMS: those of lint/_headers.py, with commas; without it, all but "in place", which takes as long as they do together.

Several headers share a file in a way that shows each alone: see _headers.py. With a stamp folder, a file is compiled again only
when it, or something that it includes, is newer than its last success. What needs a library that is not here is skipped by name. With
CUOTA_LINT_SHORT in the environment, headers in folders detail are left out, and others are compiled with their definitions apart only: public
headers and the parts of cuota.cpp include the rest.
"""
import concurrent.futures
import os
import pathlib
import sys
import subprocess
import tempfile

import _headers
import _lint


def fresh(stamp):
    """Whether nothing that the stamp's dependency list names has changed since."""
    if not stamp.exists():
        return False
    made = stamp.stat().st_mtime
    words = stamp.read_text().replace("\\\n", " ").split()[1:]
    try:
        return all(os.stat(word).st_mtime <= made for word in words)
    except FileNotFoundError:
        return False


def compile_chain(chain, form, name):
    """What the compiler says of these headers; nothing when they compile."""
    stamp = stamps / f"{name}.d"
    source, new = stamp.with_suffix(".cpp"), stamp.with_suffix(".new")
    text = _headers.source(chain)
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    if fresh(stamp):
        return ""
    run = subprocess.run([*line, *_headers.options_of(form), f"-I{root}/include", "-MD", "-MT", "x", "-MF", new, "-fsyntax-only", source],
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if run.returncode:
        return run.stdout or "no reason given"
    new.replace(stamp)
    return ""


def check(job):
    chain, form = job
    what = f"with the definitions of {form}" if form in _headers.PARTS else f"definitions {form}"
    name = f"{form}-{chain[-1]}".replace("/", "-").replace(" ", "-")
    if not compile_chain(chain, form, name):
        return []
    alone = {one: compile_chain([one], form, f"{name}-alone-{i}") for i, one in enumerate(chain)}
    return [f"{one} does not compile alone, {what}:\n{said}" for one, said in alone.items() if said] or [
        f"{', '.join(chain)} compile alone, but not in this order, {what}"]


root = _lint.root().resolve()
line = _lint.compile_line()
if _lint.option("system"):  # where what an opt-in header needs is found
    line += ["-isystem", _lint.option("system")]
scratch = tempfile.TemporaryDirectory()
stamps = pathlib.Path(_lint.option("stamps") or scratch.name)
stamps.mkdir(parents=True, exist_ok=True)
if not (stamps / "line").exists() or (stamps / "line").read_text() != repr(line):
    for old in stamps.glob("*.d"):
        old.unlink()
    (stamps / "line").write_text(repr(line))
headers = _headers.Headers(root, list(_lint.headers(root)))
lacking = headers.lacking(line, stamps)
is_short = os.environ.get("CUOTA_LINT_SHORT") and not _lint.option("only")
forms = (_lint.option("forms") or ("apart" if is_short else ",".join(form for form in _headers.FORMS if form != "in place"))).split(",")
headers.names = [_lint.option("only")] if _lint.option("only") else [
    name for name in headers.names if name not in lacking and not (is_short and "/detail/" in name)]
jobs = [(chain, form) for form in forms for chain in headers.chains(form)]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(check, sorted(jobs, key=lambda job: -len(job[0]))))
print(f"{len(headers.names)} headers, in {len(jobs)} files", *(f"SKIPPED: {name} (no {library})" for name, library in lacking.items()), sep="\n")
_lint.finish([finding for findings in results for finding in findings])
