// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Ring of pinned slots for copies to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// Behavior if the memory cannot be page-locked.
enum class pin_failure_policy {
    refuse,       ///< rethrow the exception
    use_pageable  ///< use pageable memory, from which a copy blocks
};

/// Writer of the slots.
enum class staging_writer {
    host,   ///< requires host-accessible memory
    device  ///< device memory is allowed, and copies stay there
};

namespace detail {
class ring_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::ring_state>;
#endif

/// A fixed number of pinned slots for repeated copies to the device.
///
/// `acquire` returns a staging_slot, which the host may write; `submit` consumes it, enqueues the copy and returns an in_flight. The slot
/// is acquired again only after that copy has completed.
///
/// Units:   bytes. The memory is exactly slots * slot_bytes.
/// Order:   all submits are to streams of the first submit's device; a stream of another device is misuse.
/// Threads: any.
/// Throws:  on construction budget_exceeded, out_of_memory; usage_error for 0 slots or memory that the writer cannot access; later
///          cuda_error, also for earlier copies.
/// Cost:    page-locking on construction, about 0.5 s per GiB; then per slot a lock, a copy and an event. Destruction waits for pending
///          copies.
/// Example:
///     cuota::staging_ring ring{2, 1_MiB, host_budget};
///     auto slot = ring.acquire();                                          // waits for the slot's last copy
///     std::size_t const bytes = read_some(slot.bytes());
///     std::move(slot).submit(stream, target.span(), bytes).make_wait(other);  // target: a lease on bytes
class staging_ring {
public:
    class in_flight;

    /// A slot to write. Move-only. The destructor returns it to the ring unless submitted.
    class staging_slot {
    public:
        /// Moves the slot.
        staging_slot(staging_slot&& other) noexcept : ring_{std::move(other.ring_)}, slot_{other.slot_} {}
        /// Returns its own slot, then moves.
        staging_slot& operator=(staging_slot&& other) noexcept;
        ~staging_slot();

        /// Returns the bytes to write; empty if submitted or moved-from.
        [[nodiscard]] std::span<std::byte> bytes() const noexcept;

        /// Copies the first `bytes` bytes to the device, in the order of s.
        /// Throws: usage_error if they exceed slot or target, or for another device's stream; cuda_error. On failure, the slot is free.
        [[nodiscard]] in_flight submit(stream_ref s, device_span<std::byte> to, std::size_t bytes,
                                       source_location where = source_location::current()) &&;

    private:
        friend class staging_ring;
        staging_slot(detail::intrusive_ptr<detail::ring_state> ring, std::uint32_t slot) noexcept
            : ring_{std::move(ring)}, slot_{slot} {}
        detail::intrusive_ptr<detail::ring_state> ring_;
        std::uint32_t slot_;
    };

    /// A submitted copy; need not be kept.
    class in_flight {
    public:
        /// Refers to the same copy; a moved-from handle stays valid.
        in_flight(in_flight const&) noexcept = default;
        in_flight& operator=(in_flight const&) noexcept = default;  ///< refers to the same copy
        ~in_flight() = default;

        /// Orders later work on s after the copy.
        void make_wait(stream_ref s) const;
        /// Returns whether the copy has completed, without waiting.
        [[nodiscard]] bool is_done() const;
        /// Waits for the copy.
        void synchronize() const;

    private:
        friend class staging_slot;
        in_flight(detail::intrusive_ptr<detail::ring_state> ring, std::uint32_t slot,
                  std::uint64_t copy) noexcept
            : ring_{std::move(ring)}, slot_{slot}, copy_{copy} {}
        detail::intrusive_ptr<detail::ring_state> ring_;
        std::uint32_t slot_;
        std::uint64_t copy_;
    };

    /// Allocates the slots in host-accessible memory.
    staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory = default_pinned_resource(),
                 tag name = {}, source_location where = source_location::current());
    /// Same, with a label. With pin_failure_policy::use_pageable, out_of_memory except from a budget is reported to the error sink, and
    /// pageable memory is used.
    staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory, label const& who,
                 pin_failure_policy otherwise = pin_failure_policy::refuse,
                 staging_writer writer = staging_writer::host);
    /// Same, charged to a budget for host memory.
    staging_ring(std::size_t slots, std::size_t slot_bytes, budget const& account, tag name = {},
                 source_location where = source_location::current());
    /// Refers to the same ring; a moved-from handle stays valid.
    staging_ring(staging_ring const&) noexcept = default;
    staging_ring& operator=(staging_ring const&) noexcept = default;  ///< refers to the same ring
    ~staging_ring() = default;

    /// Waits, sleeping, until a slot is free and its last copy has completed, and returns it. Deadlocks if the caller holds all slots.
    [[nodiscard]] staging_slot acquire();
    /// Same; nullopt if stopped first.
    [[nodiscard]] std::optional<staging_slot> acquire(stop_signal stop);
    /// Returns a slot that is free now, or nullopt.
    [[nodiscard]] std::optional<staging_slot> try_acquire();

    [[nodiscard]] std::size_t slots() const noexcept;       ///< number of slots
    [[nodiscard]] std::size_t slot_bytes() const noexcept;  ///< per slot
    [[nodiscard]] std::size_t bytes() const noexcept;       ///< slots * slot_bytes
    /// Returns false for pageable memory.
    [[nodiscard]] bool is_pinned() const noexcept;

private:
    detail::intrusive_ptr<detail::ring_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <string>

#include <cuota/buffer/detail/ring_state.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::ring_state>;
#endif

CUOTA_INLINE auto staging_ring::staging_slot::operator=(staging_slot&& other) noexcept -> staging_slot& {
    if (this != &other) {
        if (ring_) ring_->put_back(slot_);
        ring_ = std::move(other.ring_);
        slot_ = other.slot_;
    }
    return *this;
}

CUOTA_INLINE staging_ring::staging_slot::~staging_slot() {
    if (ring_) ring_->put_back(slot_);
}

CUOTA_INLINE std::span<std::byte> staging_ring::staging_slot::bytes() const noexcept {
    return ring_ ? ring_->bytes_of_slot(slot_) : std::span<std::byte>{};
}

CUOTA_INLINE void staging_ring::in_flight::make_wait(stream_ref s) const {
    if (event const* const copied = ring_->copied(slot_, copy_)) s.wait(*copied);
}

CUOTA_INLINE bool staging_ring::in_flight::is_done() const {
    event const* const copied = ring_->copied(slot_, copy_);
    return !copied || copied->is_done();
}

CUOTA_INLINE void staging_ring::in_flight::synchronize() const {
    if (event const* const copied = ring_->copied(slot_, copy_)) copied->synchronize();
}

CUOTA_INLINE staging_ring::staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory,
                                        tag name, source_location where)
    : staging_ring{slots, slot_bytes, std::move(memory), label{name, where}} {}

CUOTA_INLINE staging_ring::staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory,
                                        label const& who, pin_failure_policy otherwise, staging_writer writer)
    : state_{detail::intrusive_ptr<detail::ring_state>::make(slots, slot_bytes, std::move(memory), who,
                                                             otherwise, writer)} {}

CUOTA_INLINE staging_ring::staging_ring(std::size_t slots, std::size_t slot_bytes, budget const& account,
                                        tag name, source_location where)
    : staging_ring{slots, slot_bytes, budgeted<pinned_memory>{account}, name, where} {}

CUOTA_INLINE auto staging_ring::acquire() -> staging_slot {
    return staging_slot{state_, *state_->acquire({})};
}

CUOTA_INLINE auto staging_ring::acquire(stop_signal stop) -> std::optional<staging_slot> {
    auto const slot = state_->acquire(stop.token());
    if (!slot) return std::nullopt;
    return staging_slot{state_, *slot};
}

CUOTA_INLINE auto staging_ring::try_acquire() -> std::optional<staging_slot> {
    auto const slot = state_->try_acquire();
    if (!slot) return std::nullopt;
    return staging_slot{state_, *slot};
}

CUOTA_INLINE std::size_t staging_ring::slots() const noexcept { return state_->slots(); }

CUOTA_INLINE std::size_t staging_ring::slot_bytes() const noexcept { return state_->slot_bytes(); }

CUOTA_INLINE std::size_t staging_ring::bytes() const noexcept { return state_->bytes(); }

CUOTA_INLINE bool staging_ring::is_pinned() const noexcept { return state_->is_pinned(); }

CUOTA_INLINE staging_ring::in_flight staging_ring::staging_slot::submit(stream_ref s,
                                                                        device_span<std::byte> to,
                                                                        std::size_t bytes,
                                                                        source_location where) && {
    // Its destructor returns the slot to the ring.
    staging_slot const mine = std::move(*this);
    if (!mine.ring_)
        detail::throw_usage_error(where, "staging_slot: cannot submit: already submitted or moved from");
    if (bytes > mine.bytes().size() || bytes > to.size())
        detail::throw_usage_error(
            where, "staging_slot: cannot copy {} from a slot of {} to a target of {}",
            {detail::as_bytes(bytes), detail::as_bytes(mine.bytes().size()), detail::as_bytes(to.size())});
    std::uint64_t const copy = mine.ring_->copy(mine.slot_, to.data(), bytes, s, where);
    return {mine.ring_, mine.slot_, copy};
}

}  // namespace cuota::inline v0

#endif
