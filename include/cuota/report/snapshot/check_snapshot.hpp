// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Checks a snapshot for consistency.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

namespace detail {

class snapshot_check {
public:
    snapshot_check(memory_snapshot const& all, source_location where) noexcept : all_{all}, where_{where} {}

    void run();

private:
    struct sums {
        std::size_t requested = 0;
        std::size_t live = 0;
        std::size_t live_blocks = 0;
        std::size_t pending = 0;
        std::size_t releasing = 0;
        std::size_t releasing_blocks = 0;
        std::size_t free_blocks = 0;  // includes pending blocks
        std::size_t largest = 0;
        std::size_t largest_releasing = 0;
        std::size_t size = 0;
    };

    [[noreturn]] void fail(char const* kind, std::string const& name, char const* what, std::size_t is,
                           char const* other, std::size_t should) const;
    [[noreturn]] void fail(char const* kind, std::string const& name, std::string const& what) const;
    [[nodiscard]] static std::string number(std::size_t n);
    [[nodiscard]] static std::string at(std::uint64_t address);

    // --- budgets ---

    void check_budgets() const;
    void check_place_in_tree(budget_entry const& e, std::size_t i) const;

    void check_budget_of(char const* kind, std::string const& name, std::size_t budget) const;

    // --- pools ---

    void check_pool(pool_info const& p) const;
    void at_most(pool_info const& p, char const* less, std::size_t a, char const* more, std::size_t b) const;
    void equal(pool_info const& p, char const* one, std::size_t a, char const* other, std::size_t b) const;

    void check_tags(pool_info const& p) const;

    // --- segments ---

    void check_segments(pool_info const& p) const;
    // Returns whether the driver may have reused the segment's addresses.
    [[nodiscard]] static bool is_releasing(segment_info const& s) noexcept;
    void add_blocks(pool_info const& p, segment_info const& s, sums& all) const;
    static void add(block_info const& b, sums& all) noexcept;
    void compare(pool_info const& p, sums const& all) const;
    void between(pool_info const& p, char const* what, std::size_t is, char const* other, std::size_t least,
                 std::size_t more) const;

    memory_snapshot const& all_;
    source_location where_;
};

}  // namespace detail

/// Throws usage_error unless these rules hold:
///
/// budgets  peak >= held - coming; held <= limit, except for roots; sum of the children's held bytes (of a reservation, its limit) <= held;
///          parents precede children, at the depth above.
/// pools    requested <= allocated <= active <= reserved, also for the peaks; peak >= value; the sums over the tags are the pool's values;
///          of a tag, requested <= allocated <= peak; the budget is in the snapshot.
/// blocks   if segments are present: they are sorted, disjoint (except one that is `releasing` as a whole), and sum up to reserved; blocks
///          fill their segment; requested <= size; live blocks sum up to requested, allocated and live_blocks, with pending ones to active;
///          the largest free or pending block is largest_free.
///
/// `releasing` blocks may or may not be counted. Pools and holders are not compared with their budgets.
/// Cost: visits each number and block. Threads: any.
/// Example: cuota::check_snapshot(cuota::snapshot_of(budget));
void check_snapshot(memory_snapshot const& all, source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE void snapshot_check::run() {
    check_budgets();
    for (pool_info const& p : all_.pools) check_pool(p);
    for (holder_info const& h : all_.holders) check_budget_of("holder", h.name, h.budget);
}

CUOTA_INLINE void snapshot_check::fail(char const* kind, std::string const& name, char const* what,
                                       std::size_t is, char const* other, std::size_t should) const {
    fail(kind, name, std::string{what} + " is " + number(is) + ", but " + other + " is " + number(should));
}

CUOTA_INLINE void snapshot_check::fail(char const* kind, std::string const& name,
                                       std::string const& what) const {
    throw_usage_error(where_, "inconsistent snapshot: {} {}: {}", {kind, as_name(name, 60), what});
}

CUOTA_INLINE std::string snapshot_check::number(std::size_t n) {
    return n == unlimited ? "unlimited" : std::to_string(n);
}

CUOTA_INLINE std::string snapshot_check::at(std::uint64_t address) {
    static constexpr char const* digits = "0123456789abcdef";
    std::string text;
    do text.insert(text.begin(), digits[address & 15]);
    while ((address >>= 4) != 0);
    return "0x" + text;
}

CUOTA_INLINE void snapshot_check::check_budgets() const {
    std::vector<std::size_t> below(all_.budgets.size());  // bytes held by the children of each
    for (std::size_t i = all_.budgets.size(); i-- != 0;) {
        budget_entry const& e = all_.budgets[i];
        budget_info const& b = e.facts;
        check_place_in_tree(e, i);
        if (b.peak < b.held - std::min(b.held, b.coming))
            fail("budget", b.name, "peak", b.peak, "held", b.held);
        // A root's limit may have been lowered: a device's follows the use by other programs.
        if (e.parent && b.held > b.limit) fail("budget", b.name, "held", b.held, "its limit", b.limit);
        if (below[i] > b.held) fail("budget", b.name, "held", b.held, "the sum of its children", below[i]);
        if (e.parent)
            below[*e.parent] = saturating_add(below[*e.parent], b.is_reservation ? b.limit : b.held);
    }
}

CUOTA_INLINE void snapshot_check::check_place_in_tree(budget_entry const& e, std::size_t i) const {
    std::string const& name = e.facts.name;
    if (e.parent && *e.parent >= i) fail("budget", name, "its parent", *e.parent, "its own index", i);
    std::size_t const depth = e.parent ? all_.budgets[*e.parent].depth + 1 : 0;
    if (e.depth != depth) fail("budget", name, "depth", e.depth, "the depth by its parent", depth);
}

CUOTA_INLINE void snapshot_check::check_budget_of(char const* kind, std::string const& name,
                                                  std::size_t budget) const {
    if (budget >= all_.budgets.size())
        fail(kind, name, "the index of its budget", budget, "the number of budgets", all_.budgets.size());
}

CUOTA_INLINE void snapshot_check::check_pool(pool_info const& p) const {
    pool_stats const& s = p.stats;
    check_budget_of("pool", p.name, p.budget);
    at_most(p, "requested", s.requested, "allocated", s.allocated);
    at_most(p, "allocated", s.allocated, "active", s.active);
    at_most(p, "active", s.active, "reserved", s.reserved);
    at_most(p, "peak_requested", s.peak_requested, "peak_allocated", s.peak_allocated);
    at_most(p, "peak_allocated", s.peak_allocated, "peak_active", s.peak_active);
    at_most(p, "peak_active", s.peak_active, "peak_reserved", s.peak_reserved);
    at_most(p, "requested", s.requested, "peak_requested", s.peak_requested);
    at_most(p, "allocated", s.allocated, "peak_allocated", s.peak_allocated);
    at_most(p, "active", s.active, "peak_active", s.peak_active);
    at_most(p, "reserved", s.reserved, "peak_reserved", s.peak_reserved);
    check_tags(p);
    if (!p.segments.empty()) check_segments(p);
}

CUOTA_INLINE void snapshot_check::at_most(pool_info const& p, char const* less, std::size_t a,
                                          char const* more, std::size_t b) const {
    if (a > b) fail("pool", p.name, less, a, more, b);
}

CUOTA_INLINE void snapshot_check::equal(pool_info const& p, char const* one, std::size_t a, char const* other,
                                        std::size_t b) const {
    if (a != b) fail("pool", p.name, one, a, other, b);
}

CUOTA_INLINE void snapshot_check::check_tags(pool_info const& p) const {
    sums all;
    for (tag_info const& t : p.tags) {
        if (t.requested > t.allocated || (t.peak && *t.peak < t.allocated))
            fail("pool", p.name,
                 "tag " + shown(t.name.text(), 40) + ": requested " + number(t.requested) + ", allocated " +
                     number(t.allocated) + (t.peak ? ", peak " + number(*t.peak) : ""));
        all.requested += t.requested;
        all.live += t.allocated;
        all.live_blocks += t.live_blocks;
    }
    equal(p, "requested", p.stats.requested, "the sum of its tags", all.requested);
    equal(p, "allocated", p.stats.allocated, "the sum of its tags", all.live);
    equal(p, "live_blocks", p.stats.live_blocks, "the sum of its tags", all.live_blocks);
}

CUOTA_INLINE void snapshot_check::check_segments(pool_info const& p) const {
    sums all;
    std::uint64_t end = 0;
    for (segment_info const& s : p.segments) {
        if ((s.address < end && !is_releasing(s)) || s.size > ~s.address)
            fail("pool", p.name, "the segment at " + at(s.address) + " overlaps another, or is out of order");
        if (!is_releasing(s)) end = s.address + s.size;
        all.size += s.size;
        add_blocks(p, s, all);
    }
    compare(p, all);
}

CUOTA_INLINE bool snapshot_check::is_releasing(segment_info const& s) noexcept {
    return !s.is_paged && s.blocks.size() == 1 && s.blocks.front().use == block_use::releasing;
}

CUOTA_INLINE void snapshot_check::add_blocks(pool_info const& p, segment_info const& s, sums& all) const {
    std::uint64_t next = s.address;
    for (block_info const& b : s.blocks) {
        if (b.address != next || b.size == 0)
            fail("pool", p.name,
                 "a block of " + number(b.size) + " bytes is at " + at(b.address) +
                     ", but the previous block ends at " + at(next));
        if (b.requested > b.size)
            fail("pool", p.name,
                 "the block at " + at(b.address) + " has " + number(b.requested) +
                     " bytes requested, but its size is " + number(b.size));
        next += b.size;
        add(b, all);
    }
    if (next != s.address + s.size)
        fail("pool", p.name,
             "the segment at " + at(s.address) + " ends at " + at(s.address + s.size) +
                 ", but its last block ends at " + at(next));
}

CUOTA_INLINE void snapshot_check::add(block_info const& b, sums& all) noexcept {
    switch (b.use) {
        case block_use::live:
            all.requested += b.requested;
            all.live += b.size;
            ++all.live_blocks;
            return;
        case block_use::pending: all.pending += b.size; [[fallthrough]];
        case block_use::free:
            ++all.free_blocks;
            all.largest = std::max(all.largest, b.size);
            return;
        case block_use::releasing:
            all.releasing += b.size;
            ++all.releasing_blocks;
            all.largest_releasing = std::max(all.largest_releasing, b.size);
            return;
    }
}

CUOTA_INLINE void snapshot_check::compare(pool_info const& p, sums const& all) const {
    pool_stats const& s = p.stats;
    equal(p, "requested", s.requested, "the sum of its live blocks", all.requested);
    equal(p, "allocated", s.allocated, "the sum of its live blocks", all.live);
    equal(p, "live_blocks", s.live_blocks, "the number of live blocks", all.live_blocks);
    between(p, "active", s.active, "the sum of its live and pending blocks", all.live + all.pending,
            all.releasing);
    at_most(p, "reserved", s.reserved, "the sum of its segments", all.size);
    at_most(p, "the sum of its segments without released blocks", all.size - all.releasing, "reserved",
            s.reserved);
    between(p, "free_blocks", s.free_blocks, "the number of free blocks", all.free_blocks,
            all.releasing_blocks);
    std::size_t const more = std::max(all.largest, all.largest_releasing) - all.largest;
    between(p, "largest_free", s.largest_free, "the size of the largest free block", all.largest, more);
    if (all.releasing == 0) equal(p, "segments", s.segments, "the number of segments", p.segments.size());
}

CUOTA_INLINE void snapshot_check::between(pool_info const& p, char const* what, std::size_t is,
                                          char const* other, std::size_t least, std::size_t more) const {
    if (is < least || is > least + more) fail("pool", p.name, what, is, other, least);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void check_snapshot(memory_snapshot const& all, source_location where) {
    detail::snapshot_check{all, where}.run();
}

}  // namespace cuota::inline v0

#endif
