// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Random order by similar lengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/samplers/sampler.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] std::vector<std::uint64_t> all_lengths(void const* from, row_counts_call ask, std::size_t field,
                                                     std::size_t count);

}  // namespace detail

/// Returns the rows of each sample in a ragged field.
/// Throws:  usage_error if the field is not ragged; errors of the dataset.
/// Threads: any. Cost: one call of `row_counts` per 1024 samples.
template <dataset S>
    requires detail::has_row_counts<S>
[[nodiscard]] std::vector<std::uint64_t> sample_lengths(S const& from, std::size_t field = 0) {
    return detail::all_lengths(std::addressof(from), &detail::lengths_of<S>, field,
                               static_cast<std::size_t>(from.size()));
}

/// All samples, each once: shuffled, sorted by length within each `window` of samples, and split into buckets of `bucket` samples, which
/// are shuffled, anew in each epoch. A batch has samples of similar length, so little is padded.
///
/// Batches consist of whole buckets if `bucket` divides loader_options::batch_size and `window`. Large windows pad less and mix less; about
/// 50 batches per window are usual.
/// Threads: any; the first to draw from a window sorts it, while others wait.
/// Throws:  usage_error on construction unless 0 < bucket <= window.
/// Cost:    8 bytes per sample, shared by copies, and 40 per sample of a window; log(window) time per sample. Drawing does not allocate.
/// Example: cuota::bucket_sampler{seed, sample_lengths(texts), 3200, 64}
class bucket_sampler {
public:
    /// Takes one length per sample, in any unit: sample_lengths.
    bucket_sampler(std::uint64_t seed, std::vector<std::uint64_t> lengths, std::uint64_t window,
                   std::uint64_t bucket);

    /// Returns n. Throws: usage_error unless it is the number of lengths.
    [[nodiscard]] std::uint64_t size(std::uint64_t n) const;
    /// Throws: usage_error in a forked child.
    void draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;
    /// Hashes all arguments.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept;

private:
    struct facts;
    detail::light_shared_ptr<facts> shared_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <optional>
#include <utility>

#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/samplers/permutation.hpp>

namespace cuota::inline v0 {

static_assert(sampler<bucket_sampler>);

CUOTA_INLINE std::vector<std::uint64_t> detail::all_lengths(void const* from, row_counts_call ask,
                                                            std::size_t field, std::size_t count) {
    std::vector<std::uint64_t> lengths(count);
    std::array<std::uint64_t, 1024> samples;
    for (std::size_t done = 0; done != count;) {
        std::size_t const now = std::min(samples.size(), count - done);
        for (std::size_t i = 0; i != now; ++i) samples[i] = done + i;
        ask(from, field, std::span{samples}.first(now), std::span{lengths}.subspan(done, now));
        done += now;
    }
    return lengths;
}

struct bucket_sampler::facts {
    facts(std::uint64_t seed_, std::vector<std::uint64_t> lengths_, std::uint64_t window_,
          std::uint64_t bucket_);

    // Requires the lock.
    [[nodiscard]] std::span<std::uint64_t const> window_at(std::uint64_t epoch, std::uint64_t number);

    std::uint64_t const seed;
    std::vector<std::uint64_t> const lengths;
    std::uint64_t const window;
    std::uint64_t const bucket;
    std::uint64_t fingerprint;
    detail::object_lock guard;

private:
    struct entry {
        std::uint64_t length, position, sample;
        friend bool operator<(entry const& a, entry const& b) noexcept {
            return a.length != b.length ? a.length < b.length : a.position < b.position;
        }
    };
    struct window_order {
        std::optional<std::uint64_t> epoch{};
        std::uint64_t number = 0;
        std::vector<std::uint64_t> samples{};
    };

    void order(std::uint64_t key, std::uint64_t number, std::vector<std::uint64_t>& samples);
    void append(std::vector<std::uint64_t>& samples, std::uint64_t at, std::uint64_t count,
                std::uint64_t key) const;

    std::array<window_order, 2> lately_;
    std::vector<entry> sorted_;
};

CUOTA_INLINE bucket_sampler::bucket_sampler(std::uint64_t seed, std::vector<std::uint64_t> lengths,
                                            std::uint64_t window, std::uint64_t bucket)
    : shared_{detail::light_shared_ptr<facts>::make(seed, std::move(lengths), window, bucket)} {}

CUOTA_INLINE std::uint64_t bucket_sampler::size(std::uint64_t n) const {
    if (n != shared_->lengths.size())
        detail::throw_usage_error(
            "bucket_sampler: number of lengths does not match: {} for {}",
            {detail::counted(shared_->lengths.size(), "lengths"), detail::counted(n, "samples")});
    return n;
}

CUOTA_INLINE void bucket_sampler::draw(std::uint64_t, std::uint64_t epoch, std::uint64_t first,
                                       std::span<std::uint64_t> out) const {
    detail::region_lock const lock{shared_->guard};
    while (!out.empty()) {
        std::uint64_t const in_window = first % shared_->window;
        std::span<std::uint64_t const> const here =
            shared_->window_at(epoch, first / shared_->window).subspan(static_cast<std::size_t>(in_window));
        std::size_t const n = std::min(here.size(), out.size());
        std::copy_n(here.begin(), n, out.begin());
        first += n;
        out = out.subspan(n);
    }
}

CUOTA_INLINE std::uint64_t bucket_sampler::fingerprint() const noexcept { return shared_->fingerprint; }

CUOTA_INLINE bucket_sampler::facts::facts(std::uint64_t seed_, std::vector<std::uint64_t> lengths_,
                                          std::uint64_t window_, std::uint64_t bucket_)
    : seed{seed_},
      lengths{std::move(lengths_)},
      window{std::min<std::uint64_t>(window_, std::max<std::uint64_t>(lengths.size(), bucket_))},
      bucket{bucket_},
      fingerprint{detail::fingerprint_of({7, seed, window, bucket})} {
    if (bucket == 0 || bucket > window_)
        detail::throw_usage_error("bucket_sampler: a bucket of {} is out of range: 1 to the window's {}",
                                  {detail::counted(bucket, "samples"), window_});
    for (std::uint64_t const length : lengths) fingerprint = detail::fingerprint_of({fingerprint, length});
    auto const most = static_cast<std::size_t>(std::min<std::uint64_t>(window, lengths.size()));
    sorted_.reserve(most);
    for (window_order& w : lately_) w.samples.reserve(most);
}

CUOTA_INLINE std::span<std::uint64_t const> bucket_sampler::facts::window_at(std::uint64_t epoch,
                                                                             std::uint64_t number) {
    for (window_order const& w : lately_)
        if (w.epoch == epoch && w.number == number) return w.samples;
    std::swap(lately_[0], lately_[1]);  // evicts the older one
    lately_[0].epoch = epoch;
    lately_[0].number = number;
    order(epoch_key(seed, epoch), number, lately_[0].samples);
    return lately_[0].samples;
}

CUOTA_INLINE void bucket_sampler::facts::order(std::uint64_t key, std::uint64_t number,
                                               std::vector<std::uint64_t>& samples) {
    std::uint64_t const n = lengths.size();
    std::uint64_t const begin = number * window;
    std::uint64_t const end = std::min(begin + window, n);
    keyed_permutation const shuffled{n, key};
    sorted_.clear();
    for (std::uint64_t p = begin; p != end; ++p) {
        std::uint64_t const sample = shuffled(p);
        sorted_.push_back({lengths[static_cast<std::size_t>(sample)], p, sample});
    }
    std::sort(sorted_.begin(), sorted_.end());

    std::uint64_t const all = end - begin;
    std::uint64_t const whole = all / bucket;  // a partial bucket comes last, with any lengths
    std::uint64_t const rest = all % bucket;
    std::uint64_t const here = key + detail::mixed(number + 1);
    std::uint64_t const before_rest =
        keyed_permutation{whole + 1, detail::mixed(here ^ detail::golden)}(0) * bucket;
    keyed_permutation const turns{whole, here};
    samples.clear();
    for (std::uint64_t turn = 0; turn != whole; ++turn) {
        std::uint64_t const at = turns(turn) * bucket;
        append(samples, at < before_rest ? at : at + rest, bucket, here + detail::mixed(at + 1));
    }
    append(samples, before_rest, rest, here + detail::mixed(all + 1));
}

CUOTA_INLINE void bucket_sampler::facts::append(std::vector<std::uint64_t>& samples, std::uint64_t at,
                                                std::uint64_t count, std::uint64_t key) const {
    keyed_permutation const inside{count, key};
    for (std::uint64_t i = 0; i != count; ++i) samples.push_back(sorted_[at + inside(i)].sample);
}

}  // namespace cuota::inline v0

#endif
