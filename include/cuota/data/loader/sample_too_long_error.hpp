// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Batches limited by rows, and their error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

/// A sample has more rows than loader_options::max_rows; its batch is not delivered.
class CUOTA_PROCESS_TYPE sample_too_long_error : public std::runtime_error {
public:
    /// `dataset` and `field` are names.
    sample_too_long_error(std::string const& dataset, std::string const& field, std::uint64_t sample,
                          std::uint64_t rows, std::size_t most);

    [[nodiscard]] std::uint64_t sample() const noexcept { return sample_; }  ///< index in the dataset
    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }      ///< rows of the sample
    [[nodiscard]] std::size_t most() const noexcept { return most_; }        ///< limit of a batch

private:
    std::uint64_t sample_, rows_;
    std::size_t most_;
};

namespace detail {

class any_dataset;
struct batch_slice;
struct loader_config;
struct sample_list;

/// Partitions an epoch by rows: each batch takes samples in epoch order until loader_options::batch_size or ::max_rows is reached. Its end
/// depends only on its beginning, so a position suffices to resume. A step has one batch per process, consecutively.
class row_batcher {
public:
    row_batcher(loader_config const& shape, any_dataset const& from) noexcept : shape_{shape}, from_{from} {}

    /// Returns this process's batch of the step at a position before the end, with its samples in `mine`, or nullopt if the remainder is
    /// dropped. `others` is scratch. Allocates nothing within the lists' capacity.
    /// Throws: sample_too_long_error; errors of sampler and dataset.
    [[nodiscard]] std::optional<batch_slice> next(std::uint64_t epoch, std::uint64_t position,
                                                  sample_list& mine, sample_list& others) const;

private:
    // Returns false if the epoch ended first.
    [[nodiscard]] bool fill(std::uint64_t epoch, std::uint64_t position, sample_list& list) const;

    // Returns how many samples from index `before` on fit, and appends their row offsets.
    [[nodiscard]] std::size_t fitting(sample_list& list, std::size_t before) const;

    static constexpr std::size_t at_once = 64;

    loader_config const& shape_;
    any_dataset const& from_;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/loader_config.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/shard.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE sample_too_long_error::sample_too_long_error(std::string const& dataset,
                                                          std::string const& field, std::uint64_t sample,
                                                          std::uint64_t rows, std::size_t most)
    : std::runtime_error{"cuota::sample_too_long_error: " + dataset + ": sample " + std::to_string(sample) +
                         " has " + std::to_string(rows) + " rows of " + field +
                         "; loader_options::max_rows limits a batch to " + std::to_string(most)},
      sample_{sample},
      rows_{rows},
      most_{most} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::optional<batch_slice> row_batcher::next(std::uint64_t epoch, std::uint64_t position,
                                                          sample_list& mine, sample_list& others) const {
    auto const [rank, world] = shape_.options.shard;
    batch_slice dealt{position, 0, position};
    bool is_cut = false;
    for (std::uint64_t r = 0; r != world; ++r) {
        sample_list& of_r = r == rank ? mine : others;
        is_cut = !fill(epoch, dealt.end, of_r) || is_cut;
        if (r == rank) dealt.first = dealt.end;
        if (r == rank) dealt.count = mine.size();
        dealt.end += of_r.size();
    }
    if (is_cut && shape_.options.last_batch == last_batch_policy::drop) return std::nullopt;
    dealt.end = std::min(dealt.end, shape_.positions);
    return dealt;
}

CUOTA_INLINE bool row_batcher::fill(std::uint64_t epoch, std::uint64_t position, sample_list& list) const {
    std::size_t const batch = shape_.options.batch_size;  // plan.batch_size is also limited by the epoch
    list.clear();
    while (list.size() != batch) {
        std::uint64_t const at = position + list.size();
        std::uint64_t const left = shape_.options.last_batch == last_batch_policy::pad ? batch
                                   : at < shape_.positions                             ? shape_.positions - at
                                                                                       : 0;
        if (left == 0) return false;
        std::size_t const before = list.size();
        std::size_t const more = std::min<std::uint64_t>({left, batch - before, at_once});
        list.numbers.resize(before + more);
        shape_.draw(epoch, at, std::span{list.numbers}.subspan(before));
        std::size_t const fit = fitting(list, before);
        list.shorten(before + fit);
        if (fit != more) return true;
    }
    return true;
}

CUOTA_INLINE std::size_t row_batcher::fitting(sample_list& list, std::size_t before) const {
    std::span<std::uint64_t const> const asked = std::span{list.numbers}.subspan(before);
    std::array<std::uint64_t, at_once> lengths;
    std::size_t fit = asked.size();
    std::size_t j = 0;
    for (std::size_t k = 0; k != shape_.fields.size(); ++k) {
        if (!shape_.fields[k].is_ragged) continue;
        from_.row_counts(k, asked, std::span{lengths}.first(asked.size()));
        std::vector<std::uint64_t>& offsets = list.row_offsets[j++];
        std::size_t i = 0;
        for (; i != fit && lengths[i] <= shape_.plan.max_rows - offsets.back(); ++i)
            offsets.push_back(offsets.back() + lengths[i]);
        if (before + i == 0)
            throw sample_too_long_error{shape_.name, field_text(shape_.fields[k]), asked[0], lengths[0],
                                        shape_.plan.max_rows};
        fit = i;
    }
    return fit;
}

}  // namespace cuota::inline v0::detail

#endif
