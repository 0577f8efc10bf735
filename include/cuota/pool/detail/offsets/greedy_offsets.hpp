// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Greedy offsets: first fit in a given order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace cuota::inline v0::detail {

struct part_offsets {
    std::vector<std::size_t> offsets;
    std::size_t peak = 0;
};

using block_order = std::vector<std::uint32_t>;

/// Placed blocks by offset.
class placed_blocks {
public:
    explicit placed_blocks(std::size_t expected) { placed_.reserve(expected); }

    /// Returns the lowest offset without an overlap.
    std::size_t place(sectioned_block const& block);

private:
    struct entry {
        std::size_t offset, end;
        std::uint32_t first, last;

        friend bool operator<(entry const& a, entry const& b) noexcept { return a.offset < b.offset; }
    };
    std::vector<entry> placed_;
};

/// Cost: O(n log n) plus a step per overlapping pair, at most n^2.
[[nodiscard]] part_offsets place_in_order(lifetime_part const& part, block_order const& order);

[[nodiscard]] std::array<block_order, 6> first_orders(lifetime_part const& part);

/// Moves the blocks that end above the bound to the front.
[[nodiscard]] block_order highest_first(lifetime_part const& part, part_offsets const& plan,
                                        std::size_t bound, block_order order);

/// The best of the initial orders, and of `rounds` times highest_first for the two best. Ends early at a peak of `enough`, or after at
/// least one order when is_over().
template <class IsOver>
[[nodiscard]] part_offsets greedy_offsets(lifetime_part const& part, std::size_t enough, int rounds,
                                          IsOver is_over) {
    struct attempt {
        block_order order;
        part_offsets plan;
    };
    std::vector<attempt> attempts;
    for (block_order& order : first_orders(part)) {
        part_offsets plan = place_in_order(part, order);
        attempts.push_back({std::move(order), std::move(plan)});
        if (attempts.back().plan.peak <= enough || is_over()) break;
    }
    auto const lower = [](attempt const& a, attempt const& b) { return a.plan.peak < b.plan.peak; };
    std::stable_sort(attempts.begin(), attempts.end(), lower);
    attempts.resize(std::min<std::size_t>(attempts.size(), 2));
    part_offsets best = attempts.front().plan;
    for (attempt& a : attempts)
        for (int round = 0; round != rounds && best.peak > enough && !is_over(); ++round) {
            a.order = highest_first(part, a.plan, std::max(enough, part.most_alive), std::move(a.order));
            a.plan = place_in_order(part, a.order);
            if (a.plan.peak < best.peak) best = a.plan;
        }
    return best;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t placed_blocks::place(sectioned_block const& block) {
    std::size_t at = 0;
    for (entry const& other : placed_) {
        if (other.last <= block.first || block.last <= other.first) continue;
        if (other.offset >= at && other.offset - at >= block.size) break;
        at = std::max(at, other.end);
    }
    entry const mine{at, at + block.size, block.first, block.last};
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), mine), mine);
    return at;
}

CUOTA_INLINE part_offsets place_in_order(lifetime_part const& part, block_order const& order) {
    part_offsets plan{std::vector<std::size_t>(part.blocks.size(), 0), 0};
    placed_blocks placed{part.blocks.size()};
    for (std::uint32_t const i : order) {
        plan.offsets[i] = placed.place(part.blocks[i]);
        plan.peak = std::max(plan.peak, plan.offsets[i] + part.blocks[i].size);
    }
    return plan;
}

CUOTA_INLINE std::array<block_order, 6> first_orders(lifetime_part const& part) {
    block_order as_given(part.blocks.size());
    std::iota(as_given.begin(), as_given.end(), 0U);
    auto const by = [&](auto key) {
        block_order order = as_given;
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return key(part.blocks[a]) > key(part.blocks[b]);
        });
        return order;
    };
    auto const size = [](sectioned_block const& b) { return static_cast<double>(b.size); };
    auto const duration = [](sectioned_block const& b) { return b.duration; };
    auto const sections = [](sectioned_block const& b) { return b.last - b.first; };
    return {by([=](auto const& b) {
                return std::pair{size(b), duration(b)};
            }),
            by([=](auto const& b) {
                return std::pair{duration(b), size(b)};
            }),
            by([=](auto const& b) { return size(b) * duration(b); }),
            by([=](auto const& b) {
                return std::pair{sections(b), size(b)};
            }),
            by([=](auto const& b) { return size(b) * sections(b); }),
            as_given};
}

CUOTA_INLINE block_order highest_first(lifetime_part const& part, part_offsets const& plan, std::size_t bound,
                                       block_order order) {
    std::stable_partition(order.begin(), order.end(),
                          [&](std::uint32_t i) { return plan.offsets[i] + part.blocks[i].size > bound; });
    return order;
}

}  // namespace cuota::inline v0::detail

#endif
