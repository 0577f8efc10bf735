// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Random samplers with weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/samplers/sampler.hpp>

namespace cuota::inline v0 {

/// Draws samples with replacement, with probability proportional to weight; the same on every machine.
///
/// Threads: any. Throws: usage_error on construction if a weight is negative or not finite, or all are 0.
/// Cost:    24 bytes per sample, shared by copies; one lookup per draw.
/// Example: cuota::weighted_sampler{seed, weights, weights.size()}
class weighted_sampler {
public:
    /// Takes one weight per sample, and the positions of an epoch.
    weighted_sampler(std::uint64_t seed, std::span<double const> weights, std::uint64_t draws);

    /// Returns `draws`. Throws: usage_error unless n is the number of weights.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Allocates nothing.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
              std::span<std::uint64_t> out) const noexcept;
    /// Hashes all arguments.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept;

private:
    struct facts;
    detail::light_shared_ptr<facts const> shared_;
};

/// Draws samples without replacement within an epoch, with probability proportional to weight among the remaining ones.
///
/// Threads: any; the first to draw from an epoch computes its order, while others wait.
/// Throws:  as weighted_sampler.
/// Cost:    24 bytes per sample, shared by copies; draws * log(samples) time per epoch.
/// Example: cuota::weighted_shuffle_sampler{seed, weights, 10'000}
class weighted_shuffle_sampler {
public:
    /// Takes the arguments of weighted_sampler.
    weighted_shuffle_sampler(std::uint64_t seed, std::span<double const> weights, std::uint64_t draws);

    /// Returns `draws`. Throws: usage_error unless n is the number of weights, and `draws` of them are positive.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Throws: std::bad_alloc; usage_error in a forked child.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Hashes all arguments.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept;

private:
    struct facts;
    detail::light_shared_ptr<facts> shared_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/detail/samplers/alias_table.hpp>
#include <cuota/data/samplers/permutation.hpp>

namespace cuota::inline v0::detail {

struct weighted_draws {
    weighted_draws(char const* sampler, std::uint64_t kind, std::uint64_t seed_,
                   std::span<double const> weights, std::uint64_t draws_);
    void check(std::uint64_t n) const;
    char const* name;  // for messages
    std::uint64_t seed, draws;
    integer_weights whole;
    std::uint64_t fingerprint;
};

CUOTA_INLINE weighted_draws::weighted_draws(char const* sampler, std::uint64_t kind, std::uint64_t seed_,
                                            std::span<double const> weights, std::uint64_t draws_)
    : name{sampler},
      seed{seed_},
      draws{draws_},
      whole{weights, sampler},
      fingerprint{fingerprint_of({kind, seed, draws})} {
    for (std::uint64_t const weight : whole.values) fingerprint = fingerprint_of({fingerprint, weight});
}

CUOTA_INLINE void weighted_draws::check(std::uint64_t n) const {
    if (n != whole.values.size())
        throw_usage_error("{}: number of weights does not match: {} for {}",
                          {name, counted(whole.values.size(), "weights"), counted(n, "samples")});
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(sampler<weighted_sampler> && sampler<weighted_shuffle_sampler>);

struct weighted_sampler::facts : detail::weighted_draws {
    facts(std::uint64_t seed_, std::span<double const> weights, std::uint64_t draws_)
        : weighted_draws{"weighted_sampler", 5, seed_, weights, draws_}, table{whole} {}
    detail::alias_table table;
};

CUOTA_INLINE weighted_sampler::weighted_sampler(std::uint64_t seed, std::span<double const> weights,
                                                std::uint64_t draws)
    : shared_{detail::light_shared_ptr<facts const>::make(seed, weights, draws)} {}

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

CUOTA_INLINE std::uint64_t weighted_sampler::fingerprint() const noexcept { return shared_->fingerprint; }

struct weighted_shuffle_sampler::facts : detail::weighted_draws {
    using numbers = std::vector<std::uint64_t>;

    facts(std::uint64_t seed_, std::span<double const> weights, std::uint64_t draws_)
        : weighted_draws{"weighted_shuffle_sampler", 6, seed_, weights, draws_} {}

    [[nodiscard]] detail::light_shared_ptr<numbers const> order_of(std::uint64_t epoch);

private:
    // Uses a Fenwick tree of weight sums: node i has the i & -i samples that end with i.
    [[nodiscard]] numbers make_order(std::uint64_t epoch) const;

    detail::object_lock guard_;
    detail::light_shared_ptr<numbers const> order_;
    std::uint64_t order_is_of_ = 0;
};

CUOTA_INLINE weighted_shuffle_sampler::weighted_shuffle_sampler(std::uint64_t seed,
                                                                std::span<double const> weights,
                                                                std::uint64_t draws)
    : shared_{detail::light_shared_ptr<facts>::make(seed, weights, draws)} {}

CUOTA_INLINE std::uint64_t weighted_shuffle_sampler::size(std::uint64_t n) const {
    shared_->check(n);
    auto const zero = static_cast<std::uint64_t>(std::ranges::count(shared_->whole.values, std::uint64_t{0}));
    if (shared_->draws > n - zero)
        detail::throw_usage_error(
            "weighted_shuffle_sampler: cannot draw {}: only {} above zero",
            {detail::counted(shared_->draws, "samples"),
             n - zero == 1 ? "1 weight is" : std::to_string(n - zero) + " weights are"});
    return shared_->draws;
}

CUOTA_INLINE void weighted_shuffle_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                                 std::span<std::uint64_t> out) const {
    auto const order = shared_->order_of(epoch);
    std::copy_n(order->begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
}

CUOTA_INLINE std::uint64_t weighted_shuffle_sampler::fingerprint() const noexcept {
    return shared_->fingerprint;
}

CUOTA_INLINE auto weighted_shuffle_sampler::facts::order_of(std::uint64_t epoch)
    -> detail::light_shared_ptr<numbers const> {
    detail::region_lock const lock{guard_};
    if (!order_ || epoch != order_is_of_) {
        order_ = detail::light_shared_ptr<numbers const>::make(make_order(epoch));
        order_is_of_ = epoch;
    }
    return order_;
}

CUOTA_INLINE auto weighted_shuffle_sampler::facts::make_order(std::uint64_t epoch) const -> numbers {
    std::size_t const n = whole.values.size();
    numbers tree(n + 1);
    for (std::size_t i = 1; i <= n; ++i) {
        tree[i] += whole.values[i - 1];
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
        std::uint64_t const weight = whole.values[before];
        left -= weight;
        for (std::size_t i = before + 1; i <= n; i += i & (~i + 1)) tree[i] -= weight;
    }
    return drawn;
}

}  // namespace cuota::inline v0

#endif
