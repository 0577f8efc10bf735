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
///    last bit is 2^-149 or more, as M is 2^-134 or more. A double's quotient is cut as M itself would be: Codes times a
///    number of so few bits is a float, so most is that, or less by a unit of its last place at the least.
///  * most <= (Codes + 1/2) * step, as a cut takes less than a part in 2^15: no magnitude is half a step past the last.
///  * A magnitude over the step, both of at most 24 bits, is half way between two codes or 2^-25 and more away from it:
///    its double is rounded to the nearer code.
/// Where most is a denormal no code can do that: up to 253 times the smallest one there are 507 numbers, each of which
/// would have to be kept exactly, and 255 codes. A step is a whole number of the smallest denormals then, rounded up, and
/// step / 2 <= M / 2 + 2^-150.
template <unsigned Codes>
struct block_code {
    static_assert(Codes == 127 || Codes == 254, "others want other steps");
    static constexpr int kept_bits = Codes < 128 ? 17 : 16;

    /// `most` is finite and not below 0; 0 has the step 0.
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float step(float most) noexcept {
        std::uint32_t const bits = __builtin_bit_cast(std::uint32_t, most);
        if (bits < 0x0080'0000u) return __builtin_bit_cast(float, (bits + Codes - 1) / Codes);
        std::uint64_t const part = __builtin_bit_cast(std::uint64_t, static_cast<double>(most) / Codes);
        std::uint64_t const cut = part & ~((std::uint64_t{1} << (53 - kept_bits)) - 1);
        return static_cast<float>(__builtin_bit_cast(double, cut));
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr unsigned nearest(float magnitude, float step) noexcept {
        if (step == 0) return 0;
        // Of no negative, in constant expressions too. NOLINTNEXTLINE(bugprone-incorrect-roundings)
        return static_cast<unsigned>(static_cast<double>(magnitude) / static_cast<double>(step) + 0.5);
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

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float step) noexcept {
        if (!is_finite(x)) return no_number;
        int const n = static_cast<int>(code::nearest(magnitude(x), step));
        return static_cast<type>(x < 0 ? -n : n);
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr float value(type c, float step) noexcept {
        if (c == no_number) return quiet_nan();
        return c < 0 ? -code::value(static_cast<unsigned>(-c), step)
                     : code::value(static_cast<unsigned>(c), step);
    }
};

/// 254 codes for what is not below 0. A divisor: what is not 0 does not become 0, but the first step above it.
struct divisor_code {
    using type = std::uint8_t;
    using code = block_code<254>;
    static constexpr type no_number = 255;

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr type of(float x, float step) noexcept {
        if (!is_finite(x)) return no_number;
        unsigned const n = code::nearest(x, step);
        return static_cast<type>(n == 0 && x > 0 ? 1 : n);
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
