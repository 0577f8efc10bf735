// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pinned slots that go round: filled by the host, copied to the device, filled again only when the copy is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// What a ring of pinned slots is made of when the driver cannot lock them.
enum class pin_failure {
    refuse,       ///< nothing: what the memory throws
    use_pageable  ///< ordinary memory: each copy holds up its caller until the bytes have left the slot
};

/// Who writes a ring's slots.
enum class ring_filler {
    host,   ///< this program's code: memory that it can reach
    device  ///< the device by itself, from a file for instance: its own memory will do, and copies stay on it
};

namespace detail {
class ring_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class shared<detail::ring_state>;
#endif

/// A fixed number of pinned slots, taken once, that carry data to the device over and over.
///
/// The type is the state: `acquire` gives a fill_lease, whose bytes the host may write; `submit` consumes it,
/// enqueues the copy and gives an in_flight, through which the bytes can no longer be reached; the slot is given out
/// again only when that copy is over. So a slot cannot be refilled under a copy, and a copy's source cannot die.
///
/// Units:   bytes. The memory is slots * slot_bytes, exactly, charged when the ring is made.
/// Order:   submit to streams of one device, the first one's: a stream of another is a misuse that names both devices.
/// Threads: any.
/// Throws:  on construction budget_exceeded, out_of_memory, misuse (no slots, or memory that who fills them cannot reach).
/// Cost:    page-locking on construction, about 0.5 s per GiB; then for each slot a lock, a copy and an event; nothing is
///          allocated once each slot has its event. The end waits for copies under way.
/// Example:
///     cuota::staging_ring ring{2, 1_MiB, host_budget};
///     auto slot = ring.acquire();                                          // waits for the slot's last copy
///     std::size_t const bytes = read_some(slot.bytes());
///     std::move(slot).submit(stream, target.span(), bytes).order_before(other);  // target: a lease on bytes
class staging_ring {
public:
    class in_flight;

    /// A slot that belongs to the host for now. Returns to the ring unused unless it is submitted. Move-only.
    class fill_lease {
    public:
        /// The other one has no slot then.
        fill_lease(fill_lease&& other) noexcept : ring_{std::move(other.ring_)}, slot_{other.slot_} {}
        /// Returns its own slot first.
        fill_lease& operator=(fill_lease&& other) noexcept;
        ~fill_lease();

        /// The slot's bytes, to be written: by the host, unless the ring was made for ring_filler::device. Empty once it was
        /// submitted or moved from.
        [[nodiscard]] std::span<std::byte> bytes() const noexcept;

        /// Copies the first `bytes` bytes to the device, in order of s. The host goes on.
        /// Throws: misuse when the bytes do not fit the slot or the target, and for a stream of another device; cuda_error. The slot is
        /// free again after a throw.
        [[nodiscard]] in_flight submit(stream_ref s, device_span<std::byte> to, std::size_t bytes,
                                       place where = place::here()) &&;

    private:
        friend class staging_ring;
        fill_lease(shared<detail::ring_state> ring, std::uint32_t slot) noexcept
            : ring_{std::move(ring)}, slot_{slot} {}
        shared<detail::ring_state> ring_;
        std::uint32_t slot_;
    };

    /// A copy under way. Says when it is over; does not need to be kept. Copies are free.
    class in_flight {
    public:
        /// The same copy; its move is a copy, so one that was moved from is still valid.
        in_flight(in_flight const&) noexcept = default;
        in_flight& operator=(in_flight const&) noexcept = default;  ///< the same copy as other
        ~in_flight() = default;

        /// Work enqueued on s later starts after this copy. Throws: cuda_error.
        void order_before(stream_ref s) const;
        /// Whether the copy is over; no wait. Throws: cuda_error, also of the copy.
        [[nodiscard]] bool is_done() const;
        /// Waits on the host until it is. Throws: cuda_error, also of the copy.
        void synchronize() const;

    private:
        friend class fill_lease;
        in_flight(shared<detail::ring_state> ring, std::uint32_t slot, std::uint64_t copy) noexcept
            : ring_{std::move(ring)}, slot_{slot}, copy_{copy} {}
        shared<detail::ring_state> ring_;
        std::uint32_t slot_;
        std::uint64_t copy_;
    };

    /// `slots` slots of `slot_bytes` bytes each, taken in one piece from memory that the host can reach.
    staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory = any_pinned_memory(),
                 tag name = {}, place where = place::here());
    /// With a label of the caller's, for messages in the caller's units; and with ordinary memory, if that is asked for,
    /// where the memory has not enough: what it threw is reported then. What a budget refuses is refused in any case.
    staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory, label const& who,
                 pin_failure otherwise = pin_failure::refuse, ring_filler filled_by = ring_filler::host);
    /// Charged to a budget for host memory.
    staging_ring(std::size_t slots, std::size_t slot_bytes, budget const& account, tag name = {},
                 place where = place::here());
    /// The same ring; its move is a copy, so a handle that was moved from is still valid.
    staging_ring(staging_ring const&) noexcept = default;
    staging_ring& operator=(staging_ring const&) noexcept = default;  ///< the same ring as other
    ~staging_ring() = default;

    /// A slot to fill; waits on the host until one is free and its last copy is over, asleep (host_wait::blocking). With every slot leased to the
    /// caller itself this waits for ever: `try_acquire` does not. Throws: cuda_error, also of the copy.
    [[nodiscard]] fill_lease acquire();
    /// As acquire; nothing when stop was requested first.
    [[nodiscard]] std::optional<fill_lease> acquire(stop_signal stop);
    /// A slot that is free at this moment, or nothing. Throws: cuda_error.
    [[nodiscard]] std::optional<fill_lease> try_acquire();

    [[nodiscard]] std::size_t slots() const noexcept;       ///< count
    [[nodiscard]] std::size_t slot_bytes() const noexcept;  ///< of each
    [[nodiscard]] std::size_t bytes() const noexcept;       ///< slots * slot_bytes
    /// False when the slots are ordinary memory (pin_failure::use_pageable).
    [[nodiscard]] bool is_pinned() const noexcept;

private:
    shared<detail::ring_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <string>

#include <cuota/buffer/ring_state.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

#if CUOTA_SEPARATE
template class shared<detail::ring_state>;
#endif

CUOTA_INLINE auto staging_ring::fill_lease::operator=(fill_lease&& other) noexcept -> fill_lease& {
    if (this != &other) {
        if (ring_) ring_->put_back(slot_);
        ring_ = std::move(other.ring_);
        slot_ = other.slot_;
    }
    return *this;
}

CUOTA_INLINE staging_ring::fill_lease::~fill_lease() {
    if (ring_) ring_->put_back(slot_);
}

CUOTA_INLINE std::span<std::byte> staging_ring::fill_lease::bytes() const noexcept {
    return ring_ ? ring_->bytes_of_slot(slot_) : std::span<std::byte>{};
}

CUOTA_INLINE void staging_ring::in_flight::order_before(stream_ref s) const {
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
                                        tag name, place where)
    : staging_ring{slots, slot_bytes, std::move(memory), label{name, where}} {}

CUOTA_INLINE staging_ring::staging_ring(std::size_t slots, std::size_t slot_bytes, any_resource memory,
                                        label const& who, pin_failure otherwise, ring_filler filled_by)
    : state_{shared<detail::ring_state>::make(slots, slot_bytes, std::move(memory), who, otherwise,
                                              filled_by)} {}

CUOTA_INLINE staging_ring::staging_ring(std::size_t slots, std::size_t slot_bytes, budget const& account,
                                        tag name, place where)
    : staging_ring{slots, slot_bytes, budgeted<pinned_memory>{account}, name, where} {}

CUOTA_INLINE auto staging_ring::acquire() -> fill_lease { return fill_lease{state_, *state_->acquire({})}; }

CUOTA_INLINE auto staging_ring::acquire(stop_signal stop) -> std::optional<fill_lease> {
    auto const slot = state_->acquire(stop.token());
    if (!slot) return std::nullopt;
    return fill_lease{state_, *slot};
}

CUOTA_INLINE auto staging_ring::try_acquire() -> std::optional<fill_lease> {
    auto const slot = state_->try_acquire();
    if (!slot) return std::nullopt;
    return fill_lease{state_, *slot};
}

CUOTA_INLINE std::size_t staging_ring::slots() const noexcept { return state_->slots(); }

CUOTA_INLINE std::size_t staging_ring::slot_bytes() const noexcept { return state_->slot_bytes(); }

CUOTA_INLINE std::size_t staging_ring::bytes() const noexcept { return state_->bytes(); }

CUOTA_INLINE bool staging_ring::is_pinned() const noexcept { return state_->is_pinned(); }

CUOTA_INLINE staging_ring::in_flight staging_ring::fill_lease::submit(stream_ref s, device_span<std::byte> to,
                                                                      std::size_t bytes, place where) && {
    fill_lease const mine = std::move(*this);  // back in the ring at the end, behind its copy or without one
    if (!mine.ring_)
        detail::throw_misuse(where, "a fill_lease was submitted after it was submitted or moved from");
    if (bytes > mine.bytes().size() || bytes > to.size())
        detail::throw_misuse(
            where, "a copy of {} from a slot of {} to a target of {}",
            {detail::as_bytes(bytes), detail::as_bytes(mine.bytes().size()), detail::as_bytes(to.size())});
    std::uint64_t const copy = mine.ring_->copy(mine.slot_, to.data(), bytes, s, where);
    return {mine.ring_, mine.slot_, copy};
}

}  // namespace cuota::inline v0

#endif
