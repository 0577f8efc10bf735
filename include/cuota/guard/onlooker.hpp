// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Observer of a budget's changes, called once no lock is held.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// State of a node at one instant. Bytes.
struct sight {
    std::size_t held;
    std::size_t limit;
    std::size_t peak;
    label const* who;  // label of the charge; null for a refund or an unlabelled charge
};

/// Is notified of changes of a node's held bytes and limit: a watch.
class onlooker {
public:
    virtual ~onlooker() = default;

    /// Called under the tree's lock. Returns true if deliver() must be called and no call is pending.
    [[nodiscard]] virtual bool note(sight const& now) noexcept = 0;
    /// Called without the lock.
    virtual void deliver() noexcept = 0;

    // Links: protected by the tree's lock; the second then belongs to the delivering thread.
    onlooker* next_here = nullptr;
    onlooker* next_due = nullptr;
};

/// Delivers to the whole list. Entries that become due on this thread meanwhile are delivered by the outermost call.
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
