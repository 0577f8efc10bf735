// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A model of rmm::mr::arena_memory_resource on addresses alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "coalescing_blocks.hpp"

namespace models {

/// The resource with one arena besides the global one, as one stream has. All of its memory is there from the start. Requests above 1 MiB
/// are served by the global arena, others by the own arena from superblocks that it takes from the global one; both use the first fit by
/// address. When a request does not fit, the own arena returns its superblocks, and the request is tried again.
class rmm_arena {
public:
    explicit rmm_arena(std::uint64_t limit) : reserved_{limit / alignment * alignment} {
        if (reserved_ >= superblock_bytes) global_.emplace(alignment, superblock{reserved_});
    }
    /// Returns an address; nullopt for an out-of-memory error.
    [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes) {
        std::uint64_t const size = std::max(rounded_up(bytes, alignment), alignment);
        auto at = try_allocate(size);
        if (at) return at;
        while (!own_.empty()) put_back(own_.extract(own_.begin()));
        return try_allocate(size);
    }
    void deallocate(std::uint64_t at, std::uint64_t bytes) {
        std::uint64_t const size = std::max(rounded_up(bytes, alignment), alignment);
        if (auto const s = containing(global_, at); size > superblock_bytes && s != global_.end())
            return give_back_global(s, at, size);
        if (auto const s = containing(own_, at); s != own_.end()) return s->second.give(at - s->first, size);
        give_back_global(containing(global_, at), at, size);
    }
    [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
    [[nodiscard]] std::uint64_t peak_reserved() const { return reserved_; }

private:
    static constexpr std::uint64_t alignment = 256;
    static constexpr std::uint64_t superblock_bytes = std::uint64_t{1} << 20;  // at least

    struct superblock {
        explicit superblock(std::uint64_t bytes) : size{bytes}, free{{0, bytes}} {}

        std::uint64_t size;
        std::map<std::uint64_t, std::uint64_t> free;  // size by offset

        [[nodiscard]] bool is_empty() const { return free.size() == 1 && free.begin()->second == size; }
        [[nodiscard]] auto first_fit(std::uint64_t bytes) {
            auto b = free.begin();
            while (b != free.end() && b->second < bytes) ++b;
            return b;
        }
        [[nodiscard]] std::uint64_t take(std::uint64_t bytes) {
            auto const b = first_fit(bytes);
            auto const [at, had] = *b;
            auto const after = free.erase(b);
            if (had != bytes) free.emplace_hint(after, at + bytes, had - bytes);
            return at;
        }
        void give(std::uint64_t at, std::uint64_t bytes) {
            auto const [b, is_new] = free.emplace(at, bytes);
            if (auto const n = std::next(b); n != free.end() && at + bytes == n->first) {
                b->second += n->second;
                free.erase(n);
            }
            if (b == free.begin()) return;
            if (auto const p = std::prev(b); p->first + p->second == at) {
                p->second += b->second;
                free.erase(b);
            }
        }
    };
    using superblocks = std::map<std::uint64_t, superblock>;  // by address

    [[nodiscard]] static superblocks::iterator first_fit(superblocks& all, std::uint64_t size) {
        auto s = all.begin();
        while (s != all.end() && s->second.first_fit(size) == s->second.free.end()) ++s;
        return s;
    }
    [[nodiscard]] static superblocks::iterator containing(superblocks& all, std::uint64_t at) {
        auto const after = all.upper_bound(at);
        if (after == all.begin()) return all.end();
        auto const s = std::prev(after);
        return at < s->first + s->second.size ? s : all.end();
    }

    [[nodiscard]] std::optional<std::uint64_t> try_allocate(std::uint64_t size) {
        superblocks& from = size > superblock_bytes ? global_ : own_;
        auto s = size > superblock_bytes ? cut_global(size) : first_fit(own_, size);
        if (s == from.end()) {
            if (size > superblock_bytes) return std::nullopt;
            auto const taken = cut_global(size);
            if (taken == global_.end()) return std::nullopt;
            s = own_.insert(global_.extract(taken)).position;
        }
        return s->first + s->second.take(size);
    }
    // The first superblock that fits; a large empty one is cut.
    [[nodiscard]] superblocks::iterator cut_global(std::uint64_t size) {
        auto const s = first_fit(global_, size);
        if (s == global_.end()) return s;
        std::uint64_t const kept = std::max(superblock_bytes, size);
        if (!s->second.is_empty() || s->second.size < kept + superblock_bytes) return s;
        global_.emplace(s->first + kept, superblock{s->second.size - kept});
        s->second = superblock{kept};
        return s;
    }
    void give_back_global(superblocks::iterator s, std::uint64_t at, std::uint64_t size) {
        s->second.give(at - s->first, size);
        if (s->second.is_empty()) put_back(global_.extract(s));
    }
    // Adds a superblock to the global arena; empty ones merge.
    void put_back(superblocks::node_type node) {
        auto const s = global_.insert(std::move(node)).position;
        if (!s->second.is_empty()) return;
        auto const joins = [](superblocks::iterator a, superblocks::iterator b) {
            return a->second.is_empty() && b->second.is_empty() && a->first + a->second.size == b->first;
        };
        if (auto const n = std::next(s); n != global_.end() && joins(s, n)) {
            s->second = superblock{s->second.size + n->second.size};
            global_.erase(n);
        }
        if (s == global_.begin()) return;
        if (auto const p = std::prev(s); joins(p, s)) {
            p->second = superblock{p->second.size + s->second.size};
            global_.erase(s);
        }
    }

    std::uint64_t const reserved_;
    superblocks global_;
    superblocks own_;
};

}  // namespace models
