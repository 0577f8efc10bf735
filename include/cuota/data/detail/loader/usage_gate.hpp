// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Use count of memory that may be freed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/guard/detail/reclaim.hpp>

namespace cuota::inline v0::detail {

/// Counts the uses of memory, and allows one thread at a time to free it while unused.
///
/// The memory is freed, then its bytes are refunded. The refund may call an alert of the program that starts a use, so a thread that is
/// itself reclaiming waits for the first step only.
/// Without brief uses, a request would be refused while a worker looks for a batch; without the refunding step, an epoch that starts before
/// the refund would be charged in addition to the freed bytes.
/// Threads: any.
class usage_gate {
public:
    /// Starts a use until `drop`, possibly the first; waits for a release by another thread.
    void start() noexcept;
    /// Requires an existing use.
    void add() noexcept;
    void drop() noexcept;

    /// Starts a brief use, for which try_give waits: it calls no function of the program. Requires an existing use, as does keep_brief,
    /// which makes it ordinary.
    void add_brief() noexcept;
    void drop_brief() noexcept;
    void keep_brief() noexcept;
    void make_brief() noexcept;

    /// Waits for a release by another thread.
    [[nodiscard]] bool is_idle() const noexcept;

    /// Waits for brief uses to end; returns false if other uses exist. After true, the caller has exclusive access until `freed`, and no
    /// other thread releases the memory until `refunded`. The releasing thread must not call it again.
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

CUOTA_INLINE void usage_gate::start() noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    bool const may_wait = !reclaiming::is_on();
    changed_.wait(lock, [&] { return now_ == nobody_gives || (now_ == refunding && !may_wait); });
    ++uses_;
}

CUOTA_INLINE void usage_gate::add() noexcept {
    region_lock const lock{guard_};
    ++uses_;
}

CUOTA_INLINE void usage_gate::drop() noexcept {
    region_lock const lock{guard_};
    --uses_;
}

CUOTA_INLINE void usage_gate::add_brief() noexcept {
    region_lock const lock{guard_};
    ++brief_;
}

CUOTA_INLINE void usage_gate::drop_brief() noexcept {
    {
        region_lock const lock{guard_};
        --brief_;
    }
    changed_.notify_all();
}

CUOTA_INLINE void usage_gate::keep_brief() noexcept {
    region_lock const lock{guard_};
    --brief_;
    ++uses_;
}

CUOTA_INLINE void usage_gate::make_brief() noexcept {
    region_lock const lock{guard_};
    --uses_;
    ++brief_;
}

CUOTA_INLINE bool usage_gate::is_idle() const noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    if (!reclaiming::is_on()) changed_.wait(lock, [this] { return uses_ != 0 || now_ == nobody_gives; });
    return uses_ == 0 && now_ != freeing;
}

CUOTA_INLINE bool usage_gate::try_give() noexcept {
    std::unique_lock<std::mutex> lock{guard_};
    changed_.wait(lock, [this] { return uses_ != 0 || (now_ == nobody_gives && brief_ == 0); });
    if (uses_ != 0) return false;
    now_ = freeing;
    return true;
}

CUOTA_INLINE void usage_gate::go_on_to(step next) noexcept {
    {
        region_lock const lock{guard_};
        now_ = next;
    }
    changed_.notify_all();
}

}  // namespace cuota::inline v0::detail

#endif
