// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the nodes of one tree of budgets share: a lock, a version that tells readers without it of changes, and who
/// is concerned. For guard/ledger_node.hpp.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/process_state.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/guard/budget_observer.hpp>
#include <cuota/guard/onlooker.hpp>
#include <cuota/guard/stock.hpp>

namespace cuota::inline v0::detail {

/// A number written under the tree's lock between two steps of its version, and read by anybody who checks that.
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

/// Somebody else who limits what the root of a tree may hold: a driver, who has other programs to serve.
class outer_limit {
public:
    virtual ~outer_limit() = default;

    /// Asks, and sets the limit of `root` by the answer. True when it is higher than before.
    virtual bool look(ledger_node& root) noexcept = 0;
    /// True when the last answer is too old to go by.
    [[nodiscard]] virtual bool is_stale() const noexcept = 0;
    /// What a thread may hold ready of a node without looking. Bytes.
    [[nodiscard]] virtual std::size_t most_in_stock() const noexcept = 0;
};

/// What the nodes of one tree share.
struct ledger_tree final : ref_counted {
    mutex guard;
    published_version version;
    stock* open = nullptr;  // all that are open, of all nodes
    // Each leaves before it is destroyed.
    dynamic_array<std::pair<ledger_node const*, stakeholder*>> stakeholders;
    dynamic_array<ledger_node const*> nodes;  // all, each after its parent
    dynamic_array<std::pair<ledger_node const*, shared<budget_observer>>> observers;
    sole<outer_limit> outer;  // set before a second node is made
    onlooker* due = nullptr;  // those to be notified when the lock has been released
    void const* const state = process_state();
};

/// The tree's lock, held to change figures. Who looks on is called when it ends: it must be what ends last.
class [[nodiscard]] ledger_change {
public:
    /// Throws: misuse in a child of the process that made the tree; functions that are noexcept ask is_of_parent() before.
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
    onlooker* const due = std::exchange(tree_.due, nullptr);
    tree_.guard.unlock();
    locked_region::leave();
    if (due) [[unlikely]]
        deliver(due);  // the tree may be gone after it
}

}  // namespace cuota::inline v0::detail

#endif
