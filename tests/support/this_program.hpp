// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How a test starts its own program again.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace support {

/// Returns the words of a shell command that start this program, by the emulator for a program of another machine.
[[nodiscard]] inline std::string this_program() {
    return CUOTA_EMULATOR " '" + std::filesystem::read_symlink("/proc/self/exe").string() + "'";
}

/// Returns the shell word that selects one test: these characters have a meaning in Catch2's patterns.
[[nodiscard]] inline std::string word_of_test(std::string const& name) {
    std::string text;
    for (char const c : name) {
        if (std::string_view{"[],\"*~\\"}.find(c) != std::string_view::npos) text += '\\';
        text += c == '\'' ? std::string{R"('\'')"} : std::string{c};
    }
    return "'" + text + "'";
}

}  // namespace support
