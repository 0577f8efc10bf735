// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Takes snapshots of all memory below a budget.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/limits/device_limit.hpp>
#include <cuota/guard/detail/reclaim.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/detail/snapshot/pool_view.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// How much of pools a snapshot contains.
enum class snapshot_detail {
    totals,  ///< statistics, and totals by tag
    blocks,  ///< also each block of each segment
};

namespace detail {

class snapshot_taker {
public:
    explicit snapshot_taker(snapshot_detail wanted);

    /// Calls on_node(node) under the tree's lock, and on_pool(pool, index) under the pool's.
    template <class OnNode, class OnPool>
    void add(ledger_node& root, OnNode on_node, OnPool on_pool) {
        std::vector<seen_node> nodes;
        root.look_down([&](ledger_node const& node, budget_info facts) {
            nodes.push_back({&node, node.above(), std::move(facts)});
            on_node(node);
        });
        enter_below(nodes, nodes.front(), std::nullopt);
        for (auto const& [at, who] :
             root.reclaimable_holders([&](ledger_node const& of) { return of.is_under(root); }))
            if (auto const index = index_of(at)) add(*who, *index, on_pool);
        if (auto const* const driver = dynamic_cast<device_limit const*>(root.outer()))
            see(driver->where(), driver->baseline());
    }
    /// Returns the index of a node's budget. The node may have been destroyed.
    [[nodiscard]] std::optional<std::size_t> index_of(ledger_node const* node) const noexcept;
    [[nodiscard]] memory_snapshot const& seen() const noexcept { return all_; }
    [[nodiscard]] memory_snapshot take() && { return std::move(all_); }

private:
    struct seen_node {
        ledger_node const* node;
        ledger_node const* above;
        budget_info facts;
    };

    // Adds a node, then its subtree. Subtrees in `nodes` are not contiguous.
    void enter_below(std::vector<seen_node> const& nodes, seen_node const& n,
                     std::optional<std::size_t> parent);
    template <class OnPool>
    void add(reclaimable_holder const& who, std::size_t index, OnPool on_pool) {
        if (auto const* const pool = dynamic_cast<pool_state const*>(&who)) {
            std::size_t const mine = all_.pools.size();
            pool_info facts = view_of(*pool, with_blocks_, [&] { on_pool(*pool, mine); });
            facts.budget = index;
            all_.pools.push_back(std::move(facts));
            if (auto const on = pool->on()) see(*on, 0);
            return;
        }
        holder_info facts{who.title(), index, {}};
        who.allocation_groups(facts.allocation_groups);
        if (facts.allocation_groups.empty()) return;
        sum_up(facts.allocation_groups);
        all_.holders.push_back(std::move(facts));
    }
    // Adds a device if its driver responds.
    void see(device on, std::size_t baseline);

    bool const with_blocks_;
    memory_snapshot all_;
    std::vector<std::pair<ledger_node const*, std::size_t>> indices_;
};

}  // namespace detail

/// Returns `root` and the budgets below it, their pools, other holders, and devices.
///
/// Threads: any.
/// Throws:  std::bad_alloc. Devices that do not respond are left out.
/// Cost:    visits each live and free block under its pool's lock (for `blocks`: copies it); one or two CUDA calls per stream with freed
///          blocks, two per device.
/// Example: examples/look.cpp
[[nodiscard]] memory_snapshot snapshot_of(budget const& root,
                                          snapshot_detail wanted = snapshot_detail::blocks);

/// Returns a snapshot of the budget that the pool is charged to. Threads, throws, cost: as above.
[[nodiscard]] memory_snapshot snapshot_of(scoped_pool const& pool,
                                          snapshot_detail wanted = snapshot_detail::blocks);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE snapshot_taker::snapshot_taker(snapshot_detail wanted)
    : with_blocks_{wanted == snapshot_detail::blocks} {
    all_.taken = std::chrono::system_clock::now();
}

CUOTA_INLINE std::optional<std::size_t> snapshot_taker::index_of(ledger_node const* node) const noexcept {
    auto const at = std::ranges::find(indices_, node, &std::pair<ledger_node const*, std::size_t>::first);
    if (at == indices_.end()) return std::nullopt;
    return at->second;
}

CUOTA_INLINE void snapshot_taker::enter_below(std::vector<seen_node> const& nodes, seen_node const& n,
                                              std::optional<std::size_t> parent) {
    std::size_t const mine = all_.budgets.size();
    std::size_t const depth = parent ? all_.budgets[*parent].depth + 1 : 0;
    all_.budgets.push_back({n.facts, depth, parent});
    indices_.emplace_back(n.node, mine);
    for (seen_node const& child : nodes)
        if (child.above == n.node) enter_below(nodes, child, mine);
}

CUOTA_INLINE void snapshot_taker::see(device on, std::size_t baseline) {
    auto const known = std::ranges::find(all_.devices, on.ordinal(), &device_info::ordinal);
    if (known != all_.devices.end()) {
        known->baseline = std::max(known->baseline, baseline);
        return;
    }
    std::optional<device_info> facts = facts_of(on);
    if (!facts) return;
    facts->baseline = baseline;
    all_.devices.push_back(*std::move(facts));
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE memory_snapshot snapshot_of(budget const& root, snapshot_detail wanted) {
    detail::snapshot_taker taker{wanted};
    taker.add(
        detail::budget_access::node(root), [](auto const&) {}, [](auto const&, std::size_t) {});
    return std::move(taker).take();
}

CUOTA_INLINE memory_snapshot snapshot_of(scoped_pool const& pool, snapshot_detail wanted) {
    return snapshot_of(pool.account(), wanted);
}

}  // namespace cuota::inline v0

#endif
