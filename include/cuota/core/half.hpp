// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// 16-bit floating-point storage types.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Returns `bits >> dropped`, rounded to nearest, ties to even. `dropped` is 1 to 31.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr std::uint32_t rounded_shift(std::uint32_t bits,
                                                                      unsigned dropped) noexcept {
    std::uint32_t const half_a_unit = std::uint32_t{1} << (dropped - 1);
    std::uint32_t const kept = bits >> dropped;
    return kept + (((bits & (2 * half_a_unit - 1)) + (kept & 1)) > half_a_unit);
}

#if defined(__CUDA_ARCH__)
// Hardware conversions, not used for NaNs, because they do not preserve the payload.
__device__ inline std::uint16_t half_by_hardware(float value) noexcept {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
__device__ inline float float_by_hardware(std::uint16_t half_bits) noexcept {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half_bits));
    return value;
}
#if __CUDA_ARCH__ >= 800
__device__ inline std::uint16_t bfloat16_by_hardware(float value) noexcept {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif
#endif

}  // namespace detail

// __builtin_bit_cast, because std::bit_cast cannot be called in kernels.

/// IEEE 754 binary16 with the layout of CUDA's __half, for storage and conversion, not arithmetic. Conversions give the same bits on the
/// host, in kernels and at compile time.
/// Example: tests/core/half.cpp
struct half {
    std::uint16_t bits;  ///< sign, 5 exponent bits, 10 fraction bits; not initialized by default

    half() = default;
    /// Rounds to nearest, ties to even. Magnitudes of 65520 and more become infinite; a NaN becomes quiet.
    CUOTA_HOST_DEVICE constexpr explicit half(float value) noexcept
        : bits{of(__builtin_bit_cast(std::uint32_t, value))} {}
    /// Converts exactly.
    CUOTA_HOST_DEVICE constexpr explicit operator float() const noexcept {
        std::uint32_t const sign = std::uint32_t{bits & 0x8000u} << 16;
        std::uint32_t const exponent = (bits >> 10) & 0x1f;
        std::uint32_t const fraction = bits & 0x3ff;
#if defined(__CUDA_ARCH__)
        if (!__builtin_is_constant_evaluated())
            return (bits & 0x7fffu) <= 0x7c00u
                       ? detail::float_by_hardware(bits)
                       : __builtin_bit_cast(float, sign | 0x7f800000u | fraction << 13);
#endif
        if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
            float const magnitude = static_cast<float>(fraction) * 0x1p-24f;
            return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, magnitude));
        }
        std::uint32_t const wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
        return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13);
    }
    /// Compares bits: -0 differs from 0, and a NaN equals itself.
    friend bool operator==(half, half) = default;

private:
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr std::uint16_t of(std::uint32_t f) noexcept {
        std::uint32_t const sign = (f >> 16) & 0x8000;
        std::uint32_t const magnitude = f & 0x7fffffff;
        std::uint32_t const exponent = magnitude >> 23;
        std::uint32_t result = 0;
#if defined(__CUDA_ARCH__)
        if (!__builtin_is_constant_evaluated())
            return magnitude <= 0x7f800000
                       ? detail::half_by_hardware(__builtin_bit_cast(float, f))
                       : static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
#endif
        if (magnitude > 0x7f800000) result = 0x7e00 | (magnitude >> 13 & 0x3ff);  // NaN: made quiet
        else if (exponent >= 127 + 16) result = 0x7c00;                           // infinite
        else if (exponent > 127 - 15) result = detail::rounded_shift(magnitude - ((127 - 15) << 23), 13);
        else if (exponent >= 127 - 25)
            result = detail::rounded_shift((magnitude & 0x7fffff) | 0x800000, 126 - exponent);
        // A fraction that rounded up to 1 has carried into the exponent.
        return static_cast<std::uint16_t>(sign | result);
    }
};

/// The upper half of a float, with the layout of CUDA's __nv_bfloat16; used like half.
/// Example: tests/core/half.cpp
struct bfloat16 {
    std::uint16_t bits;  ///< sign, 8 exponent bits, 7 fraction bits; not initialized by default

    bfloat16() = default;
    /// Rounds to nearest, ties to even; a NaN becomes quiet.
    CUOTA_HOST_DEVICE constexpr explicit bfloat16(float value) noexcept
        : bits{of(__builtin_bit_cast(std::uint32_t, value))} {}
    /// Converts exactly.
    CUOTA_HOST_DEVICE constexpr explicit operator float() const noexcept {
        return __builtin_bit_cast(float, std::uint32_t{bits} << 16);
    }
    friend bool operator==(bfloat16, bfloat16) = default;  ///< compares bits

private:
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr std::uint16_t of(std::uint32_t f) noexcept {
        bool const is_nan = (f & 0x7fffffff) > 0x7f800000;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        if (!__builtin_is_constant_evaluated())
            return is_nan ? static_cast<std::uint16_t>(f >> 16 | 0x40)
                          : detail::bfloat16_by_hardware(__builtin_bit_cast(float, f));
#endif
        return static_cast<std::uint16_t>(is_nan ? f >> 16 | 0x40 : detail::rounded_shift(f, 16));
    }
};

}  // namespace cuota::inline v0
