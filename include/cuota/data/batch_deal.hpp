// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Which positions of an epoch stand in which batch, of which process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// What happens to the samples left over when the batches of all processes do not divide the epoch: they make a smaller
/// batch, none, or a whole one together with samples from the epoch's beginning.
enum class last_batch { partial, drop, pad };

/// This process among several that share an epoch: each takes its part of every step.
struct shard {
    std::uint64_t rank = 0;
    std::uint64_t world = 1;
};

namespace detail {

/// The positions of an epoch, dealt out: `world` batches are a step, each step's positions follow the last one's, and of
/// a step each process has its part, in order of the ranks. So the order of an epoch does not depend on how many there are,
/// and every process has as many batches, if some are smaller by one sample, or empty, at a partial end.
/// Throws: misuse for a batch of nothing, no process, a rank that there is not, or a position beyond the end.
class batch_deal {
public:
    /// From position `begin` on.
    batch_deal(std::uint64_t positions, std::size_t batch, last_batch last, shard part,
               std::uint64_t begin = 0)
        : positions_{positions}, begin_{begin}, last_{last}, part_{part} {
        if (batch == 0) throw misuse{"a loader was given a batch of 0 samples"};
        if (part.rank >= part.world)
            throw misuse{"a loader was given rank " + std::to_string(part.rank) + " of " +
                         std::to_string(part.world) + " processes"};
        if (begin > positions)
            throw misuse{"an epoch was to go on from position " + std::to_string(begin) + " of " +
                         std::to_string(positions)};
        if (batch > ~std::uint64_t{0} / part.world)
            throw misuse{"batches of " + std::to_string(batch) + " samples for each of " +
                         std::to_string(part.world) + " processes are more than can be counted"};
        step_ = batch * part.world;
    }

    /// What is left of the epoch. Batches, the same for every process.
    [[nodiscard]] std::uint64_t batches() const noexcept {
        std::uint64_t const left = positions_ - begin_;
        return left / step_ + (last_ != last_batch::drop && left % step_ != 0);
    }
    /// The most positions of a batch of this process.
    [[nodiscard]] std::uint64_t largest() const noexcept {
        if (batches() == 0) return 0;
        return length_of(last_ == last_batch::pad ? step_ : std::min(step_, positions_ - begin_));
    }

    struct piece {
        std::uint64_t first, count;
    };
    /// This process's part of the batch at `index`. Of one that is padded, positions may stand beyond the end: they are
    /// meant modulo `positions`.
    [[nodiscard]] piece of(std::uint64_t index) const noexcept {
        std::uint64_t const first = begin_ + index * step_;
        std::uint64_t const all = last_ == last_batch::pad ? step_ : std::min(step_, positions_ - first);
        std::uint64_t const before = cut(all, part_.rank);
        return {first + before, cut(all, part_.rank + 1) - before};
    }
    /// Where the epoch is when that many batches are over.
    [[nodiscard]] std::uint64_t position_after(std::uint64_t batches) const noexcept {
        std::uint64_t const left = positions_ - begin_;
        return batches > left / step_ ? positions_ : begin_ + batches * step_;
    }

private:
    [[nodiscard]] std::uint64_t length_of(std::uint64_t all) const noexcept {
        return cut(all, part_.rank + 1) - cut(all, part_.rank);
    }
    // Where rank's part of `all` positions begins: parts differ by one at most.
    [[nodiscard]] std::uint64_t cut(std::uint64_t all, std::uint64_t rank) const noexcept {
        return all / part_.world * rank + std::min(rank, all % part_.world);
    }

    std::uint64_t positions_, begin_;
    last_batch last_;
    shard part_;
    std::uint64_t step_;
};

}  // namespace detail

}  // namespace cuota::inline v0
