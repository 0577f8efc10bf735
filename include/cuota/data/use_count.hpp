// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Usage gate of a loader's memory, which may be freed while it has no uses.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include <cuota/core/config.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/guard/pressure.hpp>

namespace cuota::inline v0::detail {

/// Counts the uses of memory, and lets one thread at a time free it while there are none.
///
/// Memory is released in two steps: it is freed, then its bytes are refunded. The refund may call a watch of the program, which may start a
/// use. Therefore a thread that is itself reclaiming waits for the first step only.
/// Two features are optional in principle, but tests show their benefit. Without brief uses, a request would be refused although the memory
/// is idle, if a worker happens to look for a batch. Without the refunding step, an epoch that starts between the free and the refund would
/// be charged in addition to the bytes about to be refunded, and refused.
/// Threads: any.
class use_count {
public:
    /// Starts a use, possibly the first; waits while another thread releases the memory. End it with drop.
    void start() noexcept;
    /// Starts a use; requires an existing one. End it with drop.
    void add() noexcept;
    void drop() noexcept;

    /// Starts a brief use, during which no function of the program is called, so that try_give waits for its end. Requires an existing use.
    /// End it with drop_brief, or convert it into an ordinary use with keep_brief, which requires another use.
    void add_brief() noexcept;
    void drop_brief() noexcept;
    void keep_brief() noexcept;

    /// Returns whether try_give would succeed now. Waits while another thread releases the memory.
    [[nodiscard]] bool is_idle() const noexcept;

    /// Waits for brief uses to end; returns false if other uses exist. After true, the caller has exclusive access to the memory until it
    /// calls `freed`, and no other thread releases it until `refunded`. A thread that is already releasing it must not call this.
    [[nodiscard]] bool try_give() noexcept;
    /// Allows uses again.
    void freed() noexcept { go_on_to(refunding); }
    void refunded() noexcept { go_on_to(nobody_gives); }

private:
    enum step { nobody_gives, freeing, refunding };

    void go_on_to(step next) noexcept;

    mutable object_lock guard_;
    mutable std::condition_variable changed_;
    std::size_t uses_ = 0;
    std::size_t brief_ = 0;
    step now_ = nobody_gives;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE void use_count::start() noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    bool const may_wait = !reclaiming::is_on();
    changed_.wait(lock, [&] { return now_ == nobody_gives || (now_ == refunding && !may_wait); });
    ++uses_;
}

CUOTA_INLINE void use_count::add() noexcept {
    region_lock const lock{guard_};
    ++uses_;
}

CUOTA_INLINE void use_count::drop() noexcept {
    region_lock const lock{guard_};
    --uses_;
}

CUOTA_INLINE void use_count::add_brief() noexcept {
    region_lock const lock{guard_};
    ++brief_;
}

CUOTA_INLINE void use_count::drop_brief() noexcept {
    {
        region_lock const lock{guard_};
        --brief_;
    }
    changed_.notify_all();
}

CUOTA_INLINE void use_count::keep_brief() noexcept {
    region_lock const lock{guard_};
    --brief_;
    ++uses_;
}

CUOTA_INLINE bool use_count::is_idle() const noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    if (!reclaiming::is_on()) changed_.wait(lock, [this] { return uses_ != 0 || now_ == nobody_gives; });
    return uses_ == 0 && now_ != freeing;
}

CUOTA_INLINE bool use_count::try_give() noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    changed_.wait(lock, [this] { return uses_ != 0 || (now_ == nobody_gives && brief_ == 0); });
    if (uses_ != 0) return false;
    now_ = freeing;
    return true;
}

CUOTA_INLINE void use_count::go_on_to(step next) noexcept {
    {
        region_lock const lock{guard_};
        now_ = next;
    }
    changed_.notify_all();
}

}  // namespace cuota::inline v0::detail

#endif
