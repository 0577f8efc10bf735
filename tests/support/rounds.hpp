// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Divides the work of long tests where it would take too long.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <string>

#include "support/sanitizer.hpp"

namespace support {

/// Returns the number by which the short forms of make targets divide the work of long tests: CUOTA_TEST_DIVISOR from the environment, or 1.
[[nodiscard]] inline unsigned divisor() {
    static unsigned const given = [] {
        char const* const text = std::getenv("CUOTA_TEST_DIVISOR");
        return text ? std::max(1u, static_cast<unsigned>(std::stoul(text))) : 1;
    }();
    return given;
}

/// Returns the number of rounds of a long test, at least 1: `all` divided by divisor(), and under ThreadSanitizer, where a stream has a thread
/// that can take 10 ms to start, by 10 or more.
template <std::integral Number>
[[nodiscard]] Number rounds(Number all) {
    return std::max(Number{1},
                    all / static_cast<Number>(std::max(under_thread_sanitizer ? 10u : 1u, divisor())));
}

}  // namespace support
