// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Counts the uses of a loader's memory, which may be freed while there are none.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include <cuota/core/config.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/guard/pressure.hpp>

namespace cuota::inline v0::detail {

/// Counts uses of memory, and lets one thread at a time free it while there are none.
///
/// Memory is given back in two steps: it is freed, then its bytes are refunded. The refund may call a watch of the program, which may start
/// a use: a thread that gives back waits for the first step only.
/// Each of two parts could go, at a price that a test shows. Without brief uses a request would be refused although the memory is idle,
/// whenever a worker looks for a batch at that moment. Without the step of refunding, an epoch that starts between the free and the refund
/// would be charged beside the bytes that are about to be refunded, and refused for them.
/// Threads: any.
class use_count {
public:
    /// Starts a use, which may be the first: waits while another thread gives the memory back. Ends with drop.
    void start() noexcept;
    /// Starts another use while there is one. Ends with drop.
    void add() noexcept;
    void drop() noexcept;

    /// Starts a use that ends soon and calls no function of the program, so that try_give waits for its end. Call it while there is a
    /// use. Ends with drop_brief, or with keep_brief, which makes it an ordinary use; call that while there is another.
    void add_brief() noexcept;
    void drop_brief() noexcept;
    void keep_brief() noexcept;

    /// Returns true when try_give would succeed now. Waits while another thread gives the memory back.
    [[nodiscard]] bool is_idle() const noexcept;

    /// Waits for the end of brief uses, and returns false when there are other uses. After true the caller alone has the memory until it
    /// calls `freed`, and no other thread gives it back until `refunded`. Not for a thread that is giving it back already.
    [[nodiscard]] bool try_give() noexcept;
    /// From here on the memory may be used again.
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
