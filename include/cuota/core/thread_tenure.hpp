// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What is one thread's own until it is called in: how the two see each other, and whether it pays.
#pragma once

#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/thread_record.hpp>

namespace cuota::inline v0::detail {

/// A base for what one thread, its owner, may use without a lock, and others may call in under one.
///
/// Owner:     enters a section, then asks `is_mine` and uses the thing only if it is.
/// Collector: everything else, under the lock; it ends the tenure, fences (`heavy_fence`, where fences are asymmetric),
///            and waits by `see_section_end` for the owner's section, before it looks. The owner under the lock is a
///            collector who need not wait.
class thread_tenure {
public:
    /// False while it has to be called in so often that owning it does not pay.
    [[nodiscard]] bool pays() noexcept;
    void begin_tenure(thread_record& me) noexcept;
    void close() noexcept { owner_.store(nullptr, std::memory_order_seq_cst); }
    /// Called in for another thread. What has served its owner well may be his again at once.
    void note_collected() noexcept;

    /// Who had it last. Under the lock.
    [[nodiscard]] thread_record const* holder() const noexcept { return holder_; }
    /// By the owner, or under the lock.
    [[nodiscard]] bool is_of(thread_record const& who) const noexcept;

protected:
    /// In a section of `me`.
    [[nodiscard]] bool is_mine(thread_record const& me) const noexcept;
    /// After a look at what may be another's: if it is the caller's own now, it was so all the time, as only he can begin
    /// a tenure of his.
    [[nodiscard]] bool was_mine(thread_record const& me) const noexcept;

private:
    atomic<thread_record const*> owner_ = nullptr;
    thread_record const* holder_ = nullptr;
    std::uint64_t began_at_ = 0;  // in sections of the holder
    unsigned penalty_ = 0;
    unsigned cooldown_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool thread_tenure::pays() noexcept {
    if (cooldown_ == 0) return true;
    --cooldown_;
    return false;
}

CUOTA_INLINE void thread_tenure::begin_tenure(thread_record& me) noexcept {
    holder_ = &me;
    began_at_ = me.sections.load(std::memory_order_relaxed);
    owner_.store(&me, std::memory_order_relaxed);
}

CUOTA_INLINE void thread_tenure::note_collected() noexcept {
    constexpr std::uint64_t well = 4096;
    constexpr unsigned at_most = 1023;
    bool const paid = holder_->sections.load(std::memory_order_relaxed) - began_at_ >= well;
    penalty_ = paid ? 0 : std::min(2 * penalty_ + 1, at_most);
    cooldown_ = penalty_;
}

CUOTA_INLINE bool thread_tenure::is_of(thread_record const& who) const noexcept {
    return owner_.load(std::memory_order_relaxed) == &who;
}

CUOTA_INLINE bool thread_tenure::is_mine(thread_record const& me) const noexcept {
    return owner_.load(std::memory_order_seq_cst) == &me;
}

CUOTA_INLINE bool thread_tenure::was_mine(thread_record const& me) const noexcept {
    return owner_.load(std::memory_order_acquire) == &me;
}

}  // namespace cuota::inline v0::detail

#endif
