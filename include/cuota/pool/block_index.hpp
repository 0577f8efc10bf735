// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a pool: which bytes are free, which are live, who their neighbours are. Host bookkeeping only:
/// it never touches the memory it speaks of, and makes no CUDA call.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include <cuota/core/label.hpp>
#include <cuota/pool/block.hpp>
#include <cuota/pool/free_bins.hpp>
#include <cuota/pool/live_table.hpp>

namespace cuota::inline v0::detail {

/// All blocks of all segments, over all streams. Not thread-safe: under the pool's lock.
/// Cost: find, take, release and merge are a few loads for blocks under 16 KiB, O(log n) in the free blocks of like
/// size above; to fail is as cheap as to find.
class block_index {
public:
    /// Enters a segment as one free block. Throws: std::bad_alloc; unchanged then.
    block& add_segment(void* at, std::size_t size) {
        block& whole = store_.make(static_cast<std::byte*>(at), size);
        free_.insert(whole);
        return whole;
    }

    /// Forgets a free block that is a whole segment.
    void remove_segment(block& whole) noexcept {
        free_.erase(whole);
        store_.drop(whole);
    }

    /// The free blocks of at least `size` bytes, the smallest first, until visit(block) says false.
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

    /// Which end of a free block a request gets.
    enum class end { low, high };

    /// Makes `size` bytes at one end of a free block live; the rest stays free, and waits for what the whole did.
    /// Throws: std::bad_alloc; unchanged then.
    block& take(block& b, std::size_t size, std::size_t requested, label const& who, birth born = {},
                end from = end::low) {
        live_.reserve_one();
        if (from == end::high && size < b.size) return enter(split_high(b, size), requested, who, born);
        block* const rest = size < b.size ? &store_.make(b.at + size, b.size - size) : nullptr;

        free_.erase(b);  // nothing throws from here on
        if (rest) {
            rest->before = &b;
            rest->after = std::exchange(b.after, rest);
            if (rest->after) rest->after->before = rest;
            rest->waits = std::move(b.waits);
            b.size = size;
            free_.insert(*rest);
        }
        b.waits = {};  // whoever took it has waited
        return enter(b, requested, who, born);
    }

    /// The live block that starts at p, or null.
    [[nodiscard]] block* find_live(void const* p) const noexcept { return live_.find(p); }

    /// Makes a block free that is live or held, to be used again after `waits`, and merges it with its free neighbours: the merged
    /// block waits for what each of its parts did.
    block& release(block& b, wait_set waits) noexcept {
        live_.erase(b);
        b.become(block::state::free);
        b.waits = std::move(waits);
        block* kept = &b;
        if (b.after && b.after->may_merge() && merge_waits(b, *b.after)) {
            free_.erase(*b.after);
            swallow_next(b);
        }
        if (b.before && b.before->may_merge() && merge_waits(*b.before, b)) {
            kept = b.before;
            free_.erase(*kept);
            swallow_next(*kept);
        }
        free_.insert(*kept);
        return *kept;
    }

    [[nodiscard]] std::size_t largest_free() const noexcept { return free_.largest(); }
    [[nodiscard]] std::size_t free_blocks() const noexcept { return free_.count(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.count(); }

private:
    // Cuts the last `size` bytes off a free block, which waits on for what it did; they are in no bin.
    block& split_high(block& b, std::size_t size) {
        block& last = store_.make(b.at + (b.size - size), size);
        free_.erase(b);  // nothing throws from here on
        last.before = &b;
        last.after = std::exchange(b.after, &last);
        if (last.after) last.after->before = &last;
        b.size -= size;
        free_.insert(b);
        return last;
    }
    // After live_.reserve_one: a block that is in no bin becomes live.
    block& enter(block& b, std::size_t requested, label const& who, birth born) noexcept {
        b.requested = requested;
        b.name = who.name;
        b.where = who.where;
        b.stream = block::no_stream;
        b.born = born;
        b.become(block::state::live);
        live_.insert(b);
        return b;
    }

    // False, with both as they were, when the host has no memory to write down the waits of both: two free blocks side
    // by side are a pity, a lost wait would be a race.
    [[nodiscard]] static bool merge_waits(block& into, block& from) noexcept {
        try {
            into.waits.merge(from.waits);
            return true;
        } catch (std::bad_alloc const&) { return false; }
    }
    void swallow_next(block& b) noexcept {
        block& next = *b.after;
        b.size += next.size;
        b.after = next.after;
        if (b.after) b.after->before = &b;
        store_.drop(next);
    }

    block_store store_;
    free_bins free_;
    live_table live_;
};

}  // namespace cuota::inline v0::detail
