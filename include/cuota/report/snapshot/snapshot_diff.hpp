// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Compares two snapshots.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/export/budget_order.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>
#include <cuota/report/snapshot/snapshot_changes.hpp>

namespace cuota::inline v0 {

/// The differences of two snapshots, from the largest growth to the largest loss, then by name.
struct snapshot_diff {
    std::chrono::system_clock::time_point from{};  ///< time of the earlier snapshot
    std::chrono::system_clock::time_point to{};    ///< time of the later one
    std::vector<site_change> sites{};              ///< by tag and call site
    std::vector<pool_change> pools{};              ///< by name, device and kind of memory
    std::vector<budget_change> budgets{};          ///< by path from the root

    /// Returns whether nothing changed.
    [[nodiscard]] bool is_empty() const noexcept;
    /// Formats the differences in 100 columns, at most `max_lines` lines per list.
    [[nodiscard]] std::string text(std::size_t max_lines = 12) const;
    /// Formats the differences as one line of JSON. Units: bytes.
    [[nodiscard]] std::string json() const { return detail::changes::json_of(*this); }
};

namespace detail::changes {

/// Pairs items with equal keys, in order; null stands for no partner.
template <class Item, class KeyOf, class Visit>
void for_each_pair(std::vector<Item> const& before, std::vector<Item> const& after, KeyOf key_of,
                   Visit visit) {
    std::map<decltype(key_of(true, std::size_t{})), std::vector<std::size_t>> open;
    for (std::size_t i = before.size(); i-- != 0;) open[key_of(true, i)].push_back(i);
    for (std::size_t i = 0; i != after.size(); ++i) {
        auto const found = open.find(key_of(false, i));
        bool const is_new = found == open.end() || found->second.empty();
        visit(is_new ? nullptr : &before[found->second.back()], &after[i]);
        if (!is_new) found->second.pop_back();
    }
    for (auto const& [key, gone] : open)
        for (auto i = gone.rbegin(); i != gone.rend(); ++i)
            visit(&before[*i], static_cast<Item const*>(nullptr));
}

/// Returns the path of each budget: "gpu/training/step".
[[nodiscard]] std::vector<std::string> paths_of(memory_snapshot const& all);

class site_differ {
public:
    void add(pool_info const* before, pool_info const* after);
    [[nodiscard]] std::vector<site_change> take();

private:
    using blocks = std::vector<block_info const*>;

    [[nodiscard]] static bool has_blocks(pool_info const& p) noexcept;
    [[nodiscard]] static blocks live_in(pool_info const& p);

    void add_blocks(blocks const& before, blocks const& after);
    void freed(block_info const& b);
    void allocated(block_info const& b);
    void stayed(block_info const& b);

    // Adds net differences, because the blocks are not known.
    void add_tags(pool_info const& before, pool_info const& after);
    void add_tag(tag_info const& b, tag_info const& a);
    [[nodiscard]] static std::size_t more(std::size_t from, std::size_t to) noexcept;
    static void count(std::size_t& bytes, std::size_t& blocks, std::size_t b, std::size_t n) noexcept;

    [[nodiscard]] site_change& at(tag name, source_location where);
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, site_change> by_site_;
};

[[nodiscard]] pool_change change_of(pool_info const* b, pool_info const* a);

[[nodiscard]] budget_change change_of(std::string path, budget_entry const* b, budget_entry const* a);

void add_budgets(memory_snapshot const& before, memory_snapshot const& after, snapshot_diff& to);

}  // namespace detail::changes

/// Returns the changes from `before` to `after`. Blocks with equal address, size and tag are the same block, even if freed and allocated
/// again.
///
/// A pool without segments in one of the snapshots is compared by tag: its call sites are empty, and `allocated` and `freed` are net
/// differences. Bytes of blocks are rounded up.
/// Throws: std::bad_alloc. Cost: O(n log k) for n blocks at k call sites. Threads: any.
/// Example:
///     auto const before = cuota::snapshot_of(budget);
///     one_step();
///     std::puts(cuota::diff(before, cuota::snapshot_of(budget)).text().c_str());
[[nodiscard]] snapshot_diff diff(memory_snapshot const& before, memory_snapshot const& after);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0 {

CUOTA_INLINE bool snapshot_diff::is_empty() const noexcept {
    return sites.empty() && pools.empty() && budgets.empty();
}

CUOTA_INLINE std::string snapshot_diff::text(std::size_t max_lines) const {
    return detail::changes::text_of(*this, max_lines);
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail::changes {

CUOTA_INLINE std::vector<std::string> paths_of(memory_snapshot const& all) {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i != all.budgets.size(); ++i) {
        auto const parent = screen::parent_of(all, i);
        paths.push_back((parent ? paths[*parent] + '/' : "") + all.budgets[i].facts.name);
    }
    return paths;
}

CUOTA_INLINE void site_differ::add(pool_info const* before, pool_info const* after) {
    static pool_info const none{};
    pool_info const& b = before ? *before : none;
    pool_info const& a = after ? *after : none;
    if (has_blocks(b) && has_blocks(a)) add_blocks(live_in(b), live_in(a));
    else add_tags(b, a);
}

CUOTA_INLINE std::vector<site_change> site_differ::take() {
    std::vector<site_change> changed;
    for (auto& [key, c] : by_site_)
        if (c.allocated != 0 || c.freed != 0 || c.allocated_blocks != 0 || c.freed_blocks != 0)
            changed.push_back(c);
    most_grown_first(changed);
    return changed;
}

CUOTA_INLINE bool site_differ::has_blocks(pool_info const& p) noexcept {
    return !p.segments.empty() || p.stats.live_blocks == 0;
}

CUOTA_INLINE auto site_differ::live_in(pool_info const& p) -> blocks {
    blocks found;
    for (segment_info const& s : p.segments)
        for (block_info const& b : s.blocks)
            if (b.use == block_use::live) found.push_back(&b);
    return found;
}

// Both are sorted by address.
CUOTA_INLINE void site_differ::add_blocks(blocks const& before, blocks const& after) {
    auto b = before.begin();
    auto a = after.begin();
    while (b != before.end() || a != after.end()) {
        // NOLINTNEXTLINE(bugprone-branch-clone): the conditions are evaluated in order, so no two branches are equivalent
        if (a == after.end() || (b != before.end() && (*b)->address < (*a)->address)) freed(**b++);
        else if (b == before.end() || (*a)->address < (*b)->address) allocated(**a++);
        else if ((*a)->size != (*b)->size || !((*a)->name == (*b)->name)) freed(**b++);
        else stayed(**a++), ++b;
    }
}

CUOTA_INLINE void site_differ::freed(block_info const& b) {
    site_change& c = at(b.name, b.where);
    count(c.before, c.blocks_before, b.size, 1);
    count(c.freed, c.freed_blocks, b.size, 1);
}

CUOTA_INLINE void site_differ::allocated(block_info const& b) {
    site_change& c = at(b.name, b.where);
    count(c.after, c.blocks_after, b.size, 1);
    count(c.allocated, c.allocated_blocks, b.size, 1);
}

CUOTA_INLINE void site_differ::stayed(block_info const& b) {
    site_change& c = at(b.name, b.where);
    count(c.before, c.blocks_before, b.size, 1);
    count(c.after, c.blocks_after, b.size, 1);
}

CUOTA_INLINE void site_differ::add_tags(pool_info const& before, pool_info const& after) {
    std::map<std::string_view, std::pair<tag_info, tag_info>> tags;
    for (tag_info const& t : before.tags) tags[t.name.text()].first = t;
    for (tag_info const& t : after.tags) tags[t.name.text()].second = t;
    for (auto const& [name, both] : tags) add_tag(both.first, both.second);
}

CUOTA_INLINE void site_differ::add_tag(tag_info const& b, tag_info const& a) {
    site_change& c = at(b.name.is_empty() ? a.name : b.name, {});
    count(c.before, c.blocks_before, b.allocated, b.live_blocks);
    count(c.after, c.blocks_after, a.allocated, a.live_blocks);
    count(c.allocated, c.allocated_blocks, more(b.allocated, a.allocated),
          more(b.live_blocks, a.live_blocks));
    count(c.freed, c.freed_blocks, more(a.allocated, b.allocated), more(a.live_blocks, b.live_blocks));
}

CUOTA_INLINE std::size_t site_differ::more(std::size_t from, std::size_t to) noexcept {
    return to > from ? to - from : 0;
}

CUOTA_INLINE void site_differ::count(std::size_t& bytes, std::size_t& blocks, std::size_t b,
                                     std::size_t n) noexcept {
    bytes = saturating_add(bytes, b);
    blocks = saturating_add(blocks, n);
}

CUOTA_INLINE site_change& site_differ::at(tag name, source_location where) {
    auto const [found, is_new] = by_site_.try_emplace({name.text(), where.file, where.line});
    if (is_new) found->second.name = name, found->second.where = where;
    return found->second;
}

CUOTA_INLINE pool_change change_of(pool_info const* b, pool_info const* a) {
    pool_change c;
    c.name = a ? a->name : b->name;
    c.is_new = !b;
    c.is_gone = !a;
    if (b) c.allocated_before = b->stats.allocated, c.before = b->stats.reserved;
    if (a) c.allocated_after = a->stats.allocated, c.after = a->stats.reserved;
    return c;
}

CUOTA_INLINE budget_change change_of(std::string path, budget_entry const* b, budget_entry const* a) {
    budget_change c;
    c.name = std::move(path);
    c.is_new = !b;
    c.is_gone = !a;
    if (b) c.limit_before = b->facts.limit, c.before = b->facts.held;
    if (a) c.limit_after = a->facts.limit, c.after = a->facts.held;
    return c;
}

CUOTA_INLINE void add_budgets(memory_snapshot const& before, memory_snapshot const& after,
                              snapshot_diff& to) {
    std::vector<std::string> const paths_before = paths_of(before);
    std::vector<std::string> const paths_after = paths_of(after);
    auto const path = [&](bool is_before, std::size_t i) {
        return std::string_view{(is_before ? paths_before : paths_after)[i]};
    };
    for_each_pair(before.budgets, after.budgets, path, [&](budget_entry const* b, budget_entry const* a) {
        auto const index = static_cast<std::size_t>(a ? a - after.budgets.data() : b - before.budgets.data());
        budget_change c = change_of((a ? paths_after : paths_before)[index], b, a);
        if (c.is_new || c.is_gone || c.before != c.after || c.limit_before != c.limit_after)
            to.budgets.push_back(std::move(c));
    });
    most_grown_first(to.budgets);
}

}  // namespace cuota::inline v0::detail::changes

namespace cuota::inline v0 {

CUOTA_INLINE snapshot_diff diff(memory_snapshot const& before, memory_snapshot const& after) {
    using namespace detail::changes;
    snapshot_diff result{before.taken, after.taken};
    auto const key = [&](bool is_before, std::size_t i) {
        pool_info const& p = (is_before ? before : after).pools[i];
        return std::tuple{std::string_view{p.name}, p.device, p.memory};
    };
    class site_differ found;
    for_each_pair(before.pools, after.pools, key, [&](pool_info const* b, pool_info const* a) {
        found.add(b, a);
        pool_change c = change_of(b, a);
        if (c.is_new || c.is_gone || c.before != c.after || c.allocated_before != c.allocated_after)
            result.pools.push_back(std::move(c));
    });
    result.sites = found.take();
    most_grown_first(result.pools);
    add_budgets(before, after, result);
    return result;
}

}  // namespace cuota::inline v0

#endif
