// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Random permutations without a table.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

/// Version of the algorithm, to be stored with saved states.
inline constexpr std::uint32_t permutation_version = 1;

namespace detail {

/// Mixes bits bijectively. The multipliers are the fractional parts of the square roots of 3 and 5.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
    x ^= x >> 32;
    x *= 0xBB67AE8584CAA73B;
    x ^= x >> 29;
    x *= 0x3C6EF372FE94F82B;
    return x ^ x >> 32;
}

inline constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;  // fractional part of the golden ratio

}  // namespace detail

/// Returns an epoch's key; distinct for the epochs of a seed.
[[nodiscard]] constexpr std::uint64_t epoch_key(std::uint64_t seed, std::uint64_t epoch) noexcept {
    return detail::mixed(detail::mixed(seed + detail::golden) + epoch * detail::golden);
}

/// A random permutation of [0, n), determined by `key`: the same on every machine.
///
/// A Feistel network over the smallest power of two >= n; results outside [0, n) pass through it again (cycle walking).
/// Threads: any.
/// Cost:    224 bytes for any n; fewer than two passes per position on average.
/// Example: cuota::keyed_permutation{1000, cuota::epoch_key(seed, epoch)}(2)
class keyed_permutation {
public:
    /// The power of two >= n fits 64 bits.
    static constexpr std::uint64_t max_size = std::uint64_t{1} << 63;

    /// Throws: usage_error if n > 2^63.
    constexpr keyed_permutation(std::uint64_t n, std::uint64_t key) : n_{n} {
        if (n > max_size) refuse_size(n);
        int const bits = n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1));
        if (bits >= 10) rounds_ = 8;  // small domains need more rounds for an even shuffle
        low_bits_ = (bits + 1) / 2;
        high_mask_ = mask(bits / 2);
        key = detail::mixed(key);  // decorrelates the rounds of adjacent keys
        for (std::uint64_t& round : round_keys_) round = detail::mixed(key += detail::golden);
    }

    [[nodiscard]] constexpr std::uint64_t size() const noexcept { return n_; }  ///< n

    /// Returns the number at a position. Throws: usage_error if position >= size().
    [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t position) const {
        if (position >= n_) refuse(position);
        do position = pass(position);
        while (position >= n_);
        return position;
    }

private:
    [[noreturn, gnu::cold]] static void refuse_size(std::uint64_t n);
    [[noreturn, gnu::cold]] void refuse(std::uint64_t position) const;

    static constexpr std::uint64_t mask(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

    [[nodiscard]] constexpr std::uint64_t pass(std::uint64_t value) const noexcept {
        std::uint64_t low = value & mask(low_bits_);
        std::uint64_t high = value >> low_bits_;
        for (std::size_t r = 0; r != rounds_; r += 2) {
            high ^= detail::mixed(low ^ round_keys_[r]) & high_mask_;
            low ^= detail::mixed(high ^ round_keys_[r + 1]) & mask(low_bits_);
        }
        return high << low_bits_ | low;
    }

    std::uint64_t n_;
    std::uint64_t high_mask_ = 0;
    std::size_t rounds_ = 24;
    int low_bits_ = 0;
    std::array<std::uint64_t, 24> round_keys_{};
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void keyed_permutation::refuse_size(std::uint64_t n) {
    detail::throw_usage_error("permutation: {} positions exceed the maximum of 2^63", {n});
}

CUOTA_INLINE void keyed_permutation::refuse(std::uint64_t position) const {
    detail::throw_usage_error("permutation: position {} is out of range: {} positions", {position, n_});
}

}  // namespace cuota::inline v0

#endif
