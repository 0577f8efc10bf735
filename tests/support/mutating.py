# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What the scripts share that take rules out of a copy of the sources, and want the tests that state them to fail."""
import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys

HANGS_AFTER_S = 20
TEST_CASE = re.compile(r'\bTEST_CASE\(\s*"([^"]*)"')


@dataclasses.dataclass
class Verdict:
    rule: str
    good: bool
    text: str


def option(name, default=None):
    found = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith(f"--{name}=")]
    if not found and default is None:
        sys.exit(f"--{name}=... is missing")
    return found[-1] if found else default


def words():
    """What the command line names besides options: only rules with one of these are taken out."""
    return [a for a in sys.argv[1:] if not a.startswith("--")]


def test_names(folder, pattern):
    return {name for path in folder.glob(pattern) for name in TEST_CASE.findall(path.read_text())}


def apply(edits, folder):
    """None, or what is wrong with an edit: of each a file of the folder, the text that goes, and what takes its place."""
    for name, old, new in edits:
        path = folder / name
        text = path.read_text()
        if text.count(old) != 1:
            return f"{name} has this text {text.count(old)} times, not once: {old!r}"
        path.write_text(text.replace(old, new))
    return None


def outcome(program, test, environment):
    """How one test ends: passed, failed, crashed, hung, or not run."""
    name = test.replace("\\", "\\\\").replace(",", "\\,").replace("[", "\\[")
    run = subprocess.Popen([program, name], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, errors="replace", start_new_session=True)
    try:
        text, _ = run.communicate(timeout=HANGS_AFTER_S)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, 9)  # a group of its own, made just above
        run.communicate()
        return "hung"
    if run.returncode < 0 or "SIGSEGV" in text or "SIGABRT" in text or "SIGFPE" in text:
        return "crashed"
    if run.returncode == 0 and ("No test cases matched" in text or "CUOTA_SKIPPED: " in text):
        return "not run"
    return "failed" if run.returncode else "passed"


def take_out(chosen, jobs, try_out, findings):
    """Tries each, says how it went, and ends the program: well only if there was nothing to find."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
        for verdict in workers.map(try_out, chosen):
            print("noticed " if verdict.good else "MISSED  ", verdict.rule, "--", verdict.text, flush=True)
            findings += [] if verdict.good else [f"{verdict.rule}: {verdict.text}"]
    for finding in findings:
        print("finding:", finding)
    print(f"{len(chosen)} rules taken out, {len(findings)} findings")
    sys.exit(1 if findings else 0)
