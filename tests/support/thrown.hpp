// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a call threw, to look at.
#pragma once

#include <stdexcept>
#include <utility>

namespace support {

/// Runs `action` and returns the Error it threw; anything else fails the test, saying so.
template <class Error, class Action>
[[nodiscard]] Error thrown(Action&& action) {
    try {
        std::forward<Action>(action)();
    } catch (Error const& error) { return error; }
    throw std::logic_error{"nothing was thrown"};
}

}  // namespace support
