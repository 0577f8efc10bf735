// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Observer of a budget's changes.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// State of a node at one instant. Bytes.
struct usage_sample {
    std::size_t held;
    std::size_t limit;
    std::size_t peak;
    label const* who;  // label of the charge; null for a refund, and for a charge without a label
};

/// Is notified of changes of a node's held bytes and limit.
class usage_observer {
public:
    virtual ~usage_observer() = default;

    /// Called under the tree's lock. Returns true if deliver() must be called and no call is pending.
    [[nodiscard]] virtual bool note(usage_sample const& now) noexcept = 0;
    /// Called without the lock.
    virtual void deliver() noexcept = 0;

    // Links: protected by the tree's lock; the second then belongs to the delivering thread.
    usage_observer* next_here = nullptr;
    usage_observer* next_due = nullptr;
};

/// Delivers to the whole list, and to entries that become due on this thread meanwhile.
CUOTA_PROCESS_STATE void deliver(usage_observer* due) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE void deliver(usage_observer* due) noexcept {
    static constinit thread_local usage_observer** last = nullptr;
    if (last) {
        for (*last = due; *last;) last = &(*last)->next_due;
        return;
    }
    for (last = &due; *last;) last = &(*last)->next_due;
    while (due) {
        usage_observer* const next = std::exchange(due, due->next_due);
        if (!due) last = &due;
        next->deliver();
    }
    last = nullptr;
}

}  // namespace cuota::inline v0::detail

#endif
