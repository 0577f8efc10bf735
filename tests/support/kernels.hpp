// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Kernel bodies and their expected results. They are named types because nvcc restricts where device lambdas may be defined.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>

namespace support {

/// Bytes of a pattern that has no period of 256 or of a power of two and that depends on `salt`.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr unsigned char pattern_byte(std::size_t i, unsigned salt) noexcept {
    return static_cast<unsigned char>(i * 131 + i / 251 + salt * 17 + 1);
}

struct write_pattern {
    unsigned char* to;
    unsigned salt;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = pattern_byte(i, salt); }
};

struct add_one {
    int* to;
    int const* from;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i] + 1; }
};

struct write_value {
    int* to;
    int value;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = value; }
};

[[nodiscard]] inline bool has_pattern(void const* at, std::size_t bytes, unsigned salt) noexcept {
    auto const* const found = static_cast<unsigned char const*>(at);
    for (std::size_t i = 0; i != bytes; ++i)
        if (found[i] != pattern_byte(i, salt)) return false;
    return true;
}

}  // namespace support
