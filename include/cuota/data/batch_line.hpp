// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The books of a loader: which batches were claimed, filled, copied and delivered, and in which slots they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/data/sample_list.hpp>

namespace cuota::inline v0::detail {

/// An epoch's batches on their way: claimed in order by workers, filled in any, copied and delivered in order again. Every
/// claimed batch is filled once, with samples or with the failure that takes its place; behind a failure nothing comes.
/// What was claimed in an epoch that is over is nobody's: it has another generation.
///
/// Threads: one at a time. Allocates nothing once it is made.
class batch_line {
public:
    /// `places`: the most batches that are claimed and not yet copied. `slots`: on the device. Each with that room.
    batch_line(std::size_t places, std::size_t slots, sample_list const& room);

    // --- epochs: open, then begun, then closed ---

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    /// There is no work yet.
    void open() noexcept;
    /// At a position, until another one, which `ends_here` may find to be too far.
    void begin(std::uint64_t position, std::uint64_t end) noexcept;
    /// What is on its way belongs to nobody now; slots that were filled or copied come home.
    void close() noexcept;

    /// Where the epoch is, counting what was delivered.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

    // --- workers ---

    struct claim {
        std::uint64_t generation;
        std::uint64_t batch;
    };

    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    [[nodiscard]] bool has_work() const noexcept { return is_open_ && !is_cut_ && claim_position_ != end_; }
    /// Where the step begins whose batch that generation claims next; nothing when it claims no more.
    [[nodiscard]] std::optional<std::uint64_t> next_step(std::uint64_t generation) const noexcept;
    /// The batch of that step, which ends there.
    [[nodiscard]] claim claim_next(std::uint64_t step_end) noexcept;
    /// There is no such batch: the epoch ends where that step would begin.
    void ends_here() noexcept { end_ = claim_position_; }
    /// Puts what became of a claimed batch in its place; the samples are swapped with others that are done with. False,
    /// and nothing is changed, when its epoch is over.
    bool fill(claim const& mine, std::optional<staging_ring::fill_lease>& filled, sample_list& samples,
              std::exception_ptr failure) noexcept;

    // --- copies ---

    /// A claimed batch: being filled, filled and waiting for its copy, or failed.
    struct pending {
        std::optional<staging_ring::fill_lease> filled{};
        sample_list samples{};
        std::uint64_t end = 0;  // where its step ends
        std::exception_ptr failure{};
    };
    /// To the slot that was given back first: what still computes on the last one need not be waited for.
    struct copy_job {
        pending* from;
        std::uint32_t to;
    };

    /// The next batch in line and its slot, when both are there; it ends by `copied` or `fail`.
    [[nodiscard]] std::optional<copy_job> next_copy() noexcept;
    void copied() noexcept;
    [[nodiscard]] bool has_failed() const noexcept { return failure_ != nullptr; }
    /// The next batch in line is this failure.
    void fail(std::exception_ptr why) noexcept { failure_ = std::move(why); }

    // --- the consumer ---

    /// All batches were delivered.
    [[nodiscard]] bool is_over() const noexcept { return position_ == end_; }
    [[nodiscard]] bool has_ready() const noexcept { return !ready_.empty(); }
    /// What stands in the place of the batch to be delivered next, or null.
    [[nodiscard]] std::exception_ptr failure_here() const noexcept;
    /// Batches that were delivered and still live hold every slot.
    [[nodiscard]] bool all_slots_held() const noexcept { return ready_.empty() && free_slots_.empty(); }

    /// Batches that were delivered and still live, of an epoch that is over too.
    [[nodiscard]] std::size_t held() const noexcept { return slots_ - free_slots_.size() - ready_.size(); }

    struct delivery {
        std::uint32_t slot;
        std::uint64_t index;  // of the batch in its epoch
    };
    [[nodiscard]] delivery deliver() noexcept;
    void give_back(std::uint32_t slot) noexcept { free_slots_.push_back(slot); }

private:
    [[nodiscard]] pending& pending_of(std::uint64_t batch) noexcept;

    std::size_t const slots_;
    bool is_open_ = false;
    std::uint64_t generation_ = 0;
    std::uint64_t claimed_ = 0;         // batches given to workers
    std::uint64_t copied_ = 0;          // batches whose copy is enqueued
    std::uint64_t delivered_ = 0;       // batches given to the consumer
    std::uint64_t claim_position_ = 0;  // where the next step begins that is claimed
    std::uint64_t position_ = 0;        // where the last one ended that was delivered
    std::uint64_t end_ = 0;             // of the epoch
    bool is_cut_ = false;               // by a failure: nothing is claimed any more
    dynamic_array<pending> pending_;
    std::vector<std::uint32_t> free_slots_;  // longest free first
    struct arrived {
        std::uint32_t slot;
        std::uint64_t end;  // where its step ends
    };
    dynamic_array<arrived> ready_;  // copied and not yet delivered, in order
    std::exception_ptr failure_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE batch_line::batch_line(std::size_t places, std::size_t slots, sample_list const& room)
    : slots_{slots}, pending_(places) {
    for (pending& p : pending_) p.samples = room;
    free_slots_.reserve(slots);
    ready_.reserve(slots);
    for (std::uint32_t i = 0; i != slots; ++i) free_slots_.push_back(i);
}

CUOTA_INLINE void batch_line::open() noexcept {
    is_open_ = true;
    claimed_ = copied_ = 0;
    claim_position_ = end_ = 0;
}

CUOTA_INLINE void batch_line::begin(std::uint64_t position, std::uint64_t end) noexcept {
    ++generation_;
    delivered_ = 0;
    claim_position_ = position_ = position;
    end_ = end;
    is_cut_ = false;
    failure_ = nullptr;
    for (pending& p : pending_) p.failure = nullptr;
}

CUOTA_INLINE void batch_line::close() noexcept {
    is_open_ = false;
    ++generation_;
    for (pending& p : pending_) p.filled.reset();
    for (arrived const& a : ready_) free_slots_.push_back(a.slot);
    ready_.clear();
}

CUOTA_INLINE std::optional<std::uint64_t> batch_line::next_step(std::uint64_t generation) const noexcept {
    if (generation != generation_ || !has_work()) return std::nullopt;
    return claim_position_;
}

CUOTA_INLINE auto batch_line::claim_next(std::uint64_t step_end) noexcept -> claim {
    claim_position_ = step_end;
    pending_of(claimed_).end = step_end;
    return {generation_, claimed_++};
}

CUOTA_INLINE bool batch_line::fill(claim const& mine, std::optional<staging_ring::fill_lease>& filled,
                                   sample_list& samples, std::exception_ptr failure) noexcept {
    if (mine.generation != generation_) return false;
    if (failure) is_cut_ = true;  // what comes after it is of no use
    pending& place = pending_of(mine.batch);
    place.filled = std::exchange(filled, std::nullopt);
    place.failure = std::move(failure);
    std::swap(place.samples, samples);
    return true;
}

CUOTA_INLINE auto batch_line::next_copy() noexcept -> std::optional<copy_job> {
    if (!is_open_ || failure_ || copied_ == claimed_) return std::nullopt;
    pending& next = pending_of(copied_);
    if (next.failure) {
        next.filled.reset();
        fail(std::exchange(next.failure, nullptr));
        return std::nullopt;
    }
    if (!next.filled || free_slots_.empty()) return std::nullopt;
    return copy_job{&next, free_slots_.front()};
}

CUOTA_INLINE void batch_line::copied() noexcept {
    ready_.push_back({free_slots_.front(), pending_of(copied_).end});
    free_slots_.erase(free_slots_.begin());
    ++copied_;
}

CUOTA_INLINE std::exception_ptr batch_line::failure_here() const noexcept {
    return delivered_ == copied_ ? failure_ : nullptr;
}

CUOTA_INLINE auto batch_line::deliver() noexcept -> delivery {
    auto const [slot, end] = ready_.front();
    ready_.erase(ready_.begin());
    position_ = end;
    return {slot, delivered_++};
}

CUOTA_INLINE auto batch_line::pending_of(std::uint64_t batch) noexcept -> pending& {
    return pending_[static_cast<std::size_t>(batch % pending_.size())];
}

}  // namespace cuota::inline v0::detail

#endif
