// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Call sites in the program, which are resolved to files and lines when a message is read.
namespace cuota::inline v0::simulator::call_sites {

/// Return addresses, innermost first, or a file and line.
struct stack {
    static constexpr std::size_t most = 24;
    std::array<std::uintptr_t, most> frames{};
    std::size_t depth = 0;
    char const* file = nullptr;  ///< never freed
    unsigned line = 0;
};

/// One address, the index of a stored stack, or a file and a line.
enum class site : std::uint64_t { unknown = 0 };

/// With `deep`, records all frames, which takes about a microsecond.
void take(stack& out, bool deep) noexcept;

/// Threads: any, for all functions of this namespace.
site of(stack const& s) noexcept;
/// `file` is never freed.
site of(char const* file, unsigned line);

/// Returns a placeholder for `resolve`: " at file.cpp:12", with up to two known callers " < file.cpp:40 < main.cpp:7", or nothing.
std::string mark(site s);

/// Replaces the placeholders. A call site is outside cuota's own headers, as far as the stack shows.
/// Cost: starts a process for new addresses.
void resolve(std::vector<std::string>& texts);
std::string resolved(std::string text);

}  // namespace cuota::inline v0::simulator::call_sites
