#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""batch.py --threads-only leaves out the tests that start no threads, and the others keep their lines.

batch.py ROOT
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
HELPERS = """#include <thread>
inline void beside(void (*f)()) {
    std::thread{f}.join();
}
struct alone {};
"""
SOME = '''#include "helpers.hpp"
namespace {
constexpr char const* text = R"(
}
TEST_CASE("in a text") {
)";
int quiet() {
    return 1;
}

void twice(
    void (*f)()) {
    beside(f);
    beside(f);
}
}  // namespace

TEST_CASE("by the header", "[x]") {
    beside([] {});
}

TEST_CASE("quiet",
          "[x]") {
    alone const a;
    CHECK(quiet() == 1);
}

TEST_CASE_METHOD(alone, "by a function of the file") {
    twice(R"py(
text
)py");
}

TEMPLATE_TEST_CASE("by itself", "[x]", int) { std::jthread{[] {}}; }

TEST_CASE("this_thread is none") { std::this_thread::yield(); }
'''
NONE = 'TEST_CASE("one") {\n}\n\nTEST_CASE("two") {\n}\n'

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for file, text in (("helpers.hpp", HELPERS), ("some.cpp", SOME), ("none.cpp", NONE)):
        (folder / file).write_text(text)
    subprocess.run([sys.executable, ROOT / "tests/batch.py", "--threads-only", folder / "all.cpp", folder / "some.cpp", folder / "none.cpp"], check=True)
    written = (folder / "all.cpp").read_text()
_, some, none = re.split(r'#line 1 "[^"]*"\n', written)
expected = SOME.splitlines()
for number, line in enumerate(expected):
    if line.startswith(('TEST_CASE("quiet"', 'TEST_CASE("this_thread')):
        expected[number] = ""
        while line != "}" and not line.endswith("}"):
            line, expected[number + 1] = expected[number + 1], ""
            number += 1
wrong = []
if some.splitlines()[:len(expected)] != expected:
    wrong.append("the tests that start threads, in their lines")
if not none.startswith(NONE):
    wrong.append("the whole of a file without such tests")
print(*(f"FAILED: {what}" for what in wrong), written if wrong else "batch: all checks hold", sep="\n")
sys.exit(bool(wrong))
