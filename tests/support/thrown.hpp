// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <stdexcept>
#include <utility>

namespace support {

/// Runs `action` and returns the Error that it threw. Any other result fails the test with a message.
template <class Error, class Action>
[[nodiscard]] Error thrown(Action&& action) {
    try {
        std::forward<Action>(action)();
    } catch (Error const& error) { return error; }
    throw std::logic_error{"nothing was thrown"};
}

}  // namespace support
