// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Floats as whole multiples of a step that their block shares, in 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/finite.hpp>

namespace cuota::inline v0::detail {

[[nodiscard]] CUOTA_HOST_DEVICE constexpr float magnitude(float x) noexcept {
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7fff'ffffu);
}
[[nodiscard]] CUOTA_HOST_DEVICE constexpr float quiet_nan() noexcept {
    return __builtin_bit_cast(float, 0x7fc0'0000u);
}
/// The larger one, of those that are finite. `most` is.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr float finite_max(float most, float x) noexcept {
    return is_finite(x) && x > most ? x : most;
}

/// Magnitudes of a block, none above `most`, as codes 0 to Codes: code * step(most) is within step / 2 of the magnitude.
///
/// With M = most / Codes, step / 2 <= M / 2 exactly, for every most that is no denormal:
///  * A step is M cut to so many bits that, with those of a code, they make the 24 of a float: code * step is exact. Its
///    last bit is 2^-149 or more, as M is 2^-134 or more. Codes times a number of so few bits is a float, so floats tell whether
///    it is more than most: what was cut off a quotient that is too large by less than a unit is then known exactly.
///  * most <= (Codes + 1/2) * step, as a cut takes less than a part in 2^15: no magnitude is half a step past the last.
///  * A magnitude is whole steps, by a rough quotient, and a remainder, which is exact: it has the last bit of the magnitude or of
///    the step, and is no larger than either. Half a step and more of it is one more code, however rough the quotient was.
/// Where most is a denormal no code can do that: up to 253 times the smallest one there are 507 numbers, each of which
/// would have to be kept exactly, and 255 codes. A step is a whole number of the smallest denormals then, rounded up, and
/// step / 2 <= M / 2 + 2^-150.
/// No sum in it is rounded, so compilers that fuse a product and a sum make the same codes, on the host and on a GPU.
template <unsigned Codes>
struct block_code {
    static_assert(Codes == 127 || Codes == 254, "others want other steps");
    static constexpr int kept_bits = Codes < 128 ? 17 : 16;

    /// `most` is finite and not below 0; 0 has the step 0.
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float step(float most) noexcept {
        std::uint32_t const bits = __builtin_bit_cast(std::uint32_t, most);
        if (bits < 0x0080'0000u) return __builtin_bit_cast(float, (bits + Codes - 1) / Codes);
        bool const is_small = most < 0x1p-60f;  // its part might be a denormal, which has fewer bits
        float const scaled = is_small ? most * 0x1p64f : most;
        constexpr std::uint32_t unit = 1u << (24 - kept_bits);
        constexpr float a_little_more = 1.0f / Codes * (1 + 0x1p-21f);
        std::uint32_t const cut = __builtin_bit_cast(std::uint32_t, scaled * a_little_more) & ~(unit - 1);
        bool const is_over = static_cast<float>(Codes) * __builtin_bit_cast(float, cut) > scaled;
        float const part = __builtin_bit_cast(float, is_over ? cut - unit : cut);
        return is_small ? part * 0x1p-64f : part;
    }
    /// Makes codes with one step.
    class encoder {
    public:
        CUOTA_HOST_DEVICE constexpr explicit encoder(float step) noexcept
            : scale_{step < 0x1p-100f ? 0x1p64f : 1.0f},  // so that the inverse is a float
              step_{step == 0 ? 0x1.fffffep127f : step * scale_},
              inverse_{1 / step_} {}
        [[nodiscard]] CUOTA_HOST_DEVICE constexpr unsigned nearest(float magnitude) const noexcept {
            float const scaled = magnitude * scale_;
            auto const whole = static_cast<unsigned>(scaled * inverse_);
            float const rest = scaled - static_cast<float>(whole) * step_;
            return rest + rest >= step_ ? whole + 1 : whole;
        }

    private:
        float scale_;
        float step_;
        float inverse_;
    };
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr unsigned nearest(float magnitude, float step) noexcept {
        return encoder{step}.nearest(magnitude);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(unsigned code, float step) noexcept {
        return static_cast<float>(code) * step;
    }
};

/// A sign and 127 codes; what is not finite has a code of its own, and is a NaN afterwards. -0 becomes 0.
struct signed_code {
    using type = std::int8_t;
    using code = block_code<127>;
    static constexpr type no_number = -128;

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, code::encoder const& by) noexcept {
        if (!is_finite(x)) return no_number;
        int const n = static_cast<int>(by.nearest(magnitude(x)));
        return static_cast<type>(x < 0 ? -n : n);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float step) noexcept {
        return of(x, code::encoder{step});
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(type c, float step) noexcept {
        return c == no_number ? quiet_nan() : static_cast<float>(c) * step;
    }
};

/// 254 codes for what is not below 0. A divisor: what is not 0 does not become 0, but the first step above it.
struct divisor_code {
    using type = std::uint8_t;
    using code = block_code<254>;
    static constexpr type no_number = 255;

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, code::encoder const& by) noexcept {
        if (!is_finite(x)) return no_number;
        unsigned const n = by.nearest(x);
        return static_cast<type>(n == 0 && x > 0 ? 1 : n);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float step) noexcept {
        return of(x, code::encoder{step});
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(type c, float step) noexcept {
        return c == no_number ? quiet_nan() : code::value(c, step);
    }
};

/// What `count` codes and the steps of their blocks take: two allocations. `unlimited`: more than can be said.
[[nodiscard]] constexpr std::size_t coded_bytes(std::size_t count, std::size_t block,
                                                std::size_t granule) noexcept {
    std::size_t const blocks = count / block + (count % block != 0 ? 1 : 0);
    auto const steps = checked_mul(blocks, sizeof(float));
    if (!steps) return unlimited;
    return checked_add(round_up(count, granule), round_up(*steps, granule)).value_or(unlimited);
}
[[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t block_end(std::size_t begin, std::size_t block,
                                                                std::size_t count) noexcept {
    return count - begin < block ? count : begin + block;
}

}  // namespace cuota::inline v0::detail
