// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a pool: which bytes are free, which are live, who their neighbours are. Host bookkeeping only:
/// it never touches the memory it speaks of, and makes no CUDA call.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include <cuota/core/label.hpp>
#include <cuota/pool/stream_order.hpp>

namespace cuota::inline v0::detail {

struct block;

struct by_size_then_place {
    using is_transparent = void;
    bool operator()(block const* a, block const* b) const noexcept;
    bool operator()(block const* a, std::size_t size) const noexcept;
    bool operator()(std::size_t size, block const* b) const noexcept;
};
using free_set = std::set<block*, by_size_then_place>;

/// A run of bytes inside one segment. Its place in the free set travels with it, so that a release never allocates.
struct block {
    std::byte* at;
    std::size_t size;
    block* before = nullptr;  // neighbours in the segment
    block* after = nullptr;
    wait_set waits{};           // while free: what must be over before the bytes are used
    std::size_t requested = 0;  // while live: what was asked for
    tag name{};
    place where{};
    free_set::node_type seat{};  // while live: the node to sit down with again

    [[nodiscard]] bool is_free() const noexcept { return seat.empty(); }
    [[nodiscard]] bool is_whole_segment() const noexcept { return !before && !after; }
};

inline bool by_size_then_place::operator()(block const* a, block const* b) const noexcept {
    return a->size != b->size ? a->size < b->size : std::less<>{}(a->at, b->at);
}
inline bool by_size_then_place::operator()(block const* a, std::size_t size) const noexcept {
    return a->size < size;
}
inline bool by_size_then_place::operator()(std::size_t size, block const* b) const noexcept {
    return size < b->size;
}

/// All blocks of all segments, over all streams. Find, take, release, merge and fail are O(log n) in the number of
/// free blocks. Not thread-safe: under the pool's lock.
class block_index {
public:
    block_index() = default;
    block_index(block_index const&) = delete;
    block_index& operator=(block_index const&) = delete;
    ~block_index() {
        for (block* b : free_) delete b;
        for (auto const& [at, b] : live_) delete b;
    }

    /// Enters a segment as one free block. Throws: std::bad_alloc; unchanged then.
    block& add_segment(void* at, std::size_t size) {
        auto fresh = std::make_unique<block>(block{static_cast<std::byte*>(at), size});
        free_.insert(fresh.get());
        return *fresh.release();
    }

    /// Forgets a free block that is a whole segment.
    void remove_segment(block& whole) noexcept {
        free_.erase(&whole);
        delete &whole;
    }

    /// The free blocks of at least `size` bytes, smallest first, lowest address first.
    template <class Visit>
    void for_each_fit(std::size_t size, Visit visit) const {
        for (auto it = free_.lower_bound(size); it != free_.end(); ++it)
            if (!visit(**it)) return;
    }

    template <class Visit>
    void for_each_free(Visit visit) const {
        for (block* b : free_) visit(*b);
    }
    /// Until visit(block) says false.
    template <class Visit>
    void for_each_free_from_largest(Visit visit) const {
        for (auto it = free_.rbegin(); it != free_.rend(); ++it)
            if (!visit(**it)) return;
    }
    template <class Visit>
    void for_each_live(Visit visit) const {
        for (auto const& [at, b] : live_) visit(*b);
    }

    /// Makes the first `size` bytes of a free block live; the rest stays free, and waits for what the whole did.
    /// Throws: std::bad_alloc; unchanged then.
    block& take(block& b, std::size_t size, std::size_t requested, label const& who) {
        std::unique_ptr<block> rest;
        free_set::node_type rest_seat;
        if (size < b.size) {
            rest = std::make_unique<block>(block{b.at + size, b.size - size, &b, b.after, b.waits});
            free_set one;  // the only way to a node of its own
            one.insert(rest.get());
            rest_seat = one.extract(one.begin());
        }
        live_.emplace(b.at, &b);

        b.seat = free_.extract(&b);  // nothing throws from here on
        if (rest) {
            if (b.after) b.after->before = rest.get();
            b.after = rest.get();
            b.size = size;
            free_.insert(std::move(rest_seat));
            (void)rest.release();
        }
        b.waits = {};  // whoever took it has waited
        b.requested = requested;
        b.name = who.name;
        b.where = who.where;
        return b;
    }

    /// The live block that starts at p, or null.
    [[nodiscard]] block* find_live(void const* p) const noexcept {
        auto const found = live_.find(const_cast<void*>(p));
        return found == live_.end() ? nullptr : found->second;
    }

    /// Makes a live block free, to be used again after `waits`, and merges it with its free neighbours: the merged
    /// block waits for what each of its parts did.
    block& release(block& b, wait_set waits) noexcept {
        live_.erase(b.at);
        b.waits = std::move(waits);
        b.requested = 0;
        block* kept = &b;
        sit(b);
        if (b.after && b.after->is_free()) join(b, *b.after);
        if (b.before && b.before->is_free()) {
            block* const before = b.before;
            if (join(*before, b)) kept = before;
        }
        return *kept;
    }

    [[nodiscard]] std::size_t largest_free() const noexcept {
        return free_.empty() ? 0 : (*free_.rbegin())->size;
    }
    [[nodiscard]] std::size_t free_blocks() const noexcept { return free_.size(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    void sit(block& b) noexcept {
        b.seat.value() = &b;
        free_.insert(std::move(b.seat));
        b.seat = {};
    }

    // Takes the right neighbour into the left one. False, with both as they were, when the host has no memory to
    // write down the waits of both: two free blocks side by side are a pity, a lost wait would be a race.
    bool join(block& left, block& right) noexcept {
        try {
            left.waits.merge(right.waits);
        } catch (std::bad_alloc const&) { return false; }
        free_.erase(&right);
        left.seat = free_.extract(&left);
        left.size += right.size;
        left.after = right.after;
        if (left.after) left.after->before = &left;
        delete &right;
        sit(left);
        return true;
    }

    free_set free_;
    std::unordered_map<void*, block*> live_;
};

}  // namespace cuota::inline v0::detail
