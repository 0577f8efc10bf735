#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Every function with a static object that the program changes is CUOTA_PROCESS_STATE, and every such static member of a class, or the
class. Otherwise a library that is compiled with -fvisibility=hidden has an object of its own, and knows nothing of the program's captures,
budgets of devices, and error sink. Constants and what is found out once are no state, nor is what is below. A definition of such a function
is CUOTA_INLINE_STATE: in a function that is not inline, such as a constructor by clang, the object is not shared.
Every class that is an exception, or that dynamic_cast looks for, is CUOTA_PROCESS_TYPE: otherwise such a library has a type of its own."""
import re

import _lint

EXEMPT = {("runtime/detail/kernel_launch.hpp", "launch_by_nvcc"): "the facts of a kernel, which is in the same library",
          ("interop/mpi_call.hpp", "operator"): "a list that is never read, for programs that look for leaks",
          ("report/export/nvtx.hpp", "nvtx_domain"): "a handle of the tool, who knows the domain by its name"}

CLASS = re.compile(r"^\s*(?:class|struct|union)\b")
STATIC = re.compile(r"^(\s+)static (?!const\b|constexpr\b|assert)(.*[^(,])$")
FUNCTION = re.compile(r"(~?\w+|operator\W+)\s*\((?:[^()]|\([^()]*\))*\)[^;{]*\{\s*$|(\w+)\(.*$")


def is_object(declared):
    """False for a constant, and for the declaration or definition of a function."""
    if re.match(r"(?:[\w:<>]+ )*(?:[\w:<>]+) const (?:\w+|&)", declared) or re.match(r"[\w:<>]+ const\w* *[&*]? *const\b", declared):
        return False
    name = re.match(r"(?:(?:constinit|thread_local|inline) )*(?:[\w:]+(?:<.*>)?[ &*]+)(?:const )?[&*]*(\w+)([;{ ].*)$", declared)
    return bool(name) and not declared.startswith("friend")


root = _lint.root()
texts = {name: (root / "include" / "cuota" / name).read_text().split("\n") for name in _lint.headers(root)
         if name != "simulator.hpp"}
marked = "\n".join(line for lines in texts.values() for line in lines if "CUOTA_PROCESS_STATE" in line)
findings = []
for name, lines in texts.items():
    for number, line in enumerate(lines, 1):
        found = STATIC.match(line)
        if not found or not is_object(found[2]):
            continue
        depth = len(found[1])
        owner, is_member = "", True
        for above_number, above in reversed(list(enumerate(lines[:number - 1]))):
            indent = len(above) - len(above.lstrip())
            if not above.strip() or indent >= depth or above.startswith("#"):
                continue
            if re.match(r"\s*(?:public|private|protected):", above):
                continue
            depth = indent
            if CLASS.match(above):
                owner = re.search(r"(?:class|struct|union) (?:CUOTA_PROCESS_(?:STATE|TYPE) )?(\w+)", above)[1]
                break
            calls = re.findall(r"([~\w]+)\(", above)
            if calls and not re.match(r"\s*(?:if|for|while|switch|catch)\b", above):
                owner, is_member = [c for c in calls if c != "noexcept"][0], False
                first = next((text for text in reversed(lines[:above_number + 1])
                              if text.startswith(("CUOTA_", "}", "namespace", "struct", "class"))), "")
                if first.startswith("CUOTA_INLINE "):
                    findings.append(f"{name}:{number}: {owner} has a static object and is not defined as CUOTA_INLINE_STATE")
                break
        pattern = rf"(?:class|struct) CUOTA_PROCESS_STATE {owner}\b" if is_member else rf"CUOTA_PROCESS_STATE\b.*\b{owner}\("
        enclosing = re.search(r"(\w+)::" + re.escape(owner) + r"\(", "\n".join(lines)) if not is_member else None
        in_marked = enclosing and re.search(rf"(?:class|struct) CUOTA_PROCESS_STATE {enclosing[1]}\b", marked)
        if (name, owner) not in EXEMPT and not re.search(pattern, marked) and not in_marked:
            findings.append(f"{name}:{number}: {owner or 'a function'} has a static object and is not CUOTA_PROCESS_STATE")
EXCEPTIONS = {"exception", "bad_alloc", "logic_error", "runtime_error", "out_of_memory", "nested_exception"}
DERIVED = re.compile(r"^class (?:(CUOTA_\w+) )?(\w+)(?: final)? : public ([\w:]+)(?:, public [\w:]+)* \{$")
DEFINED = re.compile(r"^(?:class|struct) (?:(CUOTA_\w+) )?(\w+)(?: final)?(?: : [^;]*)? \{$")
exceptions, looked_for, marks = set(EXCEPTIONS), set(), {}
for name, lines in texts.items():
    for line in lines:
        looked_for |= {found.split("::")[-1] for found in re.findall(r"dynamic_cast<(?:const )?([\w:]+)", line)}
for _ in range(5):  # errors of errors
    for lines in texts.values():
        exceptions |= {found[2] for found in map(DERIVED.match, lines) if found and found[3].split("::")[-1] in exceptions}
for name, lines in texts.items():
    for number, line in enumerate(lines, 1):
        found = DEFINED.match(line)
        if found and found[2] in (exceptions | looked_for) and found[1] not in ("CUOTA_PROCESS_TYPE", "CUOTA_SIMULATOR_API"):
            findings.append(f"{name}:{number}: {found[2]} is known by its type in other libraries and is not CUOTA_PROCESS_TYPE")
findings += [f"process_state.py exempts {where} of {name}, which is not there" for name, where in EXEMPT
             if name not in texts or not any(where in line for line in texts[name])]
_lint.finish(findings)
