// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which positions of an epoch stand in which batch, of which process.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/text.hpp>

namespace cuota::inline v0 {

/// What happens to the samples left over when the batches of all processes do not divide the epoch: they make a smaller
/// batch, none, or a whole one together with samples from the epoch's beginning.
enum class last_batch {
    partial,  ///< a smaller batch, also an empty one for some processes
    drop,     ///< none
    pad       ///< a whole one
};

/// This process among several that share an epoch: each takes its part of every step.
struct shard {
    std::uint64_t rank = 0;   ///< below world
    std::uint64_t world = 1;  ///< processes
};

namespace detail {

/// This process's batch of a step: the positions [first, first + count) of an epoch, and where the next step begins.
/// Of a batch that is padded, positions may stand beyond the epoch's end: they are meant modulo their number.
struct dealt_batch {
    std::uint64_t first, count, end;
    friend bool operator==(dealt_batch const&, dealt_batch const&) = default;
};

/// The positions of an epoch, dealt out: `world` batches are a step, each step's positions follow the last one's, and of
/// a step each process has its part, in order of the ranks. So the order of an epoch does not depend on how many there are,
/// and every process has as many batches, if some are smaller by one sample, or empty, at a partial end.
/// Throws: misuse for a batch of nothing, no process, or a rank that there is not.
class batch_deal {
public:
    batch_deal(std::uint64_t positions, std::size_t batch, last_batch last, shard part);

    /// From a position on, which is not beyond the end. Batches, the same for every process.
    [[nodiscard]] std::uint64_t batches(std::uint64_t from = 0) const noexcept;
    /// Where the last of them ends.
    [[nodiscard]] std::uint64_t end(std::uint64_t from = 0) const noexcept;
    /// The most positions of a batch of this process.
    [[nodiscard]] std::uint64_t largest() const noexcept { return batches() == 0 ? 0 : part_of(all_at(0)); }
    /// The batch of the step that begins at a position before the end.
    [[nodiscard]] dealt_batch next(std::uint64_t position) const noexcept;

private:
    // Positions of a step, of all processes.
    [[nodiscard]] std::uint64_t all_at(std::uint64_t position) const noexcept;
    [[nodiscard]] std::uint64_t part_of(std::uint64_t all) const noexcept;
    // Where rank's part of `all` positions begins: parts differ by one at most.
    [[nodiscard]] std::uint64_t cut(std::uint64_t all, std::uint64_t rank) const noexcept;

    std::uint64_t positions_;
    last_batch last_;
    shard part_;
    std::uint64_t step_;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE batch_deal::batch_deal(std::uint64_t positions, std::size_t batch, last_batch last, shard part)
    : positions_{positions}, last_{last}, part_{part} {
    if (batch == 0) throw_misuse("a loader was given a batch of 0 samples");
    if (part.rank >= part.world)
        throw_misuse("a loader was given rank {} of {} processes", {part.rank, part.world});
    if (batch > ~std::uint64_t{0} / part.world)
        throw_misuse("batches of {} for each of {} are more than can be counted",
                     {counted(batch, "samples"), counted(part.world, "processes")});
    step_ = batch * part.world;
}

CUOTA_INLINE std::uint64_t batch_deal::batches(std::uint64_t from) const noexcept {
    std::uint64_t const left = positions_ - from;
    return left / step_ + (last_ != last_batch::drop && left % step_ != 0);
}

CUOTA_INLINE std::uint64_t batch_deal::end(std::uint64_t from) const noexcept {
    return last_ == last_batch::drop ? positions_ - (positions_ - from) % step_ : positions_;
}

CUOTA_INLINE dealt_batch batch_deal::next(std::uint64_t position) const noexcept {
    std::uint64_t const all = all_at(position);
    return {position + cut(all, part_.rank), part_of(all), position + std::min(step_, positions_ - position)};
}

CUOTA_INLINE std::uint64_t batch_deal::all_at(std::uint64_t position) const noexcept {
    return last_ == last_batch::pad ? step_ : std::min(step_, positions_ - position);
}

CUOTA_INLINE std::uint64_t batch_deal::part_of(std::uint64_t all) const noexcept {
    return cut(all, part_.rank + 1) - cut(all, part_.rank);
}

CUOTA_INLINE std::uint64_t batch_deal::cut(std::uint64_t all, std::uint64_t rank) const noexcept {
    return all / part_.world * rank + std::min(rank, all % part_.world);
}

}  // namespace cuota::inline v0::detail

#endif
