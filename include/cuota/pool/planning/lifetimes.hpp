// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Lifetimes of memory blocks, the input of static memory planning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// The lifetime [from, until) of a block, in any increasing count. A block of 0 bytes occupies nothing.
/// Example: examples/plan_trace.cpp
struct lifetime {
    std::uint64_t from;   ///< inclusive
    std::uint64_t until;  ///< exclusive; must exceed from
    std::size_t size;     ///< bytes, before alignment

    friend bool operator==(lifetime const&, lifetime const&) noexcept = default;  ///< compares all three
};

namespace detail {

[[nodiscard]] std::string lifetime_text(lifetime const& l);

/// Rounds the sizes up to multiples of `alignment`. Throws: usage_error if that is not a power of two, a lifetime is empty or reversed, or
/// the sum overflows.
[[nodiscard]] std::vector<std::size_t> checked_sizes(std::span<lifetime const> blocks, std::size_t alignment,
                                                     source_location where);

/// A block that lives in the sections [first, last).
struct sectioned_block {
    std::uint32_t first;
    std::uint32_t last;
    std::size_t size;
    double duration;  // in the input's count
    std::size_t row;  // of the input
};

/// Blocks connected by overlapping lifetimes. Their time is divided into sections, maximal sets of blocks that live together; overlapping
/// blocks share one.
struct lifetime_part {
    std::vector<sectioned_block> blocks;
    std::uint32_t sections = 0;
    std::size_t most_alive = 0;  // bytes of the fullest section

    [[nodiscard]] std::vector<std::size_t> alive() const;
};

struct lifetime_edge {
    std::uint64_t step;
    bool begins;
    std::size_t row;
};

/// The beginnings and ends of nonempty blocks by time, ends first. Independent of the row order, except between equal rows.
[[nodiscard]] std::vector<lifetime_edge> sorted_edges(std::span<lifetime const> blocks);

/// Divides the nonempty blocks into parts that do not overlap in time. Cost: O(n log n).
[[nodiscard]] std::vector<lifetime_part> independent_parts(std::span<lifetime const> blocks,
                                                           std::span<std::size_t const> sizes);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string lifetime_text(lifetime const& l) {
    return message("[{}, {}) of {} B", {l.from, l.until, l.size});
}

CUOTA_INLINE std::vector<std::size_t> checked_sizes(std::span<lifetime const> blocks, std::size_t alignment,
                                                    source_location where) {
    if (!is_power_of_two(alignment))
        throw_usage_error(where, "an alignment of {} B is not a power of two", {alignment});
    std::vector<std::size_t> sizes;
    sizes.reserve(blocks.size());
    std::size_t total = 0;
    for (std::size_t row = 0; row != blocks.size(); ++row) {
        lifetime const& block = blocks[row];
        if (block.from >= block.until)
            throw_usage_error(where, "row {}: the lifetime {} is {}",
                              {row, lifetime_text(block), block.from == block.until ? "empty" : "reversed"});
        auto const rounded = checked_round_up(block.size, alignment);
        auto const sum = rounded ? checked_add(total, *rounded) : std::nullopt;
        if (!sum)
            throw_usage_error(where, "row {}, lifetime {}: the total size exceeds the range of std::size_t",
                              {row, lifetime_text(block)});
        total = *sum;
        sizes.push_back(*rounded);
    }
    return sizes;
}

CUOTA_INLINE std::vector<std::size_t> lifetime_part::alive() const {
    std::vector<std::size_t> bytes(sections, 0);
    for (sectioned_block const& block : blocks)
        for (std::uint32_t s = block.first; s != block.last; ++s) bytes[s] += block.size;
    return bytes;
}

CUOTA_INLINE std::vector<lifetime_edge> sorted_edges(std::span<lifetime const> blocks) {
    std::vector<std::size_t> rows(blocks.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
        return std::tie(blocks[a].from, blocks[a].until, blocks[a].size) <
               std::tie(blocks[b].from, blocks[b].until, blocks[b].size);
    });
    std::vector<lifetime_edge> edges;
    edges.reserve(2 * blocks.size());
    for (std::size_t const row : rows)
        if (blocks[row].size != 0) {
            edges.push_back({blocks[row].from, true, row});
            edges.push_back({blocks[row].until, false, row});
        }
    std::stable_sort(edges.begin(), edges.end(), [](lifetime_edge const& a, lifetime_edge const& b) {
        return std::tie(a.step, a.begins) < std::tie(b.step, b.begins);
    });
    return edges;
}

CUOTA_INLINE std::vector<lifetime_part> independent_parts(std::span<lifetime const> blocks,
                                                          std::span<std::size_t const> sizes) {
    std::vector<lifetime_part> parts;
    std::vector<std::size_t> place_of(blocks.size());
    std::size_t alive = 0, live_bytes = 0;
    bool grew =
        // since the last section: when a block ends, the live ones are a maximal set
        false;
    for (lifetime_edge const& edge : sorted_edges(blocks)) {
        if (alive == 0) parts.emplace_back();
        lifetime_part& part = parts.back();
        lifetime const& block = blocks[edge.row];
        if (edge.begins) {
            place_of[edge.row] = part.blocks.size();
            part.blocks.push_back(
                {part.sections, 0, sizes[edge.row], static_cast<double>(block.until - block.from), edge.row});
            ++alive;
            live_bytes += sizes[edge.row];
            part.most_alive = std::max(part.most_alive, live_bytes);
            grew = true;
            continue;
        }
        if (std::exchange(grew, false)) ++part.sections;
        part.blocks[place_of[edge.row]].last = part.sections;
        --alive;
        live_bytes -= sizes[edge.row];
    }
    return parts;
}

}  // namespace cuota::inline v0::detail

#endif
