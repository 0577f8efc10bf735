// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// State shared by the nodes of a tree of budgets.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/process_state.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/guard/detail/budget_observer.hpp>
#include <cuota/guard/detail/stock.hpp>
#include <cuota/guard/detail/usage_observer.hpp>

namespace cuota::inline v0::detail {

/// A number that lock-free readers validate by the tree's version.
class figure {
public:
    explicit figure(std::size_t n = 0) noexcept : n_{n} {}
    operator std::size_t() const noexcept { return n_.load(std::memory_order_acquire); }
    figure& operator=(std::size_t n) noexcept;
    figure& operator+=(std::size_t more) noexcept { return *this = *this + more; }
    figure& operator-=(std::size_t less) noexcept { return *this = *this - less; }

private:
    published<std::size_t> n_;
};

/// External limit on a tree's root: that of a driver.
class outer_limit {
public:
    virtual ~outer_limit() = default;

    /// Sets the limit of `root`. Returns true if that has risen.
    virtual bool look(ledger_node& root) noexcept = 0;
    [[nodiscard]] virtual bool is_stale() const noexcept = 0;
    /// Bytes that a stock may hold without a query.
    [[nodiscard]] virtual std::size_t most_in_stock() const noexcept = 0;

    std::size_t most = unlimited;  ///< maximum of the root's limit; protected by the tree's lock
};

struct ledger_tree final : ref_counted {
    mutex guard;
    seqlock_version version;
    stock* open = nullptr;  // open stocks of all nodes
    // Holders are removed before they are destroyed.
    dynamic_array<std::pair<ledger_node const*, reclaimable_holder*>> reclaimable_holders;
    dynamic_array<ledger_node const*> nodes;  // each after its parent
    dynamic_array<std::pair<ledger_node const*, intrusive_ptr<budget_observer>>> observers;
    light_unique_ptr<outer_limit> outer;  // set before a second node is made
    usage_observer* due = nullptr;        // notified when the lock has been released
    void const* const state = process_state();
};

/// Holds the tree's lock while figures change. Notifies onlookers after unlocking: its destructor must run last.
class [[nodiscard]] ledger_change {
public:
    /// Throws: usage_error in a forked child; noexcept functions check is_of_parent() first.
    explicit ledger_change(ledger_tree& tree);
    ledger_change(ledger_change const&) = delete;
    ledger_change& operator=(ledger_change const&) = delete;
    ~ledger_change();

private:
    ledger_tree& tree_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE figure& figure::operator=(std::size_t n) noexcept {
    n_.store(n, std::memory_order_release);
    return *this;
}

CUOTA_INLINE ledger_change::ledger_change(ledger_tree& tree) : tree_{tree} {
    if (tree.is_of_parent()) [[unlikely]]
        throw_forked();
    locked_region::enter();
    tree.guard.lock();
    tree.version.step();
}

CUOTA_INLINE ledger_change::~ledger_change() {
    tree_.version.step();
    usage_observer* const due = std::exchange(tree_.due, nullptr);
    tree_.guard.unlock();
    locked_region::leave();
    if (due) [[unlikely]]
        deliver(due);  // may destroy the tree
}

}  // namespace cuota::inline v0::detail

#endif
