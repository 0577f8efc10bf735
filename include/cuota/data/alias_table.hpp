// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Weights as whole numbers, and what samples are drawn from by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// The high half of a product: a number below `b` when a is any number, each about equally often.
[[nodiscard]] constexpr std::uint64_t high_of_product(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t const a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    std::uint64_t const low = a0 * b0 >> 32;
    std::uint64_t const mid = a1 * b0 + low;
    std::uint64_t const more = a0 * b1 + (mid & 0xFFFFFFFF);
    return a1 * b1 + (mid >> 32) + (more >> 32);
}

/// Weights as whole numbers of one sum, at most 2^62: what is made of them is the same on every machine.
/// Throws: misuse for a weight that is negative, infinite or no number, or when all are zero.
struct whole_weights {
    /// The sampler's name is for messages.
    explicit whole_weights(std::span<double const> weights, char const* sampler = "weighted_sampler");

    std::vector<std::uint64_t> of;
    std::uint64_t sum = 0;
};

/// Samples with weights as columns of one height, each one sample's up to some height and one other's above: what Walker's
/// alias method draws from, made by Vose's way in whole numbers. Together a sample's parts are its weight times the number
/// of columns, exactly.
/// Cost: 16 bytes a sample, and as much again while it is made.
class alias_table {
public:
    struct column {
        std::uint64_t own;    // of the height, the sample's own
        std::uint64_t other;  // whose the rest is
    };

    explicit alias_table(whole_weights const& weights);

    [[nodiscard]] std::uint64_t height() const noexcept { return height_; }
    [[nodiscard]] std::span<column const> columns() const noexcept { return columns_; }
    /// The sample that two random numbers draw.
    [[nodiscard]] std::uint64_t at(std::uint64_t which, std::uint64_t how_high) const noexcept;

private:
    // So many full columns, and more: less than one.
    struct amount {
        std::uint64_t full = 0, more = 0;
    };
    void add(amount& to, std::uint64_t more) const noexcept;
    void take(amount& from, std::uint64_t less) const noexcept;
    // weight * columns, by doubling.
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

CUOTA_INLINE whole_weights::whole_weights(std::span<double const> weights, char const* sampler) {
    double all = 0;
    for (std::size_t i = 0; i != weights.size(); ++i) {
        if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
            throw_misuse("a {} was given the weight {} of sample {}", {sampler, weights[i], i});
        all += weights[i];
    }
    if (!(all > 0) || !std::isfinite(all)) throw_misuse("the weights of a {} add up to {}", {sampler, all});
    int exponent = 0;
    double const mantissa = std::frexp(all, &exponent);
    of.reserve(weights.size());
    for (double const weight : weights) {
        double const share = std::ldexp(weight, -exponent) / mantissa;
        auto const whole = static_cast<std::uint64_t>(share * 0x1p61);  // with room for what is rounded up
        of.push_back(whole == 0 && weight > 0 ? 1 : whole);             // what may be drawn can be
        sum += of.back();
    }
}

CUOTA_INLINE alias_table::alias_table(whole_weights const& weights)
    : height_{weights.sum}, columns_(weights.of.size()) {
    std::vector<amount> left;
    std::vector<std::size_t> small, large;
    left.reserve(columns_.size());
    for (std::size_t i = 0; i != columns_.size(); ++i) {
        left.push_back(times_columns(weights.of[i]));
        (left[i].full == 0 ? small : large).push_back(i);
    }
    while (!small.empty()) {
        std::size_t const s = small.back();
        small.pop_back();
        std::size_t const l = large.back();  // there is one: what is left is as much as the columns to fill
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

CUOTA_INLINE void alias_table::add(amount& to, std::uint64_t more) const noexcept {  // at most a column
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
