// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Biased ownership: an object belongs to one thread until another thread revokes it.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>

namespace cuota::inline v0::detail {

/// Base of objects that one thread, the owner, uses without a lock, and that others may revoke under one. docs/design/thread_caches.md has
/// the protocol.
class biased_ownership {
public:
    /// Whether to start a new ownership: false for a number of calls after revocations that came too early for it to pay.
    [[nodiscard]] bool should_bias() noexcept;
    void begin_bias(thread_slot& me) noexcept;
    void close() noexcept { owner_.store(nullptr, std::memory_order_seq_cst); }
    /// Records a revocation by another thread. After 2048 or more sections, of any object, the owner may own it again at once; otherwise
    /// the backoff doubles.
    void note_revocation() noexcept;

    /// Requires the lock.
    [[nodiscard]] thread_slot const* holder() const noexcept { return holder_; }
    /// Call it as the owner or under the lock.
    [[nodiscard]] bool is_of(thread_slot const& who) const noexcept;

protected:
    /// Call it in a section of `me`.
    [[nodiscard]] bool is_mine(thread_slot const& me) const noexcept;
    /// Validates an optimistic read: true if `me` owns the object now, and thus during the read, because only the owner can start its
    /// ownership.
    [[nodiscard]] bool was_mine(thread_slot const& me) const noexcept;

private:
    atomic<thread_slot const*> owner_ = nullptr;
    thread_slot const* holder_ = nullptr;
    std::uint32_t began_at_ = 0;  // `sections` of the owner at the start of its ownership, modulo 2^32
    std::uint16_t penalty_ = 0;
    std::uint16_t cooldown_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool biased_ownership::should_bias() noexcept {
    if (cooldown_ == 0) return true;
    --cooldown_;
    return false;
}

CUOTA_INLINE void biased_ownership::begin_bias(thread_slot& me) noexcept {
    holder_ = &me;
    began_at_ = static_cast<std::uint32_t>(me.sections.load(std::memory_order_relaxed));
    owner_.store(&me, std::memory_order_relaxed);
}

CUOTA_INLINE void biased_ownership::note_revocation() noexcept {
    constexpr std::uint32_t well = 4096;
    constexpr int at_most = 1023;
    auto const now = static_cast<std::uint32_t>(holder_->sections.load(std::memory_order_relaxed));
    bool const paid = now - began_at_ >= well;
    penalty_ = static_cast<std::uint16_t>(paid ? 0 : std::min(2 * penalty_ + 1, at_most));
    cooldown_ = penalty_;
}

CUOTA_INLINE bool biased_ownership::is_of(thread_slot const& who) const noexcept {
    return owner_.load(std::memory_order_relaxed) == &who;
}

CUOTA_INLINE bool biased_ownership::is_mine(thread_slot const& me) const noexcept {
    return owner_.load(std::memory_order_seq_cst) == &me;
}

CUOTA_INLINE bool biased_ownership::was_mine(thread_slot const& me) const noexcept {
    return owner_.load(std::memory_order_acquire) == &me;
}

}  // namespace cuota::inline v0::detail

#endif
