// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Call sites in the program, for messages.
///
/// Recording one takes nanoseconds: it is the return address of the call and, in deep mode, those of its callers. Files and lines are
/// resolved when a message is read.
namespace cuota::inline v0::simulator::call_sites {

/// Return addresses of a call, innermost first, or the file and line that the caller passed.
struct stack {
    static constexpr std::size_t most = 24;
    std::array<std::uintptr_t, most> frames{};
    std::size_t depth = 0;
    char const* file = nullptr;  ///< never freed
    unsigned line = 0;
};

/// One address, the index of a stored stack, or a file and a line. Zero means unknown.
enum class site : std::uint64_t { unknown = 0 };

/// Records the stack outside of the simulator; with `deep`, all frames, which takes about a microsecond.
void take(stack& out, bool deep) noexcept;

/// Returns the site of a stack. Threads: any, for all functions of this namespace.
site of(stack const& s) noexcept;
/// Returns the site of a line; the string `file` is never freed.
site of(char const* file, unsigned line);

/// Returns a placeholder, which `resolve` replaces by " at file.cpp:12", with up to two known callers " < file.cpp:40 < main.cpp:7", or by
/// nothing if the site is unknown.
std::string mark(site s);

/// Replaces the placeholders. A call site is a line of the program, not of cuota's own headers, as far as the stack shows.
/// Cost: starts a process for addresses that were not resolved before.
void resolve(std::vector<std::string>& texts);
std::string resolved(std::string text);

}  // namespace cuota::inline v0::simulator::call_sites
