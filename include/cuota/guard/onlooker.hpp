// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who is told of each change of a budget, and how that is delivered once no lock is held. For guard/ledger_node.hpp.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// What a node is at one instant, for those who look on. Bytes.
struct sight {
    std::size_t held;
    std::size_t limit;
    std::size_t peak;
    label const* who;  // charged; null for a refund, and when nobody said
};

/// Somebody who is told of each change of what a node holds, and of its limit: a watch.
class onlooker {
public:
    virtual ~onlooker() = default;

    /// Under the tree's lock. True when deliver() is to be called for it, and nobody else is about to.
    [[nodiscard]] virtual bool note(sight const& now) noexcept = 0;
    /// Outside the lock, after a note that was answered with true.
    virtual void deliver() noexcept = 0;

    // Under the tree's lock, but that the second is its deliverer's.
    onlooker* next_here = nullptr;
    onlooker* next_due = nullptr;
};

/// Delivers for all of the list. What comes due meanwhile on this thread is delivered by the call that is under way.
CUOTA_PROCESS_STATE void deliver(onlooker* due) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void deliver(onlooker* due) noexcept {
    static constinit thread_local onlooker** last = nullptr;
    if (last) {
        for (*last = due; *last;) last = &(*last)->next_due;
        return;
    }
    for (last = &due; *last;) last = &(*last)->next_due;
    while (due) {
        onlooker* const next = std::exchange(due, due->next_due);
        if (!due) last = &due;
        next->deliver();
    }
    last = nullptr;
}

}  // namespace cuota::inline v0::detail

#endif
