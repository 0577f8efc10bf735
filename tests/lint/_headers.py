# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The public headers in as few files as show that each of them compiles alone.

A chain is a list of headers, each of which the next one includes before it declares anything, directly or through others. A file
that includes the headers of a chain in order shows each of them alone: nothing stands before the first, and what stands before a
later one is what it includes itself. A third of the files does, and each costs what its last header costs.
"""
import re
import subprocess

import _lint

# How headers are read: with declarations only ("apart"), as users of CMake's cuota::cuota read them; with the definitions of one part
# of cuota.cpp besides, as that part is compiled; with all definitions ("in place"), as a plain include has them, which takes much
# longer, and finds hardly anything that the others do not.
PARTS = "memory", "data", "training", "report", "kernels"
FORMS = "apart", *PARTS, "in place"


def options_of(form):
    """The compiler's options for a form."""
    if form == "in place":
        return []
    return ["-DCUOTA_SEPARATE_COMPILATION=1", *[f"-DCUOTA_PART_{form.upper()}=1"] * (form in PARTS)]


BEGINS = re.compile(r"[^\s#/]")  # the first declaration; comments and directives may stand before it


DEFINITIONS = re.compile(r"CUOTA_(?:DEFINE|PART)_(\w+)")


class Header:
    """What a header includes: before its first declaration, for its definitions, and of others' libraries."""

    def __init__(self, text):
        self.first, self.for_definitions, self.foreign, self.part = [], [], [], None
        conditions, begun = [], False
        for line in _lint.code(text).splitlines():
            directive = re.match(r"\s*#\s*(if\w*|el\w+|endif|include)\b\s*(.*)", line)
            if not directive:
                begun = begun or bool(BEGINS.match(line.lstrip()))
                continue
            word, rest = directive.groups()
            if word.startswith("if"):
                conditions.append(rest.strip())
            elif word.startswith("el"):
                conditions[-1] = "else"
            elif word == "endif":
                conditions.pop()
            elif name := re.match(r"<cuota/([^>]+)>", rest):
                if part := self.defines(conditions):
                    self.part = part
                    self.for_definitions.append(name[1])
                elif not conditions and not begun:
                    self.first.append(name[1])
            elif (name := re.match(r"<([^>]+)>", rest)) and (not conditions or self.defines(conditions)):
                self.foreign.append(name[1])

    @staticmethod
    def defines(conditions):
        """The part of cuota.cpp that a line under these conditions is for, if it stands among definitions."""
        found = DEFINITIONS.fullmatch(conditions[0]) if len(conditions) == 1 else None
        return found and found[1].lower()


class Headers:
    def __init__(self, root, names):
        self.names = names
        self.parts = {name: Header((root / "include/cuota" / name).read_text()) for name in _lint.headers(root)}

    def reached(self, names, form, seen=None):
        """The names, and all that they include in this form: "in place", "apart", or a part of cuota.cpp."""
        seen = set() if seen is None else seen
        for name in names:
            if name not in seen and name in self.parts:
                seen.add(name)
                part = self.parts[name]
                self.reached(part.first + (part.for_definitions if form in ("in place", part.part) else []), form, seen)
        return seen

    def chains(self, form):
        """As few as possible: a matching of each header with the one before it. Of a part, the headers that have definitions for it."""
        names = [name for name in self.names if form not in PARTS or self.parts[name].part == form]
        known = set(names)
        whole = {name: self.reached([name], form) for name in names}
        before = {name: sorted(one for one in self.reached(self.parts[name].first, form) & known - {name} if name not in whole[one])
                  for name in names}
        after = {}

        def place(name, tried):
            for one in before[name]:
                if one not in tried:
                    tried.add(one)
                    if one not in after or place(after[one], tried):
                        after[one] = name
                        return True
            return False

        for name in names:
            place(name, set())
        chains = []
        for name in names:
            if name not in after.values():
                chain = [name]
                while chain[-1] in after:
                    chain.append(after[chain[-1]])
                chains.append(chain)
        return chains

    def lacking(self, line, scratch):
        """The headers that include, themselves or by others, a library that this compiler does not find; with the library."""
        foreign = sorted({name for part in self.parts.values() for name in part.foreign})
        source = scratch / "foreign.cpp"
        source.write_text("".join(f'#if !__has_include(<{name}>)\nlacks {name}\n#endif\n' for name in foreign))
        run = subprocess.run([*line, "-E", source], text=True, capture_output=True, check=True)
        absent = re.findall(r"^lacks (\S+)$", run.stdout, flags=re.M)
        found = {}
        for name in self.names:
            for library in absent:
                if any(library in self.parts[one].foreign for one in self.reached([name], "in place")):
                    found.setdefault(name, library)
        return found


def source(chain):
    """Each header twice, as a file may that includes others."""
    return "".join(f"#include <cuota/{name}>\n#include <cuota/{name}>\n" for name in chain)
