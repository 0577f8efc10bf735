// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Block quantization: floats as 8-bit multiples of a shared scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/is_finite.hpp>

namespace cuota::inline v0::detail {

[[nodiscard]] CUOTA_HOST_DEVICE constexpr float magnitude(float x) noexcept {
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7fff'ffffu);
}
[[nodiscard]] CUOTA_HOST_DEVICE constexpr float quiet_nan() noexcept {
    return __builtin_bit_cast(float, 0x7fc0'0000u);
}
/// Returns the larger of `most` and x, or `most` if x is not finite.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr float finite_max(float most, float x) noexcept {
    return is_finite(x) && x > most ? x : most;
}

/// Quantizes the magnitudes of a block, none above `most`, to codes 0 to Codes: |code * scale(most) - magnitude| <= scale / 2.
///
/// Let M = most / Codes. For every normal `most`, scale / 2 <= M / 2 exactly:
///  * scale is M truncated to kept_bits bits. With the bits of a code these are the 24 of a float, so code * scale is exact. The last bit
///    of scale is at least 2^-149, as M >= 2^-134. Codes * cut is exact, too: comparing it with `most` decides whether the approximate
///    quotient, too large by less than one unit, has to be decremented.
///  * most <= (Codes + 1/2) * scale, as truncation loses less than a part in 2^15: no magnitude is over half a scale above the last code.
///  * A magnitude is a whole multiple of the scale, by an approximate quotient, and a remainder, which is exact: its last bit is that of
///    the magnitude or of the scale, and it is no larger than either. At scale / 2 or more the code is incremented, so the quotient's error
///    does not matter.
/// For a denormal `most`, scale is a whole number of smallest denormals, rounded up: scale / 2 <= M / 2 + 2^-150.
/// No sum is rounded, so contraction to fused multiply-add does not change codes.
template <unsigned Codes>
struct block_code {
    static_assert(Codes == 127 || Codes == 254, "other numbers of codes need other scales");
    static constexpr int kept_bits = Codes < 128 ? 17 : 16;

    /// Precondition: `most` is finite and >= 0.
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float scale(float most) noexcept {
        std::uint32_t const bits = __builtin_bit_cast(std::uint32_t, most);
        if (bits < 0x0080'0000u) return __builtin_bit_cast(float, (bits + Codes - 1) / Codes);
        bool const is_small = most < 0x1p-60f;  // the quotient might be a denormal, which has fewer bits
        float const scaled = is_small ? most * 0x1p64f : most;
        constexpr std::uint32_t unit = 1u << (24 - kept_bits);
        constexpr float a_little_more = 1.0f / Codes * (1 + 0x1p-21f);
        std::uint32_t const cut = __builtin_bit_cast(std::uint32_t, scaled * a_little_more) & ~(unit - 1);
        bool const is_over = static_cast<float>(Codes) * __builtin_bit_cast(float, cut) > scaled;
        float const part = __builtin_bit_cast(float, is_over ? cut - unit : cut);
        return is_small ? part * 0x1p-64f : part;
    }
    class encoder {
    public:
        CUOTA_HOST_DEVICE constexpr explicit encoder(float scale) noexcept
            : prescale_{scale < 0x1p-100f ? 0x1p64f : 1.0f},  // so that the inverse is finite
              scale_{scale == 0 ? 0x1.fffffep127f : scale * prescale_},
              inverse_{1 / scale_} {}
        [[nodiscard]] CUOTA_HOST_DEVICE constexpr unsigned nearest(float magnitude) const noexcept {
            float const scaled = magnitude * prescale_;
            auto const whole = static_cast<unsigned>(scaled * inverse_);
            float const rest = scaled - static_cast<float>(whole) * scale_;
            return rest + rest >= scale_ ? whole + 1 : whole;
        }

    private:
        float prescale_;
        float scale_;
        float inverse_;
    };
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr unsigned nearest(float magnitude, float scale) noexcept {
        return encoder{scale}.nearest(magnitude);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(unsigned code, float scale) noexcept {
        return static_cast<float>(code) * scale;
    }
};

/// Sign and 127 magnitudes. Non-finite values become NaN; -0 becomes 0.
struct signed_code {
    using type = std::int8_t;
    using code = block_code<127>;
    static constexpr type no_number = -128;

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, code::encoder const& by) noexcept {
        if (!is_finite(x)) return no_number;
        int const n = static_cast<int>(by.nearest(magnitude(x)));
        return static_cast<type>(x < 0 ? -n : n);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float scale) noexcept {
        return of(x, code::encoder{scale});
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(type c, float scale) noexcept {
        return c == no_number ? quiet_nan() : static_cast<float>(c) * scale;
    }
};

/// 254 magnitudes for divisors >= 0: a nonzero value becomes at least code 1.
struct divisor_code {
    using type = std::uint8_t;
    using code = block_code<254>;
    static constexpr type no_number = 255;

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, code::encoder const& by) noexcept {
        if (!is_finite(x)) return no_number;
        unsigned const n = by.nearest(x);
        return static_cast<type>(n == 0 && x > 0 ? 1 : n);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float scale) noexcept {
        return of(x, code::encoder{scale});
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(type c, float scale) noexcept {
        return c == no_number ? quiet_nan() : code::value(c, scale);
    }
};

/// Returns the bytes of codes and scales, as two allocations; `unlimited` on overflow.
[[nodiscard]] constexpr std::size_t coded_bytes(std::size_t count, std::size_t block,
                                                std::size_t granularity) noexcept {
    std::size_t const blocks = count / block + (count % block != 0 ? 1 : 0);
    auto const scales = checked_mul(blocks, sizeof(float));
    if (!scales) return unlimited;
    return checked_add(round_up(count, granularity), round_up(*scales, granularity)).value_or(unlimited);
}
[[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t block_end(std::size_t begin, std::size_t block,
                                                                std::size_t count) noexcept {
    return count - begin < block ? count : begin + block;
}

}  // namespace cuota::inline v0::detail
