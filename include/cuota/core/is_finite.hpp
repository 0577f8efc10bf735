// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bitwise tests for infinities and NaNs.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/half.hpp>

namespace cuota::inline v0 {

/// Returns false for infinities and NaNs, also in kernels and with -ffast-math or --use_fast_math.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(half x) noexcept {
    return (x.bits & 0x7c00u) != 0x7c00u;
}
/// Likewise for bfloat16.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(bfloat16 x) noexcept {
    return (x.bits & 0x7f80u) != 0x7f80u;
}
/// Likewise for float.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(float x) noexcept {
    return (__builtin_bit_cast(std::uint32_t, x) & 0x7f80'0000u) != 0x7f80'0000u;
}
/// Likewise for double.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(double x) noexcept {
    return (__builtin_bit_cast(std::uint64_t, x) & 0x7ff0'0000'0000'0000u) != 0x7ff0'0000'0000'0000u;
}

}  // namespace cuota::inline v0
