// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which numbers are infinite or none, by their bits.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/half.hpp>

namespace cuota::inline v0 {

/// False for what is infinite or a NaN. On the host and in kernels, also where the compiler was told that there are none
/// (-ffast-math, --use_fast_math).
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(half x) noexcept {
    return (x.bits & 0x7c00u) != 0x7c00u;
}
/// As of half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(bfloat16 x) noexcept {
    return (x.bits & 0x7f80u) != 0x7f80u;
}
/// As of half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(float x) noexcept {
    return (__builtin_bit_cast(std::uint32_t, x) & 0x7f80'0000u) != 0x7f80'0000u;
}
/// As of half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(double x) noexcept {
    return (__builtin_bit_cast(std::uint64_t, x) & 0x7ff0'0000'0000'0000u) != 0x7ff0'0000'0000'0000u;
}

}  // namespace cuota::inline v0
