#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Each lint fails when its rule is broken: a copy of the project is broken in one place, and the lint must name it. Lints of which
a run takes long have one run for all of their cases, and must name each.

test_lints.py --commands=FILE [ROOT]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import _lint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from mutating import put  # noqa: E402


def add(path, text):
    """Puts a line at the end of a file, or makes the file with it."""
    def mutate(top):
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, (file.read_text() if file.exists() else "") + text + "\n")
    return mutate


def swap(path, old, new):
    def mutate(top):
        file = top / path
        text = file.read_text()
        assert re.search(old, text), f"{path} holds no {old}"
        put(file, re.sub(old, new, text, count=1))
    return mutate


def remove(path):
    return lambda top: (top / path).unlink()


SPDX = "// SPDX-FileCopyrightText: 2026 The cuota authors\n// SPDX-License-Identifier: Apache-2.0\n"
CASES = [  # lint, what is broken, how, what the lint must say
    ("layers", "an upward include", add("include/cuota/core/bytes.hpp", "#include <cuota/pool/scoped_pool.hpp>"),
     r"core/bytes.hpp:\d+: core may not include pool"),
    ("layers", "an upward include by a relative path", add("include/cuota/core/bytes.hpp", '#include "../guard/budget.hpp"'),
     r"core/bytes.hpp:\d+: core may not include guard"),
    ("layers", "a sideways include", add("include/cuota/report/x.hpp", "#include <cuota/training/y.hpp>"),
     r"report/x.hpp:1: report may not include training"),
    ("layers", "a layer including the umbrella", add("include/cuota/data/x.hpp", "#include <cuota/cuota.hpp>"),
     r"data/x.hpp:1: data may not include cuota"),
    ("layers", "a layer including the simulator",
     add("include/cuota/runtime/x.hpp", "#include <cuota/simulator.hpp>"), r"runtime/x.hpp:1: the simulator"),
    ("layers", "a CUDA header outside the door", add("include/cuota/pool/x.hpp", "#include <cuda_runtime_api.h>"),
     r"pool/x.hpp:1: only runtime/ includes"),
    ("layers", "a CUDA call outside the door", add("include/cuota/pool/y.hpp", "inline int f(void* p) { return cudaFree (p); }"),
     r"pool/y.hpp:1: only runtime/ calls CUDA \(cudaFree\)"),
    ("layers", "a driver call outside the door", add("include/cuota/interop/x.hpp", "inline void f() { ::cuMemCreate(); }"),
     r"interop/x.hpp:1: only runtime/ calls CUDA \(cuMemCreate\)"),
    ("layers", "definitions of another part", add("include/cuota/data/y.hpp", "#if CUOTA_DEFINE_MEMORY\n#endif"),
     r"data/y.hpp:1: definitions of data stand under CUOTA_DEFINE_DATA, .*, not CUOTA_DEFINE_MEMORY"),
    ("layers", "definitions that nvcc reads for the device and that are not of the kernels' part",
     add("include/cuota/data/z.hpp", "#if CUOTA_PART_DATA\n#endif"), r"data/z.hpp:1: definitions .* not CUOTA_PART_DATA"),
    ("layers", "a folder without a rank", add("include/cuota/misc/x.hpp", ""), r"the folder misc has no rank"),
    ("kernel_layout", "an empty member that nvcc lays out in two ways",
     add("include/cuota/buffer/device_span.hpp", "struct x { [[no_unique_address]] detail::view_origin a; };"),
     r"buffer/device_span.hpp:\d+: \[\[no_unique_address\]\] in a header"),
    ("assignments", "an operator= that takes its argument by value",
     swap("include/cuota/runtime/stream.hpp", "operator=.shared_stream&& other.", "operator=(shared_stream other)"),
     r"runtime/stream.hpp:\d+: operator= takes its argument by value"),
    ("moved_from", "a class that no such test names", add("include/cuota/fwd.hpp", "class never_moved;"),
     r"fwd.hpp declares never_moved, and no test"),
    ("checked_views", "a class template with a view as a member, outside of the views",
     add("include/cuota/training/batches/micro_batches.hpp",
         "namespace cuota::inline v0 {\ntemplate <class T>\nclass holder {\n    device_span<T> held_{};\n};\n}  // namespace cuota::inline v0"),
     r"training/batches/micro_batches.hpp:\d+: a member that is a view"),
    ("checked_views", "views in a namespace that is inline in detail",
     add("include/cuota/training/batches/micro_batches.hpp",
         "namespace cuota::inline v0::detail::inline other {\ninline namespace CUOTA_VIEWS {\n}  // namespace CUOTA_VIEWS\n}  // namespace cuota::inline v0::detail::inline other"),
     r"training/batches/micro_batches.hpp:\d+: CUOTA_VIEWS is opened in cuota::v0::detail::other"),
    ("checked_views", "views whose functions are one symbol", swap("include/cuota/core/config.hpp", r"inline namespace \[\[gnu::abi_tag\]\] CUOTA_VIEWS", "inline namespace CUOTA_VIEWS"),
     r"row_offsets\S* is the same in files with checked views and in others"),
    ("virtual_functions", "a virtual function that is inline where definitions are apart",
     swap("include/cuota/pool/detail/growth/mapped_range.hpp", "CUOTA_INLINE_IN_PLACE mapping_sizes mapped_range", "CUOTA_INLINE mapping_sizes mapped_range"),
     r"pool/detail/growth/mapped_range.hpp:\d+: mapped_range::sizes is virtual"),
    ("virtual_functions", "a virtual function whose declaration is not inline",
     swap("include/cuota/core/error.hpp", "CUOTA_INLINE_IN_PLACE char const. what", "char const* what"),
     r"core/error.hpp:\d+: out_of_memory::what is virtual: its declaration"),
    ("in_place", "a virtual destructor whose declaration is not inline",
     swap("include/cuota/pool/detail/pool_state.hpp", "CUOTA_INLINE_IN_PLACE ~pool_state.. override", "~pool_state()"),
     r"a file that includes buffer/device_buffer.hpp and uses nothing emits \d+ symbols"),
    ("in_place", "a class with a view as a member, outside of the views",
     add("include/cuota/buffer/device_buffer.hpp", "namespace cuota::inline v0 {\nstruct holder {\n    device_span<int> held;\n};\n}  // namespace cuota::inline v0"),
     r"buffer/device_buffer.hpp:\d+: .*holder.* has a view as a member, outside of CUOTA_VIEWS"),
    ("names", "a name that was given up", add("include/cuota/core/x.hpp", "void f(place where);"),
     r"core/x.hpp:\d+: place was given up for source_location"),
    ("names", "a spelling that was given up", add("include/cuota/core/x.hpp", "int quantised_moments();"),
     r"core/x.hpp:\d+: quantised_moments was given up for quantized"),
    ("umbrella", "a header missing from the umbrella", add("include/cuota/core/y.hpp", ""), r"includes core/y.hpp 0 times, not 1"),
    ("umbrella", "definitions that no part has", swap("include/cuota/parts/memory.cpp", "cuota/all.hpp", "cuota/cuota.hpp"),
     r"parts/memory.cpp does not reach core/detail/threads/backoff.hpp"),
    ("umbrella", "a header included twice", add("include/cuota/cuota.hpp", "#include <cuota/version.hpp>"),
     r"includes version.hpp 2 times, not 1"),
    ("umbrella", "a header that a compiler of C++17 is not refused by", add("include/cuota/core/x.hpp", "#include <type_traits>"),
     r"core/x.hpp does not include cuota/version.hpp"),
    ("umbrella", "an include of nothing", add("include/cuota/cuota.hpp", "#include <cuota/core/gone.hpp>"),
     r"includes core/gone.hpp, which is not there"),
    ("umbrella", "a header in the wrong umbrella", add("include/cuota/training.hpp", "#include <cuota/report/export/summary.hpp>"),
     r"training.hpp includes report/export/summary.hpp 1 times, not 0"),
    ("umbrella", "an interop header in the umbrella", lambda top: (
        add("include/cuota/interop/x.hpp", "")(top), add("include/cuota/cuota.hpp", "#include <cuota/interop/x.hpp>")(top)),
     r"includes interop/x.hpp 1 times, not 0"),
    ("umbrella", "a header for other headers in the umbrella",
     add("include/cuota/cuota.hpp", "#include <cuota/pool/detail/pool_state.hpp>"), r"includes pool/detail/pool_state.hpp 1 times, not 0"),
    ("umbrella", "a header for other headers that none includes",
     add("include/cuota/core/x.hpp", "namespace cuota::inline v0::detail {\n}"), r"core/x.hpp is for other headers only"),
    ("umbrella", "a header for other headers outside of detail",
     add("include/cuota/core/x.hpp", "namespace cuota::inline v0::detail {\n}"), r"core/x.hpp declares nothing outside of namespace detail"),
    ("umbrella", "a public header in detail", add("include/cuota/core/detail/x.hpp", "namespace cuota::inline v0 {\nclass x;\n}"),
     r"core/detail/x.hpp declares a name outside of namespace detail"),
    ("umbrella", "a folder that is too full", lambda top: [add(f"include/cuota/guard/x{i}.hpp", "")(top) for i in range(16)],
     r"guard has \d+ headers and folders, more than 16"),
    ("process_state", "a static object that a hidden library has for itself",
     add("include/cuota/core/x.hpp", "inline int& f() {\n    static int n = 0;\n    return n;\n}"),
     r"core/x.hpp:2: f has a static object and is not CUOTA_PROCESS_STATE"),
    ("process_state", "a class that is no longer marked",
     swap("include/cuota/runtime/detail/captured_streams.hpp", "class CUOTA_PROCESS_STATE captured_streams", "class captured_streams"),
     r"runtime/detail/captured_streams.hpp:\d+: captured_streams has a static object"),
    ("process_state", "a static object of a function that is not inline for clang",
     swap("include/cuota/runtime/detail/captured_streams.hpp", "CUOTA_INLINE_STATE captured_streams& captured_streams::all",
          "CUOTA_INLINE captured_streams& captured_streams::all"),
     r"runtime/detail/captured_streams.hpp:\d+: all has a static object and is not defined as CUOTA_INLINE_STATE"),
    ("process_state", "an error whose type a hidden library has for itself",
     swap("include/cuota/guard/guard_violation.hpp", "class CUOTA_PROCESS_TYPE guard_bytes_error", "class guard_bytes_error"),
     r"guard/guard_violation.hpp:\d+: guard_bytes_error is known by its type"),
    ("process_state", "a class that dynamic_cast does not find in another library",
     swap("include/cuota/pool/detail/pool_state.hpp", "class CUOTA_PROCESS_TYPE pool_state", "class pool_state"),
     r"pool/detail/pool_state.hpp:\d+: pool_state is known by its type"),
    ("spdx", "a file without a licence line", swap("include/cuota/version.hpp", "// SPDX-License.*\n", ""),
     r"version.hpp: no line 'SPDX-License"),
    ("spdx", "a new file with neither line", add("packaging/tool", "echo"), r"packaging/tool: no line 'SPDX-FileCopyrightText"),
    ("mutations", "a rule whose text has gone",
     swap("include/cuota/simulator/scheduler.cpp", r"on->queue\.push_back\(work\);", "on->queue.emplace_back(work);"),
     r"takes out of simulator/scheduler.cpp what stands there 0 times"),
    ("mutations", "a guard of the loader whose text has gone",
     swap("include/cuota/data/detail/loader/batch_reorder_queue.hpp", r"ready_\.clear\(\);", "ready_ = {};"),
     r"takes out of data/detail/loader/batch_reorder_queue.hpp what stands there 0 times"),
    ("version", "a changelog that lags", swap("include/cuota/version.hpp", r"VERSION_MINOR \d+", "VERSION_MINOR 99"),
     r"CHANGELOG.md: its top entry is [\d.]+, version.hpp says 0.99.0"),
    ("version", "a README for another version", add("README.md", "find_package(cuota 9.8 REQUIRED)"), r"README.md: asks for 9.8"),
    ("version", "a page that names an older toolkit", swap("docs/installation.md", r"CUDA Toolkit, \d+\.\d+ or", "CUDA Toolkit, 11.4 or"),
     r"docs/installation.md: names CUDA Toolkit 11.4 as the oldest one, older_toolkits.hpp 12.0"),
    ("version", "a header that stayed behind with its namespace", add("include/cuota/core/x.hpp", "namespace cuota::inline v9 {\n}"),
     r"x.hpp: opens namespace cuota::inline v9"),
    ("version", "a header without the version's namespace", add("include/cuota/core/x.hpp", "namespace cuota {\n}"),
     r"x.hpp: opens namespace cuota,"),
    ("contributing", "a resource that is not the tested one", swap("tests/resource/own_resource.cpp", r"if \(p\) --\*live_;", "--*live_;"),
     r"its resource is not the one of"),
    ("contributing", "a target that has gone", swap("Makefile", r"(?m)^tidy:", "lint-by-clang:"), r"there is no make tidy"),
    ("contributing", "a lint that nobody is told of", add("tests/lint/newer.py", ""), r"its lints are not those .*newer"),
    ("contributing", "another step of CI", swap(".ci/run", r"steps=\(test ", "steps=(tests "), r"CI runs tests integration lint"),
    ("messages", "a value without a place", swap("include/cuota/buffer/mirrored_buffer.hpp", 'for the device.s side"', 'for a side", {1}'),
     r"buffer/mirrored_buffer.hpp:\d+: 1 values for 0 places"),
    ("messages", "a place without a value", swap("include/cuota/core/detail/text/leak_summary.hpp", r"\{\} x ", "{} {} x "),
     r"core/detail/text/leak_summary.hpp:\d+: 1 values for 2 places"),
    ("names", "a message that names a function of before", swap("include/cuota/interop/pytorch.hpp", '"set_fraction: ', '"set_share: '),
     r"interop/pytorch.hpp:\d+: set_share does not exist in the code"),
    ("names", "a design page that lags", add("docs/design/pool.md", "The blocks_of_before keep it."),
     r"docs/design/pool.md:\d+: blocks_of_before does not exist"),
    ("prose", "a comment in a grammar of its own", add("include/cuota/core/bytes.hpp", "// Of what is given back by whoever wants it, nobody has so much then.\n" * 200),
     r"include/cuota/core: 'give back' occurs \d+ times, \d+ are allowed"),
    ("prose", "a message in that grammar", add("include/cuota/core/bytes.hpp", 'char const* x = "a name that is none was given back by somebody";\n' * 20),
     r"include/cuota/core, messages: 'is none' occurs \d+ times, \d+ are allowed"),
    ("mirror", "a header without a test", add("include/cuota/core/x.hpp", ""), r"core/x.hpp has no tests/core/x.cpp"),
    ("foreign_paths", "a path of one machine", add("tests/core/x.cpp", "// see /" + "home/bob/x"), r"tests/core/x.cpp:1: /h" + "ome"),
    ("foreign_paths", "a folder beside the checkout", add("Makefile", "\tls ../" + "shared"), r"Makefile:\d+: \.\./s"),
    ("headers", "a header that leans on another's includes",
     add("include/cuota/core/bare.hpp", SPDX + "#pragma once\ninline std::string bare() { return {}; }"),
     r"core/bare.hpp does not compile alone(.|\n)*std::string"),
    ("headers", "a header that leans on what only its definitions include",
     add("include/cuota/core/bare.hpp", SPDX + "#pragma once\n#include <cuota/core/config.hpp>\n#if CUOTA_DEFINE_MEMORY\n#include <string>\n"
         "#endif\ninline std::string bare() { return {}; }"), r"core/bare.hpp does not compile alone, definitions apart(.|\n)*std::string"),
    ("headers", "a header without an include guard", add("include/cuota/core/bare.hpp", SPDX + "struct bare {};"),
     r"core/bare.hpp does not compile alone(.|\n)*redefinition"),
    ("headers", "a header with a warning",
     add("include/cuota/core/bare.hpp", "#pragma once\ninline int bare(long x) { return x; }"), r"core/bare.hpp(.|\n)*conversion"),
    ("other_compiler", "what only one compiler takes", lambda top: put(top / "tests/odr.cpp", "#error refused\n"),
     r"tests/odr.cpp does not compile by"),
    ("snippets", "C++ that nobody compiles", add("docs/limits.md", "```cpp new\nint x;\n```"),
     r'docs/limits.md:\d+: no file of tests/docs includes "limits/new.inc"'),
    ("snippets", "a block without a name", add("docs/limits.md", "```cpp\nint x;\n```"),
     r"docs/limits.md:\d+: a block that nobody vouches for: ```cpp"),
    ("snippets", "an output that nobody compares", add("docs/limits.md", "```text new\nx\n```"),
     r'docs/limits.md:\d+: no file of tests/docs has check_prints\("limits/new"'),
    ("snippets", "a quotation that is none", swap("examples/first.cpp", "what this program may hold", "what it may hold"),
     r"README.md:\d+: these lines do not stand in examples/first.cpp"),
    ("snippets", "a difference with a line that the program lacks", swap("docs/adopting.md", r"\+    limit\.grow\(", "+    limit.raise("),
     r"docs/adopting.md:\d+: not a difference of examples/adopt/array_before.cpp and examples/adopt/array_after.cpp:\n(.*\n)*\+    limit.raise"),
    ("snippets", "a difference of programs that have changed", swap("examples/adopt/pool_before.cpp", r"auto best = ", "auto found = "),
     r"docs/adopting.md:\d+: not a difference of examples/adopt/pool_before.cpp"),
    ("snippets", "a test of a snippet that has gone", add("tests/docs/x.cpp", '#include "limits/gone.inc"'),
     r"includes limits/gone.inc, and no page has it"),
    ("snippets", "code that a page has no room for", swap("docs/ten_minutes.md", r"using namespace cuota::literals;", "//" + 104 * "x"),
     r"docs/ten_minutes.md:\d+: 106 columns"),
    ("timeline_scripts", "a script that differs from its header", add("include/cuota/report/detail/timeline/chart.js", "let more = 1;"),
     r"timeline_scripts.hpp is not what packaging/timeline_scripts makes"),
    ("docs", "a function that says nothing",
     add("include/cuota/core/label.hpp", "namespace cuota::inline v0 {\ninline int says_nothing() { return 1; }\n}"),
     r"label.hpp:\d+:.*says_nothing.* is not documented"),
    ("docs", "a link to a page that is not there", add("docs/limits.md", "[gone](gone.md)"), r"limits.md:\d+:.*gone"),
    ("docs", "a link to a heading that is not there", add("docs/limits.md", "[gone](#gone)"), r"limits.md:\d+:.*limits_gone"),
    ("tidy", "a name in another case", lambda top: (
        add("include/cuota/core/bare.hpp", SPDX + "#pragma once\nnamespace cuota { class BareThing {}; }")(top),
        add("tests/bare.cpp", "#include <cuota/core/bare.hpp>")(top)), r"core/bare.hpp(.|\n)*invalid case style for class 'BareThing'"),
    ("format", "a badly formatted file", add("include/cuota/core/bare.hpp", "#pragma  once\nint   bare( ) ;"), r"core/bare.hpp: \d+ places"),
    ("tables", "two rows in one line", add("docs/limits.md", "\n| a | b |\n|---|---|\n| c | d | | e | f |"), r"limits.md:\d+: this row has 5 cells"),
    ("tables", "a row of two lines", add("docs/limits.md", "\n| a | b |\n|---|---|\n| c | d\nd |"), r"limits.md:\d+: this line follows a table"),
]

root = _lint.root()
commands = [a for a in sys.argv[1:] if a.startswith("--commands")]
failures = []
folder = tempfile.TemporaryDirectory()
unbroken, top = pathlib.Path(folder.name) / "unbroken", pathlib.Path(folder.name) / "copy"
shutil.copytree(root, unbroken, ignore=shutil.ignore_patterns(*_lint.NOT_OURS))
shutil.copytree(unbroken, top, copy_function=os.link)


def files_of(tree):
    """The number of the file that each path below the tree names."""
    found = {}
    for at, _, names in os.walk(tree):
        for entry in names:
            path = os.path.join(at, entry)
            found[os.path.relpath(path, tree)] = os.stat(path).st_ino
    return found


def restore():
    """Makes `top` what it was before a case: its files are links to the unbroken ones, and a case puts others in their place."""
    now = files_of(top)
    for path in now.keys() | original.keys():
        if now.get(path) == original.get(path):
            continue
        if path in now:
            (top / path).unlink()
        if path in original:
            os.link(unbroken / path, top / path)
        elif not any((top / path).parent.iterdir()):
            (top / path).parent.rmdir()


original = files_of(unbroken)
TOGETHER = ("docs", "foreign_paths", "in_place", "layers", "names", "process_state", "prose", "umbrella", "virtual_functions")
runs = [(lint, [case]) for lint, *case in CASES if lint not in TOGETHER] + [
    (together, [case for lint, *case in CASES if lint == together]) for together in TOGETHER]
for lint, cases in runs:
    for _, mutate, _ in cases:
        mutate(top)
    started = time.monotonic()
    more = {"headers": [*commands, "--only=core/bare.hpp"], "other_compiler": [*commands, "--only=tests/odr.cpp"],
            "tidy": [*commands, "--only=tests/bare.cpp"], "in_place": [*commands, "--only=buffer/device_buffer.hpp"],
            "format": ["--only=include/cuota/core/bare.hpp"], "checked_views": commands}.get(lint, [])
    run = subprocess.run([sys.executable, top / "tests" / "lint" / f"{lint}.py", *more, top], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    restore()
    seconds = time.monotonic() - started
    for what, _, expected in cases:
        if run.returncode == 77:
            print(f"skipped  {lint}: {what}: {run.stdout.strip()}")
        elif run.returncode == 0 or not re.search(expected, run.stdout):
            print(f"FAILED   {lint}: {what}")
            failures.append(f"{lint} did not name {what} (status {run.returncode}):\n{run.stdout}")
        else:
            print(f"refused  {lint}: {what} ({seconds:.1f} s{', together' if len(cases) > 1 else ''})", flush=True)
_lint.finish(failures)
