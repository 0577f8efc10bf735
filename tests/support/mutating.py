# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What the scripts share that take rules out of a copy of the sources, and want the tests that state them to fail."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include" / "cuota"
HANGS_AFTER_S = 20
NOTICED = ("failed", "crashed", "hung")
TEST_CASE = re.compile(r'\bTEST_CASE\(\s*"([^"]*)"')


@dataclasses.dataclass
class Verdict:
    rule: str
    good: bool
    text: str


def put(file, text):
    """Writes a file of a copy of the project whose files are hard links to those of an unbroken copy, which keeps its own."""
    mode = file.stat().st_mode if file.exists() else None
    file.unlink(missing_ok=True)
    file.write_text(text)
    if mode is not None:
        file.chmod(mode)


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


def places(text, of):
    """Where a piece of text stands in another, however its lines are indented."""
    first, *rest = of.split("\n")
    pattern = "(?m:^) *" + re.escape(first.lstrip(" ")) if first.startswith("    ") else re.escape(first)
    return list(re.finditer("\n *".join([pattern, *[re.escape(line.lstrip(" ")) for line in rest]]), text))


def apply(edits, folder):
    """None, or what is wrong with an edit: of each a file of the folder, the text that goes, and what takes its place."""
    for name, old, new in edits:
        path = folder / name
        text = path.read_text()
        found = places(text, old)
        if len(found) != 1:
            return f"{name} has this text {len(found)} times, not once: {old!r}"
        path.write_text(text[:found[0].start()] + new + text[found[0].end():])
    return None


def mutated(edits, folder):
    """None, or what is wrong: puts copies of the headers with the edits applied into the folder."""
    for name in {name for name, _, _ in edits}:
        (folder / "cuota" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(INCLUDE / name, folder / "cuota" / name)
    return apply(edits, folder / "cuota")


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


class Build:
    """The flags and libraries of a test program as a build has them, to make a program of some of its files, and of helpers."""

    def __init__(self, commands, target, helpers=()):
        commands = pathlib.Path(commands).resolve()
        entries = json.loads(commands.read_text())
        mine = next(e for e in entries if f"{target}.dir" in e["command"])
        words_of = shlex.split(mine["command"])
        at = words_of.index("-c")
        out = words_of.index("-o")
        # Definitions that a mutation changes stand in each file, not in the build's cuota::cuota.
        self.line = [a for i, a in enumerate(words_of) if i not in (at, at + 1, out, out + 1)
                     and a not in ("-Werror", "-DCUOTA_SEPARATE_COMPILATION=1")]
        if "-include" in self.line:  # was precompiled with that
            del self.line[self.line.index("-include"):self.line.index("-include") + 2]
        self.directory = mine["directory"]
        simulator = next(commands.parent.rglob("libcuota-simulator.so"))
        self.kept = tempfile.TemporaryDirectory(prefix="unchanged-")
        # What all programs have besides: Catch2 3 brings its own main, and no entry says how to compile one.
        mains = [HERE / "catch_main.cpp"] * any(e["file"].endswith("catch_main.cpp") for e in entries)
        objects = []
        for source in [*helpers, *mains]:
            objects.append(pathlib.Path(self.kept.name) / f"{source.stem}.o")
            if wrong := self.compile(source, objects[-1]):
                sys.exit(wrong)
        self.link = [*[a for a in self.line if a.startswith("-fsanitize")], *objects, *([] if mains else ["-lCatch2Main", "-lCatch2"]),
                     simulator, f"-Wl,-rpath,{simulator.parent}", "-ldl", "-pthread"]

    def compile(self, source, to, first=None):
        """What the compiler says when it refuses a source, the headers in the folder `first` before all others."""
        line = [self.line[0], "-w", *([f"-I{first}"] if first else []), *self.line[1:]]
        done = subprocess.run([*line, "-o", to, "-c", source], cwd=self.directory, capture_output=True, text=True)
        return (done.stderr or "refused") if done.returncode else ""

    def program(self, folder, sources, first=None):
        """A program of these files in the folder, or what is wrong."""
        objects = [folder / f"{source.stem}.o" for source in sources]
        for source, to in zip(sources, objects):
            if wrong := self.compile(source, to, first):
                return None, wrong
        done = subprocess.run([self.line[0], "-o", folder / "tests", *objects, *self.link], cwd=self.directory,
                              capture_output=True, text=True)
        return folder / "tests", done.stderr if done.returncode else ""


def chosen_of(mutations):
    """Those whose rule or header has one of the words of the command line; without words, all."""
    return [m for m in mutations
            if not words() or any(w in text for w in words() for text in [m.rule, *(name for name, _, _ in m.edits)])]


def notices(build, m, path_of, ends):
    """Compiles the test files of a mutation against it, one after another, until ends(program) says that one has noticed it."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as where:
        folder = pathlib.Path(where)
        if wrong := mutated(m.edits, folder):
            return Verdict(m.rule, False, wrong)
        said = []
        for test in m.tests:
            program, wrong = build.program(folder, [path_of(test)], folder)
            if wrong:
                return Verdict(m.rule, False, "does not compile: " + wrong[-2000:])
            said.append(f"{test} {ends(program)}")
            if said[-1].split()[1] in NOTICED:
                return Verdict(m.rule, True, said[-1])
        return Verdict(m.rule, False, "; ".join(said))


def without_mutation(build, mutations, path_of, ends):
    """Findings: the test files must pass, built the same way without a mutation."""
    findings = []
    for test in sorted({test for m in mutations for test in m.tests}):
        program, wrong = build.program(pathlib.Path(build.kept.name), [path_of(test)])
        end = wrong or ends(program)
        findings += [] if end == "passed" else [f"{test} {end} with nothing taken out"]
    return findings


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
