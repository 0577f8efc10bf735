// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which samples an epoch takes, and in which order: arithmetic, not state.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/data/permutation.hpp>

namespace cuota::inline v0 {

/// The order of an epoch as a pure function of the position in it: the same for any number of workers and processes, and
/// from any position on.
///
/// size(n):  positions of an epoch over a source of n samples. Throws: misuse when it cannot draw from so many.
/// draw(n, epoch, first, out): out[i] gets the sample at position first + i, which is below size(n).
/// fingerprint(): a number that is the same for samplers that draw the same, and rarely for others: saved with a position,
///          it tells that a position is another order's.
/// Threads:  all are const, and may run on any number of threads at once.
/// Cost:     draw is asked once a batch, by the worker that reads it. Nothing is kept between calls that a position needs.
/// Example: tests/data/sampler.cpp
template <class S>
concept sampler = std::copy_constructible<S> &&
    requires(S const& s, std::uint64_t n, std::span<std::uint64_t> out) {
    { s.size(n) } -> std::convertible_to<std::uint64_t>;
    s.draw(n, n, n, out);
    { s.fingerprint() } -> std::convertible_to<std::uint64_t>;
};

namespace detail {

/// A fingerprint of several numbers in order.
[[nodiscard]] constexpr std::uint64_t fingerprint_of(std::initializer_list<std::uint64_t> numbers) noexcept {
    std::uint64_t sum = permutation_version;
    for (std::uint64_t const number : numbers) sum = mixed((sum ^ number) + golden);
    return sum;
}

}  // namespace detail

/// All samples in the source's order. What a loader does that is given neither seed nor sampler.
/// Threads, throws: as any sampler. Cost: nothing.
class sequential_sampler {
public:
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const noexcept { return n; }  ///< n
    /// Whatever the epoch is.
    void draw(std::uint64_t, std::uint64_t, std::uint64_t first, std::span<std::uint64_t> out) const noexcept;
    /// The same for all of them.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return detail::fingerprint_of({1}); }
};

/// All samples, each once, in an order of each epoch's own.
/// Cost: a few words whatever n is; see keyed_permutation.
/// Threads, throws: as any sampler.
/// Example: loader_options{.seed = 1}, which is short for .sampler = shuffle_sampler{1}
class shuffle_sampler {
public:
    /// The same seed, the same orders, on every machine.
    explicit shuffle_sampler(std::uint64_t seed) noexcept : seed_{seed} {}

    /// Throws: misuse when n > 2^63.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return keyed_permutation{n, 0}.size(); }
    /// One look-up of a permutation a sample; no allocation. Throws: misuse for a position that is not below n, or n >
    /// 2^63.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Of the seed.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return detail::fingerprint_of({2, seed_}); }

private:
    std::uint64_t seed_;
};

/// All samples, each once: blocks of neighbours in an order of each epoch's own, and each block's samples in another. What
/// is read together stands together in the source, which is then read about as fast as in order, from disks above all.
///
/// Where the blocks begin is each epoch's own, too: so every sample stands at every position equally often, although
/// the last block is a short one, unless `block` divides n.
/// Units: a block is a count of samples. Cost: a few words whatever n is.
/// Threads, throws: as any sampler.
/// Example: loader_options{.sampler = cuota::block_shuffle_sampler{seed, 1024}}
class block_shuffle_sampler {
public:
    /// Throws: misuse for blocks of no samples.
    block_shuffle_sampler(std::uint64_t seed, std::uint64_t block);

    /// Throws: misuse when n > 2^63.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return keyed_permutation{n, 0}.size(); }
    /// A look-up of a permutation a sample, and one for each block that is begun; no allocation.
    /// Throws: misuse when n > 2^63.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Of seed and block.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept;

private:
    std::uint64_t seed_, block_;
};

/// Some samples, named one by one, in that order or, with a seed, in an order of each epoch's own. One may be named more
/// than once.
/// Threads, throws: as any sampler. Cost: 8 bytes a sample that is named.
/// Example: loader_options{.sampler = cuota::subset_sampler{the_hard_ones, seed}}
class subset_sampler {
public:
    /// Indices of the source's samples, 8 bytes each, shared by copies. Without a seed in that order in each epoch.
    explicit subset_sampler(std::vector<std::uint64_t> samples, std::optional<std::uint64_t> seed = {});

    /// Throws: misuse when one of them is not below n.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// A look-up a sample, with a seed one of a permutation, too. first + out.size() is size() at most.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Of the seed and each of the samples.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
    shared_value<std::vector<std::uint64_t> const> samples_;
    std::optional<std::uint64_t> seed_;
    std::uint64_t end_ = 0;
    std::uint64_t fingerprint_;
};

/// Any of these, or a program's own. One indirect call a batch. Copies share it.
/// Threads, throws: as the one inside.
class any_sampler {
public:
    any_sampler();  ///< in the source's order
    /// Holds a copy, which copies of this share.
    template <class S>
        requires(!std::same_as<S, any_sampler>)
    &&sampler<S> any_sampler(S from) : inside_{shared_value<model<S> const>::make(std::move(from))} {}

    /// As of the sampler inside.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return asked().size(n); }
    /// Likewise.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    [[nodiscard]] std::uint64_t fingerprint() const { return asked().fingerprint(); }  ///< likewise

private:
    struct base {
        virtual ~base() = default;
        virtual std::uint64_t size(std::uint64_t n) const = 0;
        virtual void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                          std::span<std::uint64_t> out) const = 0;
        virtual std::uint64_t fingerprint() const = 0;
    };
    template <sampler S>
    struct model final : base {
        explicit model(S s) : from{std::move(s)} {}
        std::uint64_t size(std::uint64_t n) const override { return from.size(n); }
        void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                  std::span<std::uint64_t> out) const override {
            from.draw(n, epoch, first, out);
        }
        std::uint64_t fingerprint() const override { return from.fingerprint(); }
        S from;
    };
    // The functions of the program's sampler are called outside of every lock.
    [[nodiscard]] base const& asked() const noexcept {
        detail::expect_no_region("a sampler");
        return *inside_;
    }

    shared_value<base const> inside_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <numeric>

namespace cuota::inline v0 {

static_assert(sampler<sequential_sampler> && sampler<shuffle_sampler> && sampler<block_shuffle_sampler> &&
              sampler<subset_sampler> && sampler<any_sampler>);

CUOTA_INLINE void sequential_sampler::draw(std::uint64_t, std::uint64_t, std::uint64_t first,
                                           std::span<std::uint64_t> out) const noexcept {
    std::iota(out.begin(), out.end(), first);
}

CUOTA_INLINE void shuffle_sampler::draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                                        std::span<std::uint64_t> out) const {
    keyed_permutation const at{n, epoch_key(seed_, epoch)};
    for (std::uint64_t& sample : out) sample = at(first++);
}

CUOTA_INLINE block_shuffle_sampler::block_shuffle_sampler(std::uint64_t seed, std::uint64_t block)
    : seed_{seed}, block_{block} {
    if (block == 0) detail::throw_misuse("a block_shuffle_sampler was given blocks of 0 samples");
}

CUOTA_INLINE void block_shuffle_sampler::draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                                              std::span<std::uint64_t> out) const {
    if (out.empty()) return;
    std::uint64_t const key = epoch_key(seed_, epoch);
    std::uint64_t const begin = keyed_permutation{n, detail::mixed(key ^ detail::golden)}(0);
    std::uint64_t const whole = n / block_;  // blocks; what is over comes last
    keyed_permutation const blocks{whole, key};
    while (!out.empty()) {
        std::uint64_t const turn = first / block_;
        std::uint64_t const in_block = first % block_;
        std::uint64_t const at = turn < whole ? blocks(turn) : whole;
        std::uint64_t const length = std::min(block_, n - at * block_);
        keyed_permutation const inside{length, key + detail::mixed(at + 1)};
        std::size_t const here =
            static_cast<std::size_t>(std::min<std::uint64_t>(length - in_block, out.size()));
        for (std::size_t i = 0; i != here; ++i) {
            std::uint64_t const sample = at * block_ + inside(in_block + i);
            out[i] = sample < n - begin ? sample + begin : sample - (n - begin);  // around the end
        }
        first += here;
        out = out.subspan(here);
    }
}

CUOTA_INLINE std::uint64_t block_shuffle_sampler::fingerprint() const noexcept {
    return detail::fingerprint_of({3, seed_, block_});
}

CUOTA_INLINE subset_sampler::subset_sampler(std::vector<std::uint64_t> samples,
                                            std::optional<std::uint64_t> seed)
    : samples_{shared_value<std::vector<std::uint64_t> const>::make(std::move(samples))}, seed_{seed} {
    fingerprint_ = detail::fingerprint_of({4, seed ? *seed : 0, seed.has_value()});
    for (std::uint64_t const sample : *samples_) {
        end_ = std::max(end_, sample == ~std::uint64_t{0} ? sample : sample + 1);
        fingerprint_ = detail::fingerprint_of({fingerprint_, sample});
    }
}

CUOTA_INLINE std::uint64_t subset_sampler::size(std::uint64_t n) const {
    if (end_ > n) detail::throw_misuse("a subset_sampler names sample {} of {}", {end_ - 1, n});
    return samples_->size();
}

CUOTA_INLINE void subset_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                       std::span<std::uint64_t> out) const {
    if (!seed_) {
        for (std::uint64_t& sample : out) sample = (*samples_)[static_cast<std::size_t>(first++)];
        return;
    }
    keyed_permutation const at{samples_->size(), epoch_key(*seed_, epoch)};
    for (std::uint64_t& sample : out) sample = (*samples_)[static_cast<std::size_t>(at(first++))];
}

CUOTA_INLINE any_sampler::any_sampler() : any_sampler{sequential_sampler{}} {}

CUOTA_INLINE void any_sampler::draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                                    std::span<std::uint64_t> out) const {
    asked().draw(n, epoch, first, out);
}

}  // namespace cuota::inline v0

#endif
