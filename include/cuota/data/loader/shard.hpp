// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Partitions an epoch into batches and processes.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// Treatment of samples that do not fill the last batches.
enum class last_batch_policy {
    partial,  ///< a smaller batch, possibly empty
    drop,     ///< discarded
    pad       ///< filled from the epoch's beginning
};

/// This process among those that share an epoch.
struct shard {
    std::uint64_t rank = 0;        ///< rank < world_size
    std::uint64_t world_size = 1;  ///< number of processes
};

namespace detail {

/// This process's batch of a step: positions [first, first + count), modulo the epoch's size if padded; the next step begins at `end`.
struct batch_slice {
    std::uint64_t first, count, end;
    friend bool operator==(batch_slice const&, batch_slice const&) = default;
};

/// Partitions an epoch into steps of world * batch consecutive positions, and these into one batch per process, in rank order, so that the
/// order does not depend on world. In a partial last step, sizes differ by at most 1.
/// Throws: usage_error if batch is 0, or rank >= world.
class batch_partition {
public:
    batch_partition(std::uint64_t positions, std::size_t batch, last_batch_policy last, shard part);

    /// Returns the number of batches from `from` (<= end) on, equal for all processes.
    [[nodiscard]] std::uint64_t batches(std::uint64_t from = 0) const noexcept;
    [[nodiscard]] std::uint64_t end(std::uint64_t from = 0) const noexcept;
    [[nodiscard]] std::uint64_t largest() const noexcept { return batches() == 0 ? 0 : part_of(all_at(0)); }
    /// Returns the batch of the step at `position`, before the end.
    [[nodiscard]] batch_slice next(std::uint64_t position) const noexcept;

private:
    [[nodiscard]] std::uint64_t all_at(std::uint64_t position) const noexcept;
    [[nodiscard]] std::uint64_t part_of(std::uint64_t all) const noexcept;
    [[nodiscard]] std::uint64_t cut(std::uint64_t all, std::uint64_t rank) const noexcept;

    std::uint64_t positions_;
    last_batch_policy last_;
    shard part_;
    std::uint64_t step_;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE batch_partition::batch_partition(std::uint64_t positions, std::size_t batch,
                                              last_batch_policy last, shard part)
    : positions_{positions}, last_{last}, part_{part} {
    if (batch == 0) throw_usage_error("loader: the batch size must be at least 1");
    if (part.rank >= part.world_size)
        throw_usage_error("loader: rank {} is out of range for {} processes", {part.rank, part.world_size});
    if (batch > ~std::uint64_t{0} / part.world_size)
        throw_usage_error("loader: batches of {} for each of {} overflow std::uint64_t",
                          {counted(batch, "samples"), counted(part.world_size, "processes")});
    step_ = batch * part.world_size;
}

CUOTA_INLINE std::uint64_t batch_partition::batches(std::uint64_t from) const noexcept {
    std::uint64_t const left = positions_ - from;
    return left / step_ + (last_ != last_batch_policy::drop && left % step_ != 0);
}

CUOTA_INLINE std::uint64_t batch_partition::end(std::uint64_t from) const noexcept {
    return last_ == last_batch_policy::drop ? positions_ - (positions_ - from) % step_ : positions_;
}

CUOTA_INLINE batch_slice batch_partition::next(std::uint64_t position) const noexcept {
    std::uint64_t const all = all_at(position);
    return {position + cut(all, part_.rank), part_of(all), position + std::min(step_, positions_ - position)};
}

CUOTA_INLINE std::uint64_t batch_partition::all_at(std::uint64_t position) const noexcept {
    return last_ == last_batch_policy::pad ? step_ : std::min(step_, positions_ - position);
}

CUOTA_INLINE std::uint64_t batch_partition::part_of(std::uint64_t all) const noexcept {
    return cut(all, part_.rank + 1) - cut(all, part_.rank);
}

CUOTA_INLINE std::uint64_t batch_partition::cut(std::uint64_t all, std::uint64_t rank) const noexcept {
    return all / part_.world_size * rank + std::min(rank, all % part_.world_size);
}

}  // namespace cuota::inline v0::detail

#endif
