// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who uses something now, so that it can be given back while nobody does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include <cuota/core/config.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/guard/pressure.hpp>

namespace cuota::inline v0::detail {

/// Counts uses, and lets one thread at a time give back while there are none.
///
/// Giving back takes two steps: what is given is freed, then refunded. The second may run a program's code (a watch),
/// which may well start a use: so who is called while this thread gives back waits for the first step only.
/// Nobody gives back while there are uses, so that a first use and a giving back wait for each other, and no more.
/// Threads: any.
class use_count {
public:
    /// A use that need not be the first: waits for a giving back that is under way. Ends with drop.
    void start() noexcept;
    /// One more, while there is one.
    void add() noexcept;
    void drop() noexcept;

    /// A use that is over soon and runs no code of a program's, so that a giving back waits for it. While there is
    /// a use; ends with drop_brief, or, if there still is a use, becomes one that lasts.
    void add_brief() noexcept;
    void drop_brief() noexcept;
    void keep_brief() noexcept;

    /// True when it could be given back now. Waits for a giving back that is under way.
    [[nodiscard]] bool is_idle() const noexcept;

    /// As is_idle, when brief uses are over; then the caller alone has it until `freed`, and nobody else gives back
    /// until `refunded`. Not for who is giving back already.
    [[nodiscard]] bool try_give() noexcept;
    /// From here on it may be used again.
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
