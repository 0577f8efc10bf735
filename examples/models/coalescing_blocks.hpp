// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Blocks of segments on addresses alone, for models of allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace models {

inline constexpr std::uint64_t unlimited = ~std::uint64_t{0};

[[nodiscard]] constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) noexcept {
    return (bytes + unit - 1) / unit * unit;
}

struct block {
    std::uint64_t size = 0;
    std::uint64_t segment = 0;  ///< address of the segment; blocks of different segments do not merge
    std::uint64_t pool = 0;     ///< index, for allocators with several
    bool is_free = false;
    bool is_mapped = true;  ///< has memory
};

/// All blocks by address, without gaps within a segment.
class coalescing_blocks {
public:
    using iterator = std::map<std::uint64_t, block>::iterator;

    /// Adds a segment as one block. Segments are never adjacent.
    iterator add_segment(std::uint64_t bytes, std::uint64_t pool) {
        std::uint64_t const at = next_;
        next_ += rounded_up(bytes, alignment) + alignment;
        return all_.emplace_hint(all_.end(), at, block{bytes, at, pool, false, true});
    }
    iterator find(std::uint64_t at) { return all_.find(at); }
    /// The neighbours in the same segment, or end().
    iterator end() { return all_.end(); }
    iterator next(iterator b) {
        iterator const n = std::next(b);
        return n != all_.end() && n->second.segment == b->second.segment ? n : all_.end();
    }
    iterator previous(iterator b) {
        if (b->first == b->second.segment) return all_.end();
        return std::prev(b);
    }
    /// Cuts a block in two; returns the second part, which is otherwise equal.
    iterator split(iterator b, std::uint64_t size) {
        block rest = b->second;
        rest.size -= size;
        b->second.size = size;
        return all_.emplace_hint(std::next(b), b->first + size, rest);
    }
    /// Makes the next block part of this one.
    void swallow_next(iterator b) {
        iterator const n = std::next(b);
        b->second.size += n->second.size;
        all_.erase(n);
    }
    void erase(iterator b) { all_.erase(b); }

private:
    static constexpr std::uint64_t alignment = std::uint64_t{2} << 20;
    std::map<std::uint64_t, block> all_;
    std::uint64_t next_ = alignment;
};

}  // namespace models
