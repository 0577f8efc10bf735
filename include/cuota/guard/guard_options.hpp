// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Options of guarded memory.
#pragma once

#include <cstddef>

#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Options of `guarded`. Example: tests/guard/guarded.cpp
struct guard_options {
    tag name{};                       ///< for messages
    std::size_t redzone_bytes = 256;  ///< guard bytes on each side; at least 1
    bool poison = true;               ///< fill new and freed blocks
};

}  // namespace cuota::inline v0
