// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reorder queue of a loader: docs/design/loader.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>

namespace cuota::inline v0::detail {

/// Batches in flight: claimed in order, filled in any order, copied and delivered in order. Every claimed batch is filled once, with
/// samples or a failure; no batch follows a failure. A claim from an ended epoch is recognized by its generation.
/// Threads: one at a time. Allocates only on construction.
class batch_reorder_queue {
public:
    /// `places`: for batches claimed and not copied. `room`: a list with capacity.
    batch_reorder_queue(std::size_t places, std::size_t slots, sample_list const& room);

    // --- epochs: open, then begun, then closed ---

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    void open() noexcept;
    /// Starts at `position`, up to `end`, which ends_here() may lower.
    void begin(std::uint64_t position, std::uint64_t end) noexcept;
    /// Invalidates all claims; frees filled and copied slots.
    void close() noexcept;

    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

    // --- workers ---

    struct claim {
        std::uint64_t generation;
        std::uint64_t batch;
    };

    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    [[nodiscard]] bool has_work() const noexcept { return is_open_ && !is_cut_ && claim_position_ != end_; }
    /// Returns the start of the next step to claim; nullopt if that generation has none.
    [[nodiscard]] std::optional<std::uint64_t> next_step(std::uint64_t generation) const noexcept;
    [[nodiscard]] claim claim_next(std::uint64_t step_end) noexcept;
    void ends_here() noexcept { end_ = claim_position_; }
    /// Stores the result of a claimed batch, and swaps its samples with an unused list. Returns false, changing nothing, if the claim's
    /// epoch has ended.
    bool fill(claim const& mine, std::optional<staging_ring::staging_slot>& filled, sample_list& samples,
              std::exception_ptr failure) noexcept;

    // --- copies ---

    struct pending {
        std::optional<staging_ring::staging_slot> filled{};
        sample_list samples{};
        std::uint64_t end = 0;  // end of its step
        std::exception_ptr failure{};
    };
    /// A copy to the slot that has been free longest, because recent readers would delay it.
    struct copy_job {
        pending* from;
        std::uint32_t to;
    };

    /// Returns the next batch in order if it and a slot are available; `copied` or `fail` must follow.
    [[nodiscard]] std::optional<copy_job> next_copy() noexcept;
    void copied() noexcept;
    [[nodiscard]] bool has_failed() const noexcept { return failure_ != nullptr; }
    void fail(std::exception_ptr why) noexcept { failure_ = std::move(why); }

    // --- the consumer ---

    [[nodiscard]] bool is_over() const noexcept { return position_ == end_; }
    [[nodiscard]] bool has_ready() const noexcept { return !ready_.empty(); }
    /// Returns the failure that replaces the next delivery, or null.
    [[nodiscard]] std::exception_ptr failure_here() const noexcept;
    [[nodiscard]] bool all_slots_held() const noexcept { return ready_.empty() && free_slots_.empty(); }

    /// Counts live batches, of any epoch.
    [[nodiscard]] std::size_t held() const noexcept { return slots_ - free_slots_.size() - ready_.size(); }

    struct delivery {
        std::uint32_t slot;
        std::uint64_t index;  // in the epoch
    };
    [[nodiscard]] delivery deliver() noexcept;
    void give_back(std::uint32_t slot) noexcept { free_slots_.push_back(slot); }

private:
    [[nodiscard]] pending& pending_of(std::uint64_t batch) noexcept;

    std::size_t const slots_;
    bool is_open_ = false;
    std::uint64_t generation_ = 0;
    std::uint64_t claimed_ = 0;
    std::uint64_t copied_ = 0;
    std::uint64_t delivered_ = 0;
    std::uint64_t claim_position_ = 0;  // of the next step to claim
    std::uint64_t position_ = 0;        // end of the last delivered step
    std::uint64_t end_ = 0;             // of the epoch
    bool is_cut_ = false;               // after a failure
    dynamic_array<pending> pending_;
    std::vector<std::uint32_t> free_slots_;  // front: free longest
    struct arrived {
        std::uint32_t slot;
        std::uint64_t end;  // end of its step
    };
    dynamic_array<arrived> ready_;  // not delivered, in order
    std::exception_ptr failure_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE batch_reorder_queue::batch_reorder_queue(std::size_t places, std::size_t slots,
                                                      sample_list const& room)
    : slots_{slots}, pending_(places) {
    for (pending& p : pending_) p.samples = room;
    free_slots_.reserve(slots);
    ready_.reserve(slots);
    for (std::uint32_t i = 0; i != slots; ++i) free_slots_.push_back(i);
}

CUOTA_INLINE void batch_reorder_queue::open() noexcept {
    is_open_ = true;
    claimed_ = copied_ = 0;
    claim_position_ = end_ = 0;
}

CUOTA_INLINE void batch_reorder_queue::begin(std::uint64_t position, std::uint64_t end) noexcept {
    ++generation_;
    delivered_ = 0;
    claim_position_ = position_ = position;
    end_ = end;
    is_cut_ = false;
    failure_ = nullptr;
    for (pending& p : pending_) p.failure = nullptr;
}

CUOTA_INLINE void batch_reorder_queue::close() noexcept {
    is_open_ = false;
    ++generation_;
    for (pending& p : pending_) p.filled.reset();
    for (arrived const& a : ready_) free_slots_.push_back(a.slot);
    ready_.clear();
}

CUOTA_INLINE std::optional<std::uint64_t> batch_reorder_queue::next_step(
    std::uint64_t generation) const noexcept {
    if (generation != generation_ || !has_work()) return std::nullopt;
    return claim_position_;
}

CUOTA_INLINE auto batch_reorder_queue::claim_next(std::uint64_t step_end) noexcept -> claim {
    claim_position_ = step_end;
    pending_of(claimed_).end = step_end;
    return {generation_, claimed_++};
}

CUOTA_INLINE bool batch_reorder_queue::fill(claim const& mine,
                                            std::optional<staging_ring::staging_slot>& filled,
                                            sample_list& samples, std::exception_ptr failure) noexcept {
    if (mine.generation != generation_) return false;
    if (failure) is_cut_ = true;
    pending& place = pending_of(mine.batch);
    place.filled = std::exchange(filled, std::nullopt);
    place.failure = std::move(failure);
    std::swap(place.samples, samples);
    return true;
}

CUOTA_INLINE auto batch_reorder_queue::next_copy() noexcept -> std::optional<copy_job> {
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

CUOTA_INLINE void batch_reorder_queue::copied() noexcept {
    ready_.push_back({free_slots_.front(), pending_of(copied_).end});
    free_slots_.erase(free_slots_.begin());
    ++copied_;
}

CUOTA_INLINE std::exception_ptr batch_reorder_queue::failure_here() const noexcept {
    return delivered_ == copied_ ? failure_ : nullptr;
}

CUOTA_INLINE auto batch_reorder_queue::deliver() noexcept -> delivery {
    auto const [slot, end] = ready_.front();
    ready_.erase(ready_.begin());
    position_ = end;
    return {slot, delivered_++};
}

CUOTA_INLINE auto batch_reorder_queue::pending_of(std::uint64_t batch) noexcept -> pending& {
    return pending_[batch % pending_.size()];
}

}  // namespace cuota::inline v0::detail

#endif
