// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats the parts of findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// Formats "1 block", "3 blocks".
[[nodiscard]] std::string counted(std::uint64_t count, char const* what);

/// Returns the tag, or "untagged memory".
[[nodiscard]] std::string words_for(tag name);

/// Formats "log (train.cpp:17)".
[[nodiscard]] std::string words_for(tag name, source_location where);

/// Formats "pool work".
[[nodiscard]] std::string words_for(char const* what, std::string const& name);

/// Formats "71 %", rounded down: only the whole is 100 %.
[[nodiscard]] std::string percent_text(std::size_t part, std::size_t whole);

/// Formats "1.9 x". `requested` must not be 0.
[[nodiscard]] std::string ratio_text(std::size_t bytes, std::size_t requested);

/// Returns whether part >= share * whole and part > 0.
[[nodiscard]] bool is_share(std::size_t part, double share, std::size_t whole) noexcept;

[[nodiscard]] constexpr std::size_t beyond(std::size_t a, std::size_t b) noexcept {
    return a > b ? a - b : 0;
}

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE std::string counted(std::uint64_t count, char const* what) {
    return count_text(count) + ' ' + what + (count == 1 ? "" : "s");
}

CUOTA_INLINE std::string words_for(tag name) {
    return name.is_empty() ? "untagged memory" : shown(name.text(), 40);
}

CUOTA_INLINE std::string words_for(tag name, source_location where) {
    std::string const at = shown(where, 40);
    return words_for(name) + (at.empty() ? "" : " (" + at + ')');
}

CUOTA_INLINE std::string words_for(char const* what, std::string const& name) {
    return std::string{what} + ' ' + shown(name, 40);
}

CUOTA_INLINE std::string percent_text(std::size_t part, std::size_t whole) {
    double const share = whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
    return std::to_string(static_cast<int>(share * 100 + 1e-9)) + " %";
}

CUOTA_INLINE std::string ratio_text(std::size_t bytes, std::size_t requested) {
    char text[48];
    std::snprintf(text, sizeof text, "%.1f x", static_cast<double>(bytes) / static_cast<double>(requested));
    return text;
}

CUOTA_INLINE bool is_share(std::size_t part, double share, std::size_t whole) noexcept {
    return part != 0 && static_cast<double>(part) >= share * static_cast<double>(whole);
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
