# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What the ways of verify share: how they are named and run, and what they find on this machine. tests/matrix uses `run` and its like."""
import concurrent.futures
import fcntl
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

NOT_OURS = shutil.ignore_patterns(".git", "build", "__pycache__", "*.pyc", "CMakeUserPresets.json")


def option(name, default=None):
    return next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith(f"--{name}=")), default)


TREE = pathlib.Path(option("source", pathlib.Path(__file__).resolve().parents[2])).resolve()
WORK = pathlib.Path(option("work", TREE / "build" / "packages")).resolve()
PYPI = pathlib.Path(option("pypi", WORK / "pypi")).resolve()
COPIED = "--copied" in sys.argv
SOURCE = TREE if COPIED else WORK / "source"
HERE = SOURCE / "tests" / "packaging"
JOBS = int(option("jobs", os.cpu_count()))
SHORT = "--short" in sys.argv
NAMES = [a for a in sys.argv[1:] if not a.startswith("--")]


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


# ---- How a way is written: a function of the folder that it has for itself, in the order of this file.
WAYS = {}


def way(name, *, takes_long=False, comes_first=False):
    """One that comes first runs by itself, on all cores: later ways find its objects in ccache, which those at the same time do not."""
    def keep(function):
        WAYS[name] = (function, takes_long, comes_first)
        return function
    return keep


def run(*command, fails_with=None, timeout=1800, **how):
    """Runs a command, and returns what it said. It must end well; where fails_with is a regex, not well and with such words."""
    command = [str(word) for word in command]
    done = subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, **how)
    line = shlex.join(command)
    if fails_with is None and done.returncode:
        raise Failed(f"{line}\nended with {done.returncode}:\n{done.stdout}")
    if fails_with is not None and not done.returncode:
        raise Failed(f"{line}\nis accepted, and should be refused with '{fails_with}'\n{done.stdout}")
    if fails_with is not None and not re.search(fails_with, done.stdout):
        raise Failed(f"{line}\nis refused, but not with '{fails_with}':\n{done.stdout}")
    return done.stdout


def must(true, why):
    if not true:
        raise Failed(why)


def tool(name):
    """The path of a program, or the way is skipped."""
    found = shutil.which(name)
    if name == "nvcc" and not found:
        found = shutil.which("nvcc", path=os.pathsep.join([f"{os.environ.get('CUDA_HOME', '')}/bin", "/usr/local/cuda/bin"]))
    if not found:
        raise Skipped(f"no {name} on this machine")
    return found


# What several ways need is made once; who comes second waits.
def once(function):
    lock, kept = threading.Lock(), []

    @functools.wraps(function)
    def first():
        with lock:
            if not kept:
                try:
                    kept.append((function(), None))
                except (Failed, Skipped) as why:
                    kept.append((None, why))
        if kept[0][1]:
            raise kept[0][1]
        return kept[0][0]
    return first


@once
def toolkit():
    """The folder of CUDA's headers, where CMake and this find them."""
    nvcc = shutil.which("nvcc")
    for folder in (os.environ.get("CUDAToolkit_ROOT"), os.environ.get("CUDA_HOME"),
                   nvcc and pathlib.Path(nvcc).resolve().parents[1], "/usr/local/cuda",
                   TREE / "build" / "toolkit" / "nvidia" / "cu13"):
        if folder and (pathlib.Path(folder) / "include" / "cuda_runtime_api.h").is_file():
            return pathlib.Path(folder)
    raise Failed("no headers of the CUDA Toolkit: run packaging/setup")


def static_runtime():
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        if (library := toolkit() / folder / "libcudart_static.a").is_file():
            return [library, "-ldl", "-lrt", "-lpthread"]
    raise Skipped(f"no libcudart_static.a in {toolkit()}")


def from_pypi(package, program):
    """A program of a package of PyPI's, installed into the work folder. Mandatory where pip can."""
    folder = PYPI / re.sub(r"\W+", "-", package)
    PYPI.mkdir(parents=True, exist_ok=True)
    with (PYPI / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "bin" / program).exists():
            return folder
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
            raise Skipped("no pip on this machine")
        got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1",
                              "--root-user-action=ignore", "--target", folder, package], text=True, capture_output=True)
        if got.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            no_network = "NewConnectionError|ConnectTimeout|ReadTimeout|NameResolution|ProxyError|from versions: none"
            if re.search(no_network, got.stderr):
                raise Skipped(f"pip cannot fetch {package} here")
            raise Failed(f"pip install {package}:\n{got.stderr}")
    return folder


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ---- The run.
said_lock = threading.Lock()


def say(line):
    with said_lock:
        print(line, flush=True)


def verdict_of(name):
    function, takes_long, _ = WAYS[name]
    if SHORT and takes_long:
        say(f"SKIPPED: {name}: not in the short form")
        return "skipped"
    work = WORK / "ways" / name.replace("/", "-")
    work.mkdir(parents=True)
    start = time.monotonic()
    try:
        function(work)
    except Skipped as why:
        say(f"SKIPPED: {name}: {why}")
        return "skipped"
    except Exception as why:  # one that nobody thought of is a failure of that way, not of the others
        text = str(why) if isinstance(why, Failed) else f"{type(why).__name__}: {why}"
        (work / "failure.log").write_text(text)
        short = text if len(text) < 6000 else f"{text[:3000]}\n...\n{text[-3000:]}"
        say(f"FAILED   {name}: {short.rstrip()}")
        return "failed"
    say(f"passed   {name} ({time.monotonic() - start:.0f} s)")
    shutil.rmtree(work, ignore_errors=True)
    return "passed"


def main():
    if "--list" in sys.argv:
        print(*WAYS, sep="\n")
        return 0
    chosen = [name for name in WAYS if not NAMES or any(f"{name} ".startswith(asked) for asked in NAMES)]
    unknown = [asked for asked in NAMES if not any(f"{name} ".startswith(asked) for name in WAYS)]
    if unknown:
        sys.exit(f"verify: no way begins with {', '.join(unknown)}; --list names them")
    start = time.monotonic()
    for folder in ("source", "ways", "installed", "single"):
        shutil.rmtree(WORK / folder, ignore_errors=True)
    if not COPIED:
        shutil.copytree(TREE, SOURCE, ignore=NOT_OURS)
    if shutil.which("ninja"):
        os.environ.setdefault("CMAKE_GENERATOR", "Ninja")
    if shutil.which("ccache"):  # several ways compile the same files with the same options
        for variable, value in {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CMAKE_CUDA_COMPILER_LAUNCHER": "ccache",
                                "CCACHE_DIR": str(WORK / "ccache"), "CCACHE_BASEDIR": str(WORK), "CCACHE_NOHASHDIR": "1"}.items():
            os.environ.setdefault(variable, value)
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = str(os.cpu_count())
    verdicts = [verdict_of(name) for name in chosen if WAYS[name][2]]
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = str(max(1, os.cpu_count() // JOBS))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        verdicts += pool.map(verdict_of, [name for name in chosen if not WAYS[name][2]])
    count = verdicts.count
    print(f"{count('passed')} passed, {count('failed')} failed, {count('skipped')} skipped, "
          f"in {time.monotonic() - start:.0f} s, {sum(os.times()[:4]):.0f} s of them by a processor")
    return 1 if count("failed") else 0 if count("passed") else 2

