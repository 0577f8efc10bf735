// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A model of rmm::mr::pool_memory_resource on addresses alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "coalescing_blocks.hpp"

namespace models {

/// The pool with one stream: best fit in blocks that merge with their neighbours, and growth by at least the pool's size. It never releases
/// memory.
class rmm_pool {
public:
    /// With a limit, the pool has it from the start as one block, which is its best case.
    explicit rmm_pool(std::uint64_t limit = unlimited) : is_limited_{limit != unlimited} {
        if (is_limited_ && limit / alignment != 0) {
            reserved_ = limit / alignment * alignment;
            insert(blocks_.add_segment(reserved_, 0));
        }
    }
    /// Returns an address; nullopt for an out-of-memory error.
    [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes) {
        std::uint64_t const size = std::max(rounded_up(bytes, alignment), alignment);
        auto found = free_.lower_bound({size, 0});
        if (found == free_.end()) {
            if (is_limited_) return std::nullopt;
            std::uint64_t const grown = std::max(size, reserved_);
            reserved_ += grown;
            found = insert(blocks_.add_segment(grown, 0));
        }
        auto const b = blocks_.find(found->second);
        free_.erase(found);
        if (b->second.size > size) insert(blocks_.split(b, size));
        b->second.is_free = false;
        return b->first;
    }
    void deallocate(std::uint64_t at, std::uint64_t) {
        auto b = blocks_.find(at);
        if (auto const n = blocks_.next(b); n != blocks_.end() && n->second.is_free) {
            free_.erase({n->second.size, n->first});
            blocks_.swallow_next(b);
        }
        if (auto const p = blocks_.previous(b); p != blocks_.end() && p->second.is_free) {
            free_.erase({p->second.size, p->first});
            blocks_.swallow_next(p);
            b = p;
        }
        insert(b);
    }
    [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
    [[nodiscard]] std::uint64_t peak_reserved() const { return reserved_; }

private:
    static constexpr std::uint64_t alignment = 256;
    using sizes = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // size, address

    sizes::iterator insert(coalescing_blocks::iterator b) {
        b->second.is_free = true;
        return free_.emplace(b->second.size, b->first).first;
    }

    bool const is_limited_;
    coalescing_blocks blocks_;
    sizes free_;
    std::uint64_t reserved_ = 0;
};

}  // namespace models
