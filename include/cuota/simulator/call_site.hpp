// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Where in the program a call came from, for messages with two places.
///
/// Taking one is a matter of nanoseconds: it is the address to which the call returns, and in deep mode those of
/// its callers as well. Files and lines are looked up when somebody reads the message.
namespace cuota::inline v0::simulator::call_sites {

/// The addresses that a call would return through, innermost first. Or the place itself, where the caller has told it.
struct stack {
    static constexpr std::size_t most = 24;
    std::array<std::uintptr_t, most> frames{};
    std::size_t depth = 0;
    char const* file = nullptr;  ///< lives for ever
    unsigned line = 0;
};

/// One address, the number of a stack that is kept, or a file and a line. Zero: not known.
enum class site : std::uint64_t { unknown = 0 };

/// The stack outside of the simulator. `deep` asks for more than the innermost frame, at a microsecond or so.
void take(stack& out, bool deep) noexcept;

/// The site of a stack. Any thread, as all of these.
site of(stack const& s) noexcept;
/// The site of a place in a file whose name lives for ever.
site of(char const* file, unsigned line);

/// " at file.cpp:12", with up to two callers " < file.cpp:40 < main.cpp:7" where they are known, or nothing for an
/// unknown one; as a mark that `resolve` replaces.
std::string mark(site s);

/// Replaces the marks of all texts by places. A place is where the program called, and not where one of cuota's own
/// headers passed the call on, as far as the stack tells. Cost: a process is started for what is not known yet.
void resolve(std::vector<std::string>& texts);
std::string resolved(std::string text);

}  // namespace cuota::inline v0::simulator::call_sites
