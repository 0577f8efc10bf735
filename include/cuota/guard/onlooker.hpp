// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Observer of the changes of a budget, notified once no lock is held. For guard/ledger_node.hpp.
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

/// Is notified of each change of a node's held bytes and limit: a watch.
class onlooker {
public:
    virtual ~onlooker() = default;

    /// Records a change, under the tree's lock. Returns true if deliver() must be called for it and no other call is pending.
    [[nodiscard]] virtual bool note(sight const& now) noexcept = 0;
    /// Called without the lock, after note returned true.
    virtual void deliver() noexcept = 0;

    // List links: the first is protected by the tree's lock, the second too until the list is handed to a delivering thread.
    onlooker* next_here = nullptr;
    onlooker* next_due = nullptr;
};

/// Calls deliver() for each entry of the list. Entries that become due on this thread meanwhile are delivered by the outermost call.
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
