// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Kernel bodies and their expected results. They are named types because nvcc restricts where device lambdas may be defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

/// Eight bytes of the pattern, from byte 8 * i on, as they are in memory of a little-endian machine.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr std::uint64_t pattern_word(std::size_t i, unsigned salt) noexcept {
    std::uint64_t eight = 0;
    for (std::size_t k = 0; k != 8; ++k) eight |= std::uint64_t{pattern_byte(8 * i + k, salt)} << (8 * k);
    return eight;
}

/// Writes the pattern to `bytes` bytes by eight, for a sanitizer checks each access. For (bytes + 7) / 8 indices; `to` is a multiple of 8.
struct write_pattern_words {
    unsigned char* to;
    std::size_t bytes;
    unsigned salt;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        if (8 * i + 8 <= bytes) reinterpret_cast<std::uint64_t*>(to)[i] = pattern_word(i, salt);
        else
            for (std::size_t last = 8 * i; last != bytes; ++last) to[last] = pattern_byte(last, salt);
    }
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
    std::size_t i = 0;
    for (; bytes - i >= 8; i += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, found + i, 8);
        if (eight != pattern_word(i / 8, salt)) return false;
    }
    for (; i != bytes; ++i)
        if (found[i] != pattern_byte(i, salt)) return false;
    return true;
}

}  // namespace support
