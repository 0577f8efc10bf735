// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// How findings are worded: names that fit a line, figures with the right ending, shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/text.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// "1 block", "3 blocks"; the ending is an s.
[[nodiscard]] inline std::string counted(std::uint64_t count, char const* what) {
    return count_text(count) + ' ' + what + (count == 1 ? "" : "s");
}

/// "log", or "what has no tag".
[[nodiscard]] inline std::string words_for(tag name) {
    return name.is_empty() ? "what has no tag" : shown(name.text(), 40);
}

/// "log (train.cpp:17)".
[[nodiscard]] inline std::string words_for(tag name, place where) {
    std::string const at = shown(where, 40);
    return words_for(name) + (at.empty() ? "" : " (" + at + ')');
}

/// "pool work".
[[nodiscard]] inline std::string words_for(char const* what, std::string const& name) {
    return std::string{what} + ' ' + shown(name, 40);
}

/// "71 %": cut, so that only all of it is 100 %.
[[nodiscard]] inline std::string percent_text(std::size_t part, std::size_t whole) {
    double const share = whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
    return std::to_string(static_cast<int>(share * 100 + 1e-9)) + " %";
}

/// "1.9 x"; nothing can be said of 0 bytes.
[[nodiscard]] inline std::string ratio_text(std::size_t bytes, std::size_t asked) {
    char text[48];
    std::snprintf(text, sizeof text, "%.1f x", static_cast<double>(bytes) / static_cast<double>(asked));
    return text;
}

/// Whether it is at least so many times the other. What is nothing is never a part of anything.
[[nodiscard]] inline bool is_share(std::size_t part, double share, std::size_t whole) noexcept {
    return part != 0 && static_cast<double>(part) >= share * static_cast<double>(whole);
}

/// a - b, and no less than 0.
[[nodiscard]] constexpr std::size_t beyond(std::size_t a, std::size_t b) noexcept {
    return a > b ? a - b : 0;
}

}  // namespace cuota::inline v0::detail::diagnosis
