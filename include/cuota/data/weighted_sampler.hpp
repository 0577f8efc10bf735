// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Samples drawn at random, some more often than others.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/permutation.hpp>
#include <cuota/data/sampler.hpp>

namespace cuota::inline v0 {

namespace detail {

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
    explicit whole_weights(std::span<double const> weights);

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

/// What two samplers with weights share.
struct weighted_draws {
    weighted_draws(std::uint64_t kind, std::uint64_t seed_, std::span<double const> weights,
                   std::uint64_t draws_);
    void check(std::uint64_t n) const;
    std::uint64_t seed, draws;
    whole_weights whole;
    std::uint64_t fingerprint;
};

}  // namespace detail

/// Draws samples independently of each other, each as often as its weight says: in an epoch some come more than once, and
/// some not at all.
///
/// A draw is one look-up, whatever the weights are; what is drawn is the same on every machine.
/// Threads: any. Throws: misuse on construction for weights that are negative or infinite, or all zero.
/// Cost:    24 bytes a sample, shared by copies.
/// Example: loader_options{.sampler = cuota::weighted_sampler{seed, weights, weights.size()}}
class weighted_sampler {
public:
    /// As many weights as the source has samples, and `draws` positions in an epoch.
    weighted_sampler(std::uint64_t seed, std::span<double const> weights, std::uint64_t draws);

    /// Throws: misuse when there are not n weights.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Two hashes and a look-up a sample; no allocation.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
              std::span<std::uint64_t> out) const noexcept;
    /// Of seed, weights and draws.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return shared_->fingerprint; }

private:
    struct facts : detail::weighted_draws {
        facts(std::uint64_t seed_, std::span<double const> weights, std::uint64_t draws_)
            : weighted_draws{5, seed_, weights, draws_}, table{whole} {}
        detail::alias_table table;
    };
    std::shared_ptr<facts const> shared_;
};

/// Draws samples one after another, each at most once in an epoch, of those that are left each as likely as its weight says.
///
/// Threads: any; the first to draw of an epoch makes its order, while the others wait.
/// Throws:  misuse on construction for weights that are negative or infinite, or all zero.
/// Cost:    24 bytes a sample, shared by copies; draws * log(samples) once an epoch.
/// Example: loader_options{.sampler = cuota::weighted_shuffle_sampler{seed, weights, 10'000}}
class weighted_shuffle_sampler {
public:
    /// As many weights as the source has samples, and `draws` positions in an epoch.
    weighted_shuffle_sampler(std::uint64_t seed, std::span<double const> weights, std::uint64_t draws);

    /// Throws: misuse when there are not n weights, or fewer than `draws` are above zero.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Throws: std::bad_alloc.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Of seed, weights and draws.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return shared_->fingerprint; }

private:
    using numbers = std::vector<std::uint64_t>;

    struct facts : detail::weighted_draws {
        facts(std::uint64_t seed_, std::span<double const> weights, std::uint64_t draws_)
            : weighted_draws{6, seed_, weights, draws_} {}

        [[nodiscard]] std::shared_ptr<numbers const> order_of(std::uint64_t epoch);

    private:
        // Sums of weights in a tree by Fenwick: node i has those of the i & -i samples that end with i.
        [[nodiscard]] numbers make_order(std::uint64_t epoch) const;

        std::mutex guard_;
        std::shared_ptr<numbers const> order_;
        std::uint64_t order_is_of_ = 0;
    };
    std::shared_ptr<facts> shared_;
};

static_assert(sampler<weighted_sampler> && sampler<weighted_shuffle_sampler>);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE

namespace cuota::inline v0::detail {

CUOTA_INLINE whole_weights::whole_weights(std::span<double const> weights) {
    double all = 0;
    for (std::size_t i = 0; i != weights.size(); ++i) {
        if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
            throw misuse{"a weighted_sampler was given the weight " + std::to_string(weights[i]) +
                         " of sample " + std::to_string(i)};
        all += weights[i];
    }
    if (!(all > 0) || !std::isfinite(all))
        throw misuse{"the weights of a weighted_sampler add up to " + std::to_string(all)};
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

CUOTA_INLINE weighted_draws::weighted_draws(std::uint64_t kind, std::uint64_t seed_,
                                            std::span<double const> weights, std::uint64_t draws_)
    : seed{seed_}, draws{draws_}, whole{weights}, fingerprint{fingerprint_of({kind, seed, draws})} {
    for (std::uint64_t const weight : whole.of) fingerprint = fingerprint_of({fingerprint, weight});
}

CUOTA_INLINE void weighted_draws::check(std::uint64_t n) const {
    if (n != whole.of.size())
        throw misuse{"a sampler has " + std::to_string(whole.of.size()) + " weights for " +
                     std::to_string(n) + " samples"};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE weighted_sampler::weighted_sampler(std::uint64_t seed, std::span<double const> weights,
                                                std::uint64_t draws)
    : shared_{std::make_shared<facts const>(seed, weights, draws)} {}

CUOTA_INLINE std::uint64_t weighted_sampler::size(std::uint64_t n) const {
    shared_->check(n);
    return shared_->draws;
}

CUOTA_INLINE void weighted_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                         std::span<std::uint64_t> out) const noexcept {
    std::uint64_t const key = epoch_key(shared_->seed, epoch);
    std::uint64_t const other_key = detail::mixed(key ^ detail::golden);
    for (std::uint64_t& sample : out) {
        std::uint64_t const at = detail::golden * first++;
        sample = shared_->table.at(detail::mixed(key + at), detail::mixed(other_key + at));
    }
}

CUOTA_INLINE weighted_shuffle_sampler::weighted_shuffle_sampler(std::uint64_t seed,
                                                                std::span<double const> weights,
                                                                std::uint64_t draws)
    : shared_{std::make_shared<facts>(seed, weights, draws)} {}

CUOTA_INLINE std::uint64_t weighted_shuffle_sampler::size(std::uint64_t n) const {
    shared_->check(n);
    auto const zero = static_cast<std::uint64_t>(std::ranges::count(shared_->whole.of, std::uint64_t{0}));
    if (shared_->draws > n - zero)
        throw misuse{"a weighted_shuffle_sampler is to draw " + std::to_string(shared_->draws) +
                     " samples, and " + std::to_string(n - zero) + " have a weight"};
    return shared_->draws;
}

CUOTA_INLINE void weighted_shuffle_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                                 std::span<std::uint64_t> out) const {
    auto const order = shared_->order_of(epoch);
    std::copy_n(order->begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
}

CUOTA_INLINE auto weighted_shuffle_sampler::facts::order_of(std::uint64_t epoch)
    -> std::shared_ptr<numbers const> {
    std::scoped_lock const lock{guard_};
    if (!order_ || epoch != order_is_of_) {
        order_ = std::make_shared<numbers const>(make_order(epoch));
        order_is_of_ = epoch;
    }
    return order_;
}

CUOTA_INLINE auto weighted_shuffle_sampler::facts::make_order(std::uint64_t epoch) const -> numbers {
    std::size_t const n = whole.of.size();
    numbers tree(n + 1);
    for (std::size_t i = 1; i <= n; ++i) {
        tree[i] += whole.of[i - 1];
        if (std::size_t const up = i + (i & (~i + 1)); up <= n) tree[up] += tree[i];
    }
    std::uint64_t const key = epoch_key(seed, epoch);
    std::uint64_t left = whole.sum;
    numbers drawn;
    drawn.reserve(static_cast<std::size_t>(draws));
    for (std::uint64_t p = 0; p != draws; ++p) {
        std::uint64_t at = detail::high_of_product(detail::mixed(key + detail::golden * p), left);
        std::size_t before = 0;
        for (std::size_t step = std::bit_floor(n); step != 0; step /= 2)
            if (before + step <= n && tree[before + step] <= at) {
                before += step;
                at -= tree[before];
            }
        drawn.push_back(before);
        std::uint64_t const weight = whole.of[before];
        left -= weight;
        for (std::size_t i = before + 1; i <= n; i += i & (~i + 1)) tree[i] -= weight;
    }
    return drawn;
}

}  // namespace cuota::inline v0

#endif
