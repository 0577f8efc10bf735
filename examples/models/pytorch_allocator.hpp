// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp) on addresses alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coalescing_blocks.hpp"

namespace models {

/// The allocator of one device with its default settings, or with expandable_segments. Requests come from one stream, and no graph is
/// captured.
class pytorch_allocator {
public:
    /// `limit`: the device's bytes for it.
    explicit pytorch_allocator(std::uint64_t limit = unlimited, bool is_expandable = false)
        : limit_{limit}, is_expandable_{is_expandable} {}

    /// Returns an address; nullopt for an out-of-memory error, before which cached segments were freed.
    [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes) {
        std::uint64_t const size = std::max(rounded_up(bytes, smallest), smallest);
        pool& p = pools_[size > small];
        auto b = take_free(p, size);
        if (b == blocks_.end()) b = grow(p, size);
        if (b == blocks_.end()) {
            release_cached();
            b = grow(p, size);
        }
        if (b == blocks_.end()) return std::nullopt;
        if (splits(p, b->second.size - size)) insert(blocks_.split(b, size));
        b->second.is_free = false;
        return b->first;
    }
    void deallocate(std::uint64_t at, std::uint64_t) {
        auto const b = blocks_.find(at);
        b->second.is_free = true;
        insert(merged(b));
    }
    [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
    [[nodiscard]] std::uint64_t peak_reserved() const { return peak_reserved_; }

private:
    using iterator = coalescing_blocks::iterator;

    static constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
    static constexpr std::uint64_t smallest = 512;
    static constexpr std::uint64_t small = MiB;  // the largest request of the small pool
    static constexpr std::uint64_t address_space = std::uint64_t{1} << 44;  // of an expandable segment

    struct pool {
        std::uint64_t index;
        std::uint64_t page;  // of expandable segments; a segment of medium requests
        std::set<std::pair<std::uint64_t, std::uint64_t>> free{};  // size, address
        std::set<std::uint64_t> unmapped{};                        // addresses
    };

    [[nodiscard]] bool splits(pool const& p, std::uint64_t rest) const {
        return p.index == 0 || is_expandable_ ? rest >= smallest : rest > small;
    }
    void insert(iterator b) {
        pool& p = pools_[b->second.pool];
        b->second.is_free = true;
        if (b->second.is_mapped) p.free.emplace(b->second.size, b->first);
        else p.unmapped.insert(b->first);
    }
    void erase(iterator b) {
        pool& p = pools_[b->second.pool];
        if (b->second.is_mapped) p.free.erase({b->second.size, b->first});
        else p.unmapped.erase(b->first);
    }
    // Merges a block that is in no set with its free neighbours of the same kind.
    [[nodiscard]] iterator merged(iterator b) {
        auto const joins = [&](iterator other) {
            return other != blocks_.end() && other->second.is_free &&
                   other->second.is_mapped == b->second.is_mapped;
        };
        if (iterator const n = blocks_.next(b); joins(n)) {
            erase(n);
            blocks_.swallow_next(b);
        }
        if (iterator const p = blocks_.previous(b); joins(p)) {
            erase(p);
            blocks_.swallow_next(p);
            return p;
        }
        return b;
    }

    // The tightest fit. A block at the end of mapped memory counts with the addresses behind it.
    [[nodiscard]] iterator take_free(pool& p, std::uint64_t size) {
        auto found = p.free.lower_bound({size, 0});
        if (found == p.free.end()) return blocks_.end();
        if (is_expandable_) {
            auto const expandable = [&](auto at) {
                iterator const b = blocks_.find(at->second);
                iterator const n = blocks_.next(b);
                return b->second.size + (n != blocks_.end() && !n->second.is_mapped ? n->second.size : 0);
            };
            for (auto next = std::next(found); next != p.free.end() && expandable(next) < expandable(found);)
                found = next++;
        }
        iterator const b = blocks_.find(found->second);
        p.free.erase(found);
        return b;
    }

    void count(std::uint64_t bytes) {
        reserved_ += bytes;
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    [[nodiscard]] bool has_room(std::uint64_t bytes) const {
        return bytes <= limit_ && reserved_ <= limit_ - bytes;
    }

    // Returns a block of at least this size, in no set; end() if the device has too little.
    [[nodiscard]] iterator grow(pool& p, std::uint64_t size) {
        if (is_expandable_) return expand(p, size);
        std::uint64_t const medium = 10 * MiB;
        std::uint64_t const bytes = size <= small   ? 2 * MiB
                                    : size < medium ? 20 * MiB
                                                    : rounded_up(size, 2 * MiB);
        if (!has_room(bytes)) return blocks_.end();
        count(bytes);
        return blocks_.add_segment(bytes, p.index);
    }

    // --- expandable segments ---

    [[nodiscard]] bool has_addresses(iterator b, std::uint64_t size) {
        std::uint64_t found = 0;
        for (; found < size && b != blocks_.end() && b->second.is_free; b = blocks_.next(b))
            found += b->second.size;
        return found >= size;
    }
    // The lowest addresses that suffice, with the free block before them.
    [[nodiscard]] iterator addresses_for(pool& p, std::uint64_t size) {
        for (std::uint64_t const at : p.unmapped) {
            iterator b = blocks_.find(at);
            if (iterator const before = blocks_.previous(b);
                before != blocks_.end() && before->second.is_free)
                b = before;
            if (has_addresses(b, size)) return b;
        }
        iterator const b = blocks_.add_segment(address_space, p.index);
        b->second.is_mapped = false;
        insert(b);
        return b;
    }
    [[nodiscard]] iterator expand(pool& p, std::uint64_t size) {
        iterator b = addresses_for(p, size);
        if (!b->second.is_mapped) {
            b = mapped(p, b, std::min(b->second.size, size));
        } else {
            erase(b);
        }
        while (b != blocks_.end() && b->second.size < size) {
            iterator const next = blocks_.next(b);
            std::uint64_t const missing = size - b->second.size;
            b->second.is_free = true;
            insert(b);
            b = mapped(p, next, std::min(missing, next->second.size));
        }
        return b;
    }
    // Maps the first pages of an unmapped block, and returns them in no set, merged with free blocks beside them.
    [[nodiscard]] iterator mapped(pool& p, iterator b, std::uint64_t bytes) {
        std::uint64_t const size = rounded_up(bytes, p.page);
        if (!has_room(size)) return blocks_.end();
        count(size);
        erase(b);
        if (b->second.size > size) insert(blocks_.split(b, size));
        b->second.is_mapped = true;
        return merged(b);
    }

    // --- release ---

    void release_cached() {
        for (pool& p : pools_) {
            std::vector<std::uint64_t> all;
            for (auto const& [size, at] : p.free) all.push_back(at);
            for (std::uint64_t const at : all) {
                iterator const b = blocks_.find(at);
                if (is_expandable_) {
                    unmap(p, b);
                } else if (blocks_.previous(b) == blocks_.end() && blocks_.next(b) == blocks_.end()) {
                    reserved_ -= b->second.size;
                    erase(b);
                    blocks_.erase(b);
                }
            }
        }
    }
    void unmap(pool& p, iterator b) {
        std::uint64_t const base = b->second.segment;
        std::uint64_t const begin = base + rounded_up(b->first - base, p.page);
        std::uint64_t const end = base + (b->first + b->second.size - base) / p.page * p.page;
        if (begin >= end) return;
        erase(b);
        if (begin != b->first) {
            iterator const rest = blocks_.split(b, begin - b->first);
            insert(b);
            b = rest;
        }
        if (end != b->first + b->second.size) insert(blocks_.split(b, end - b->first));
        reserved_ -= b->second.size;
        b->second.is_mapped = false;
        insert(merged(b));
    }

    std::uint64_t const limit_;
    bool const is_expandable_;
    coalescing_blocks blocks_;
    std::array<pool, 2> pools_{pool{0, 2 * MiB}, pool{1, 20 * MiB}};
    std::uint64_t reserved_ = 0;
    std::uint64_t peak_reserved_ = 0;
};

}  // namespace models
