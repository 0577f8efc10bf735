// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Samples of an epoch and their order.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/samplers/permutation.hpp>

namespace cuota::inline v0 {

/// The order of an epoch as a pure function of position: the same for any number of workers and processes, and when resumed.
///
/// size(n): positions of an epoch over n samples. Throws: usage_error if n is not supported.
/// draw(n, epoch, first, out): writes to out[i] the sample at position first + i < size(n).
/// fingerprint(): equal for samplers that draw the same, rarely for others; saved to detect another order.
/// Threads: any, concurrently; all functions are const.
/// Cost:    one draw per batch, by a worker.
/// Example: tests/data/samplers/sampler.cpp
template <class S>
concept sampler = std::copy_constructible<S> &&
    requires(S const& s, std::uint64_t n, std::span<std::uint64_t> out) {
    { s.size(n) } -> std::convertible_to<std::uint64_t>;
    s.draw(n, n, n, out);
    { s.fingerprint() } -> std::convertible_to<std::uint64_t>;
};

namespace detail {

[[nodiscard]] constexpr std::uint64_t fingerprint_of(std::initializer_list<std::uint64_t> numbers) noexcept {
    std::uint64_t sum = permutation_version;
    for (std::uint64_t const number : numbers) sum = mixed((sum ^ number) + golden);
    return sum;
}

}  // namespace detail

/// All samples in dataset order: the default without seed and sampler.
class sequential_sampler {
public:
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const noexcept { return n; }  ///< n
    /// Draws the same in every epoch.
    void draw(std::uint64_t, std::uint64_t, std::uint64_t first, std::span<std::uint64_t> out) const noexcept;
    /// Returns a constant.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return detail::fingerprint_of({1}); }
};

/// All samples, each once, reshuffled in each epoch.
/// Cost:    as keyed_permutation.
/// Example: loader_options{.seed = 1}
class shuffle_sampler {
public:
    /// A seed yields the same orders on every machine.
    explicit shuffle_sampler(std::uint64_t seed) noexcept : seed_{seed} {}

    /// Returns n. Throws: usage_error if n > 2^63.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return keyed_permutation{n, 0}.size(); }
    /// Throws: usage_error for a position >= n, or n > 2^63.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Hashes the seed.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return detail::fingerprint_of({2, seed_}); }

private:
    std::uint64_t seed_;
};

/// All samples, each once: blocks of consecutive samples are shuffled, and the samples within each block, anew in each epoch. Disks are
/// read about as fast as in order.
///
/// The blocks' offset also varies, so every sample is equally often at every position even if `block` does not divide n.
/// Units:   a block is a number of samples. Cost: constant memory.
/// Example: cuota::block_shuffle_sampler{seed, 1024}
class block_shuffle_sampler {
public:
    /// Throws: usage_error if block is 0.
    block_shuffle_sampler(std::uint64_t seed, std::uint64_t block);

    /// Returns n. Throws: usage_error if n > 2^63.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return keyed_permutation{n, 0}.size(); }
    /// Throws: usage_error if n > 2^63.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Hashes seed and block.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept;

private:
    std::uint64_t seed_, block_;
};

/// Listed samples, possibly repeated, in list order or, with a seed, reshuffled in each epoch.
/// Cost:    8 bytes per listed sample, shared by copies.
/// Example: cuota::subset_sampler{the_hard_ones, seed}
class subset_sampler {
public:
    /// Takes dataset indices.
    explicit subset_sampler(std::vector<std::uint64_t> samples, std::optional<std::uint64_t> seed = {});

    /// Returns the list's length. Throws: usage_error if an index is >= n.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Requires first + out.size() <= size().
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Hashes seed and list.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
    detail::light_shared_ptr<std::vector<std::uint64_t> const> samples_;
    std::optional<std::uint64_t> seed_;
    std::uint64_t end_ = 0;
    std::uint64_t fingerprint_;
};

/// Holds any sampler, shared by copies; one indirect call per batch.
class any_sampler {
public:
    any_sampler();  ///< holds a sequential_sampler
    /// Holds `from`.
    template <class S>
        requires(!std::same_as<S, any_sampler>)
    &&sampler<S> any_sampler(S from)
        : inside_{detail::light_shared_ptr<model<S> const>::make(std::move(from))} {}

    /// Calls the held sampler.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return asked().size(n); }
    /// Calls the held sampler.
    void draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    [[nodiscard]] std::uint64_t fingerprint() const { return asked().fingerprint(); }  ///< of that sampler

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
    // The program's sampler is called outside all locks.
    [[nodiscard]] base const& asked() const noexcept {
        detail::expect_no_region("a sampler");
        return *inside_;
    }

    detail::light_shared_ptr<base const> inside_;
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
    if (block == 0) detail::throw_usage_error("block_shuffle_sampler: the block size must be at least 1");
}

CUOTA_INLINE void block_shuffle_sampler::draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                                              std::span<std::uint64_t> out) const {
    if (out.empty()) return;
    std::uint64_t const key = epoch_key(seed_, epoch);
    std::uint64_t const begin = keyed_permutation{n, detail::mixed(key ^ detail::golden)}(0);
    std::uint64_t const whole = n / block_;  // full blocks; a partial one comes last
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
            out[i] = sample < n - begin ? sample + begin : sample - (n - begin);  // wraps around
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
    : samples_{detail::light_shared_ptr<std::vector<std::uint64_t> const>::make(std::move(samples))},
      seed_{seed} {
    fingerprint_ = detail::fingerprint_of({4, seed ? *seed : 0, seed.has_value()});
    for (std::uint64_t const sample : *samples_) {
        end_ = std::max(end_, sample == ~std::uint64_t{0} ? sample : sample + 1);
        fingerprint_ = detail::fingerprint_of({fingerprint_, sample});
    }
}

CUOTA_INLINE std::uint64_t subset_sampler::size(std::uint64_t n) const {
    if (end_ > n)
        detail::throw_usage_error("subset_sampler: sample {} is out of range: the dataset has {}",
                                  {end_ - 1, n});
    return samples_->size();
}

CUOTA_INLINE void subset_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                       std::span<std::uint64_t> out) const {
    if (!seed_) {
        for (std::uint64_t& sample : out) sample = (*samples_)[first++];
        return;
    }
    keyed_permutation const at{samples_->size(), epoch_key(*seed_, epoch)};
    for (std::uint64_t& sample : out) sample = (*samples_)[at(first++)];
}

CUOTA_INLINE any_sampler::any_sampler() : any_sampler{sequential_sampler{}} {}

CUOTA_INLINE void any_sampler::draw(std::uint64_t n, std::uint64_t epoch, std::uint64_t first,
                                    std::span<std::uint64_t> out) const {
    asked().draw(n, epoch, first, out);
}

}  // namespace cuota::inline v0

#endif
