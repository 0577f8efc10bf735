// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <utility>

#include "support/thrown.hpp"

/// Runs `action` and returns the text of the Error that it threw.
template <class Error, class Action>
[[nodiscard]] std::string what_of(Action&& action) {
    return support::thrown<Error>(std::forward<Action>(action)).what();
}
