// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Integer weights, and drawing by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// Returns the high half of the product: maps a uniform `a` about uniformly to [0, b).
[[nodiscard]] constexpr std::uint64_t high_of_product(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t const a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    std::uint64_t const low = a0 * b0 >> 32;
    std::uint64_t const mid = a1 * b0 + low;
    std::uint64_t const more = a0 * b1 + (mid & 0xFFFFFFFF);
    return a1 * b1 + (mid >> 32) + (more >> 32);
}

/// Weights as integers with a sum of at most 2^62: the same on every machine.
/// Throws: as weighted_sampler.
struct integer_weights {
    explicit integer_weights(std::span<double const> weights, char const* sampler = "weighted_sampler");

    std::vector<std::uint64_t> values;
    std::uint64_t sum = 0;
};

/// Walker's alias table, constructed by Vose's algorithm in integers. Each column of equal height has its own sample below, and another
/// above. A sample's parts add up to exactly its weight times the number of columns.
/// Cost: 16 bytes per sample; during construction about 24 more.
class alias_table {
public:
    struct column {
        std::uint64_t own;    // height of the own sample
        std::uint64_t other;  // the sample above
    };

    explicit alias_table(integer_weights const& weights);

    [[nodiscard]] std::uint64_t height() const noexcept { return height_; }
    [[nodiscard]] std::span<column const> columns() const noexcept { return columns_; }
    /// Returns the sample drawn by two random numbers.
    [[nodiscard]] std::uint64_t at(std::uint64_t which, std::uint64_t how_high) const noexcept;

private:
    // `full` columns plus `more` < height.
    struct amount {
        std::uint64_t full = 0, more = 0;
    };
    void add(amount& to, std::uint64_t more) const noexcept;
    void take(amount& from, std::uint64_t less) const noexcept;
    // Returns weight * columns, by doubling.
    [[nodiscard]] amount times_columns(std::uint64_t weight) const noexcept;

    std::uint64_t height_;
    std::vector<column> columns_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <bit>
#include <cmath>

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE integer_weights::integer_weights(std::span<double const> weights, char const* sampler) {
    double all = 0;
    for (std::size_t i = 0; i != weights.size(); ++i) {
        if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
            throw_usage_error("{}: weight {} of sample {} must be finite and not negative",
                              {sampler, weights[i], i});
        all += weights[i];
    }
    if (!(all > 0) || !std::isfinite(all))
        throw_usage_error("{}: the sum of the weights is {}; it must be finite and above 0", {sampler, all});
    int exponent = 0;
    double const mantissa = std::frexp(all, &exponent);
    values.reserve(weights.size());
    for (double const weight : weights) {
        double const share = std::ldexp(weight, -exponent) / mantissa;
        auto const whole = static_cast<std::uint64_t>(share * 0x1p61);  // rounding up fits
        values.push_back(whole == 0 && weight > 0 ? 1 : whole);         // remains positive
        sum += values.back();
    }
}

CUOTA_INLINE alias_table::alias_table(integer_weights const& weights)
    : height_{weights.sum}, columns_(weights.values.size()) {
    std::vector<amount> left;
    std::vector<std::size_t> small, large;
    left.reserve(columns_.size());
    for (std::size_t i = 0; i != columns_.size(); ++i) {
        left.push_back(times_columns(weights.values[i]));
        (left[i].full == 0 ? small : large).push_back(i);
    }
    while (!small.empty()) {
        std::size_t const s = small.back();
        small.pop_back();
        std::size_t const l = large.back();  // exists: the amounts fill all remaining columns
        columns_[s] = {left[s].more, l};
        take(left[l], height_ - left[s].more);
        if (left[l].full == 0) {
            large.pop_back();
            small.push_back(l);
        }
    }
    for (std::size_t const l : large) columns_[l] = {height_, l};
}

CUOTA_INLINE std::uint64_t alias_table::at(std::uint64_t which, std::uint64_t how_high) const noexcept {
    std::uint64_t const i = high_of_product(which, columns_.size());
    column const& c = columns_[static_cast<std::size_t>(i)];
    return high_of_product(how_high, height_) < c.own ? i : c.other;
}

CUOTA_INLINE void alias_table::add(amount& to, std::uint64_t more) const noexcept {  // more <= height_
    bool const fills = to.more >= height_ - more;
    to.full += fills;
    to.more = fills ? to.more - (height_ - more) : to.more + more;
}

CUOTA_INLINE void alias_table::take(amount& from, std::uint64_t less) const noexcept {
    bool const breaks = from.more < less;
    from.full -= breaks;
    from.more = breaks ? from.more + (height_ - less) : from.more - less;
}

CUOTA_INLINE auto alias_table::times_columns(std::uint64_t weight) const noexcept -> amount {
    amount product;
    for (int bit = static_cast<int>(std::bit_width(columns_.size())) - 1; bit >= 0; --bit) {
        product.full *= 2;
        add(product, product.more);
        if (columns_.size() >> bit & 1) add(product, weight);
    }
    return product;
}

}  // namespace cuota::inline v0::detail

#endif
