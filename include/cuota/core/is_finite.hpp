// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bitwise tests for infinities and NaNs.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/half.hpp>

namespace cuota::inline v0 {

/// Returns false for infinities and NaNs. Works on the host and in kernels, also with -ffast-math and --use_fast_math, under which
/// compilers assume that such values do not occur.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(half x) noexcept {
    return (x.bits & 0x7c00u) != 0x7c00u;
}
/// Like the overload for half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(bfloat16 x) noexcept {
    return (x.bits & 0x7f80u) != 0x7f80u;
}
/// Like the overload for half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(float x) noexcept {
    return (__builtin_bit_cast(std::uint32_t, x) & 0x7f80'0000u) != 0x7f80'0000u;
}
/// Like the overload for half.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_finite(double x) noexcept {
    return (__builtin_bit_cast(std::uint64_t, x) & 0x7ff0'0000'0000'0000u) != 0x7ff0'0000'0000'0000u;
}

}  // namespace cuota::inline v0
