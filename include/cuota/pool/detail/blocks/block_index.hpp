// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Free and live blocks of a pool and their neighbours: host bookkeeping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/detail/blocks/block.hpp>
#include <cuota/pool/detail/blocks/free_bins.hpp>
#include <cuota/pool/detail/blocks/live_table.hpp>
#include <cuota/pool/detail/growth/mapping_table.hpp>

namespace cuota::inline v0::detail {

/// Requires the pool's lock.
/// Throws:  std::bad_alloc where not noexcept; on a throw, nothing changes.
/// Cost:    find, take, release and merge, also without success: a few loads below 4 MiB, O(log n) in the free blocks of similar size
///          above.
class block_index {
public:
    block& add_segment(void* at, std::size_t size);

    void remove_segment(block& whole) noexcept;
    void hold_segment(block& whole) noexcept;
    /// Frees a held segment or held pages, with their waits.
    void put_back(block& held) noexcept { free_again(held, std::move(held.waits)); }

    // --- address range, mapped and unmapped by pages ---

    /// Adds the address range as one hole. Its last page is never mapped, so a hole follows every block, and an access beyond the last one
    /// faults.
    void add_range(std::byte* at, std::size_t size, std::size_t page);
    [[nodiscard]] std::size_t page() const noexcept { return page_; }

    template <class Visit>
    void for_each_hole(Visit visit) const {
        for (block* hole = holes_; hole; hole = hole->right) visit(*hole);
    }
    /// Calls visit(at, bytes) for each run of mapped pages.
    template <class Visit>
    void for_each_mapped(Visit visit) const {
        for (block* b = first_; b; b = b->after) {
            if (b->is_hole()) continue;
            std::byte* const from = b->at();
            while (!b->after->is_hole()) b = b->after;
            visit(from, static_cast<std::size_t>(b->end() - from));
        }
    }
    template <class Visit>
    void for_each_in_range(Visit visit) const {
        for (block* b = first_; b; b = b->after) visit(*b);
    }
    /// Calls visit(block, is_paged) with the first block of the range, and of each segment unless it is held.
    template <class Visit>
    void for_each_row(Visit visit) const {
        if (first_) visit(*first_, true);
        auto const visit_segment = [&](block const& b) {
            if (!b.before && !is_paged(b.at())) visit(b, false);
        };
        for_each_live(visit_segment);
        for_each_free(visit_segment);
    }
    [[nodiscard]] std::size_t mapped_runs() const noexcept;
    [[nodiscard]] bool is_paged(void const* p) const noexcept;
    /// Returns the hole that contains all these bytes, or null. Cost: O(holes).
    [[nodiscard]] block* hole_around(std::byte const* at, std::size_t bytes) const noexcept;

    /// Bytes of whole mappings in [from, to); whole pages in holes.
    [[nodiscard]] std::size_t mapped_whole(std::byte const* from, std::byte const* to) const noexcept;
    /// Whole pages in free blocks; at least the bytes of whole mappings.
    [[nodiscard]] std::size_t free_pages() const noexcept { return free_pages_; }
    [[nodiscard]] mapping_table const& mappings() const noexcept { return mappings_; }

    /// Holds whole mappings of a free block with its waits. The caller waits before unmapping.
    block& hold_pages(block& b, std::byte* at, std::size_t bytes);
    /// Turns held pages into a hole after unmapping.
    void let_go(block& pages) noexcept;

    /// Holds [at, end), which begins in `first`: whole free blocks, and the covered parts of holes, which become `growing`; the caller
    /// stores their mapped bytes in `requested`. Returns the first held block.
    block& hold_window(block& first, std::byte* at, std::byte* end);
    /// Visits the parts of a held window up to `end`; needs no lock.
    template <class Visit>
    static void for_each_part(block& first, std::byte const* end, Visit visit) {
        for (block* b = &first; b;) {
            block* const next = b->end() < end ? b->after : nullptr;
            visit(*b);
            b = next;
        }
    }
    /// Turns a held window with mappings of `sizes` into a free block, merged with its neighbours.
    block& join_window(block& first, std::byte const* end, mapping_sizes sizes, wait_set waits) noexcept;
    /// Restores a held window. Mapped bytes stay held forever; returns them.
    std::size_t undo_window(block& first, std::byte const* end) noexcept;

    // --- all free blocks ---

    [[nodiscard]] block* first_fit(std::size_t size) const noexcept { return free_.first_fit(size); }
    /// Visits free blocks of at least `size` bytes, smallest first, until visit(block) returns false.
    template <class Visit>
    void for_each_fit(std::size_t size, Visit visit) const {
        free_.for_each_fit(size, visit);
    }
    template <class Visit>
    void for_each_free_from_largest(Visit visit) const {
        free_.for_each_from_largest(visit);
    }
    template <class Visit>
    void for_each_free(Visit visit) const {
        free_.for_each_fit(0, [&](block& b) {
            visit(b);
            return true;
        });
    }
    template <class Visit>
    void for_each_live(Visit visit) const {
        live_.for_each(visit);
    }

    enum class side { low, high };

    /// Bytes from `at` to the next aligned address.
    [[nodiscard]] static std::size_t skipped_for(std::size_t alignment, std::byte const* at) noexcept;

    /// Makes `size` bytes at one end of a free block live, at an aligned address, which must exist. The rest keeps the waits.
    block& take(block& b, std::size_t size, std::size_t requested, label const& who,
                allocation_epoch epoch = {}, side from = side::low,
                std::size_t alignment = block::granularity);

    [[nodiscard]] block* find_live(void const* p) const noexcept { return live_.find(p); }

    /// Holds a block just allocated, which is not among the live blocks until `admit`.
    void withhold(block& b) noexcept;
    /// Makes a withheld block live. On a throw it stays withheld. Throws: std::bad_alloc.
    void admit(block& b);
    /// Frees a withheld block with these waits.
    void cancel(block& b, wait_set pending) noexcept;
    /// Frees a live or held block and merges it with its free neighbours.
    block& release(block& b, wait_set waits) noexcept;
    /// Guarantees that the next `take` does not throw.
    void prepare_take();

    [[nodiscard]] std::size_t largest_free() const noexcept { return free_.largest(); }
    [[nodiscard]] std::size_t free_blocks() const noexcept { return free_.count(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.count(); }

private:
    // Cuts `size` bytes at `at` out of a free block. The part is in no bin; part and rest have the block's waits.
    block& cut_out(block& b, std::byte* at, std::size_t size);
    // The cases of `take`. The part is in no bin and has no waits.
    block& cut_aligned(block& b, std::size_t size, side from, std::size_t alignment);
    // The part gets a new record: the rest usually keeps its position in the bins.
    block& cut_off(block& b, std::size_t size, side from);
    block& cut_all(block& b) noexcept;
    void reserve_live();
    // Makes a block of no bin live, after reserve_live().
    block& enter(block& b, std::size_t requested, label const& who, allocation_epoch epoch) noexcept;

    // Returns false if host memory is short: the blocks stay unmerged, as a lost wait would be a race.
    [[nodiscard]] static bool merge_waits(block& into, block& from) noexcept;
    block& free_again(block& b, wait_set waits) noexcept;
    std::size_t undo_growing(block& b) noexcept;

    [[nodiscard]] static std::uintptr_t address(void const* p) noexcept;
    [[nodiscard]] std::size_t pages_between(std::byte const* from, std::byte const* to) const noexcept;
    void put_free(block& b) noexcept;
    void pull_free(block& b) noexcept;
    void put_hole(block& b) noexcept;
    void pull_hole(block& b) noexcept;
    block& become_hole(block& b) noexcept;
    void link_before(block& b, block& lower) noexcept;
    static void link(block& b, block& next) noexcept;
    // Makes the part from `at` a block in no list.
    block& split(block& b, std::byte* at);
    void swallow_next(block& b) noexcept;

    block_store store_;
    free_bins free_;
    live_table live_{store_};
    block* first_ = nullptr;  // of the range
    std::byte* range_ = nullptr;
    std::byte* range_end_ = nullptr;
    std::size_t page_ = 0;
    mapping_table mappings_;
    std::size_t free_pages_ = 0;
    block* holes_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE block& block_index::add_segment(void* at, std::size_t size) {
    block& whole = store_.make(static_cast<std::byte*>(at), size);
    put_free(whole);
    return whole;
}

CUOTA_INLINE void block_index::remove_segment(block& whole) noexcept {
    if (whole.may_merge()) pull_free(whole);
    store_.drop(whole);
}

CUOTA_INLINE void block_index::hold_segment(block& whole) noexcept {
    pull_free(whole);
    whole.become(block::state::in_transition);
}

CUOTA_INLINE void block_index::add_range(std::byte* at, std::size_t size, std::size_t page) {
    first_ = &store_.make(at, size);
    page_ = page;
    mappings_ = mapping_table{at, page};
    range_ = at;
    range_end_ = at + size;
    put_hole(*first_);
}

CUOTA_INLINE std::size_t block_index::mapped_runs() const noexcept {
    std::size_t runs = 0;
    for_each_hole([&](block const& hole) { runs += hole.before && !hole.before->is_hole(); });
    return runs;
}

CUOTA_INLINE block* block_index::hole_around(std::byte const* at, std::size_t bytes) const noexcept {
    block* found = nullptr;
    for_each_hole([&](block& hole) {
        if (hole.at() <= at && at < hole.end() && bytes <= static_cast<std::size_t>(hole.end() - at))
            found = &hole;
    });
    return found;
}

CUOTA_INLINE std::size_t block_index::pages_between(std::byte const* from,
                                                    std::byte const* to) const noexcept {
    if (page_ == 0 || !is_paged(from)) return 0;
    std::uintptr_t const first = round_up(address(from), page_);
    std::uintptr_t const last = round_down(address(to), page_);
    return last > first ? last - first : 0;
}

[[gnu::noinline]] CUOTA_INLINE std::size_t block_index::mapped_whole(std::byte const* from,
                                                                     std::byte const* to) const noexcept {
    if (page_ == 0 || !is_paged(from)) return 0;
    std::uintptr_t const first = mappings_.edge_from(address(from));
    std::uintptr_t const last = mappings_.edge_up_to(address(to));
    return last > first ? last - first : 0;
}

CUOTA_INLINE block& block_index::hold_pages(block& b, std::byte* at, std::size_t bytes) {
    block& pages = cut_out(b, at, bytes);
    pages.become(block::state::in_transition);
    return pages;
}

CUOTA_INLINE void block_index::let_go(block& pages) noexcept {
    pages.waits = {};
    mappings_.part(pages.at(), pages.size);
    become_hole(pages);
}

CUOTA_INLINE block& block_index::hold_window(block& first, std::byte* at, std::byte* end) {
    mappings_.reserve(end);
    store_.reserve_two();
    block* begin = &first;
    if (first.is_hole() && first.at() != at) {
        begin = &split(first, at);
        put_hole(*begin);
    }
    block* b = begin;
    for (;; b = b->after) {
        bool const is_last = b->end() >= end;
        if (!b->is_hole()) {
            pull_free(*b);
            b->become(block::state::in_transition);
        } else {
            if (b->end() > end) put_hole(split(*b, end));
            pull_hole(*b);
            b->requested = 0;
            b->become(block::state::growing);
        }
        if (is_last) return *begin;
    }
}

CUOTA_INLINE block& block_index::join_window(block& first, std::byte const* end, mapping_sizes sizes,
                                             wait_set waits) noexcept {
    for_each_part(first, end, [&](block const& part) {
        if (!part.has_state(block::state::growing)) return;
        for (std::byte* at = part.at(); at != part.end();) {
            std::size_t const size = sizes.next(static_cast<std::size_t>(part.end() - at));
            mappings_.join(at, size);
            at += size;
        }
    });
    while (first.end() < end) swallow_next(first);
    return free_again(first, std::move(waits));
}

CUOTA_INLINE std::size_t block_index::undo_window(block& first, std::byte const* end) noexcept {
    std::size_t kept = 0;
    for_each_part(first, end, [&](block& b) {
        if (b.has_state(block::state::growing)) kept += undo_growing(b);
        else free_again(b, std::move(b.waits));
    });
    return kept;
}

CUOTA_INLINE std::size_t block_index::skipped_for(std::size_t alignment, std::byte const* at) noexcept {
    return round_up(address(at), alignment) - address(at);
}

CUOTA_INLINE block& block_index::take(block& b, std::size_t size, std::size_t requested, label const& who,
                                      allocation_epoch epoch, side from, std::size_t alignment) {
    reserve_live();
    live_.expect(from == side::low ? b.at() : b.end() - size);
    block& taken = alignment > block::granularity ? cut_aligned(b, size, from, alignment)
                   : size < b.size                ? cut_off(b, size, from)
                                                  : cut_all(b);
    return enter(taken, requested, who, epoch);
}

CUOTA_INLINE void block_index::withhold(block& b) noexcept {
    live_.erase(b);
    b.become(block::state::in_transition);
}

CUOTA_INLINE void block_index::admit(block& b) {
    live_.reserve_one();
    b.become(block::state::live);
    live_.insert(b);
}

CUOTA_INLINE void block_index::cancel(block& b, wait_set pending) noexcept {
    store_.drop_note(*b.note);
    (void)free_again(b, std::move(pending));
}

CUOTA_INLINE block& block_index::release(block& b, wait_set waits) noexcept {
    live_.erase(b);
    store_.drop_note(*b.note);
    return free_again(b, std::move(waits));
}

CUOTA_INLINE void block_index::prepare_take() {
    reserve_live();
    store_.reserve_two();
}

CUOTA_INLINE block& block_index::cut_out(block& b, std::byte* at, std::size_t size) {
    wait_set before = b.waits.copy();
    wait_set behind = b.waits.copy();
    store_.reserve_two();
    pull_free(b);  // no throw below
    block* part = &b;
    if (b.at() != at) {
        part = &split(b, at);
        part->waits = std::move(b.waits);
        b.waits = std::move(before);
        put_free(b);
    }
    if (part->size != size) {
        block& rest = split(*part, at + size);
        rest.waits = std::move(behind);
        put_free(rest);
    }
    return *part;
}

CUOTA_INLINE block& block_index::cut_aligned(block& b, std::size_t size, side from, std::size_t alignment) {
    std::byte* const highest = b.end() - size;
    std::byte* const at =
        from == side::low ? b.at() + skipped_for(alignment, b.at()) : highest - address(highest) % alignment;
    block& part = cut_out(b, at, size);
    part.waits = {};
    return part;
}

CUOTA_INLINE block& block_index::cut_off(block& b, std::size_t size, side from) {
    bool const is_low = from == side::low;
    block& part = store_.make(is_low ? b.at() : b.end() - size, size);
    free_pages_ -= pages_between(b.at(), b.end());  // no throw below
    if (is_low) link_before(b, part);
    else link(b, part);
    free_.resize(b, is_low ? part.end() : b.at(), b.size - size);
    free_pages_ += pages_between(b.at(), b.end());
    return part;
}

CUOTA_INLINE block& block_index::cut_all(block& b) noexcept {
    pull_free(b);
    b.waits = {};
    return b;
}

CUOTA_INLINE void block_index::reserve_live() {
    live_.reserve_one();
    store_.reserve_note();
}

CUOTA_INLINE block& block_index::enter(block& b, std::size_t requested, label const& who,
                                       allocation_epoch epoch) noexcept {
    b.requested = requested;
    b.note = &store_.make_note();
    *b.note = {.name = who.name, .where = who.where, .epoch = epoch};
    b.become(block::state::live);
    live_.insert(b);
    return b;
}

CUOTA_INLINE bool block_index::merge_waits(block& into, block& from) noexcept {
    try {
        into.waits.merge(from.waits);
        return true;
    } catch (std::bad_alloc const&) { return false; }
}

CUOTA_INLINE block& block_index::free_again(block& b, wait_set waits) noexcept {
    b.become(block::state::free);
    b.waits = std::move(waits);
    block* kept = &b;
    if (b.after && b.after->may_merge() && merge_waits(b, *b.after)) {
        pull_free(*b.after);
        swallow_next(b);
    }
    if (b.before && b.before->may_merge() && merge_waits(*b.before, b)) {
        kept = b.before;
        pull_free(*kept);
        swallow_next(*kept);
    }
    put_free(*kept);
    return *kept;
}

CUOTA_INLINE std::size_t block_index::undo_growing(block& b) noexcept {
    if (b.requested == 0) return become_hole(b), 0;
    b.become(block::state::in_transition);
    try {
        if (b.requested != b.size) become_hole(split(b, b.at() + b.requested));
    } catch (std::bad_alloc const&) {}  // all stays held
    return b.size;
}

CUOTA_INLINE std::uintptr_t block_index::address(void const* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
}

CUOTA_INLINE bool block_index::is_paged(void const* p) const noexcept {
    return address(p) >= address(range_) && address(p) < address(range_end_);
}

CUOTA_INLINE void block_index::put_free(block& b) noexcept {
    free_.insert(b);
    free_pages_ += pages_between(b.at(), b.end());
}

CUOTA_INLINE void block_index::pull_free(block& b) noexcept {
    free_.erase(b);
    free_pages_ -= pages_between(b.at(), b.end());
}

CUOTA_INLINE void block_index::put_hole(block& b) noexcept {
    b.become(block::state::hole);
    b.left = nullptr;
    b.right = std::exchange(holes_, &b);
    if (b.right) b.right->left = &b;
}

CUOTA_INLINE void block_index::pull_hole(block& b) noexcept {
    (b.left ? b.left->right : holes_) = b.right;
    if (b.right) b.right->left = b.left;
    b.left = b.right = nullptr;
}

CUOTA_INLINE block& block_index::become_hole(block& b) noexcept {
    block* kept = &b;
    if (b.after && b.after->is_hole()) {
        pull_hole(*b.after);
        swallow_next(b);
    }
    if (b.before && b.before->is_hole()) {
        kept = b.before;
        pull_hole(*kept);
        swallow_next(*kept);
    }
    put_hole(*kept);
    return *kept;
}

CUOTA_INLINE void block_index::link_before(block& b, block& lower) noexcept {
    lower.after = &b;
    lower.before = std::exchange(b.before, &lower);
    if (lower.before) lower.before->after = &lower;
    if (&b == first_) first_ = &lower;
}

CUOTA_INLINE void block_index::link(block& b, block& next) noexcept {
    next.before = &b;
    next.after = std::exchange(b.after, &next);
    if (next.after) next.after->before = &next;
}

CUOTA_INLINE block& block_index::split(block& b, std::byte* at) {
    block& rest = store_.make(at, static_cast<std::size_t>(b.end() - at));
    b.size -= rest.size;
    link(b, rest);
    return rest;
}

CUOTA_INLINE void block_index::swallow_next(block& b) noexcept {
    block& next = *b.after;
    b.size += next.size;
    b.after = next.after;
    if (b.after) b.after->before = &b;
    store_.drop(next);
}

}  // namespace cuota::inline v0::detail

#endif
