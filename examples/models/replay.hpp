// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Replays blocks through a model of an allocator, and finds the least memory with which an allocator serves them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace models {

/// An allocation or a deallocation.
struct step {
    std::uint64_t at;  ///< time
    bool begins;
    std::size_t block;  ///< index
};

/// Returns the steps of blocks in order of time; at equal times, deallocations precede allocations. `life_of(block)` has `from` and
/// `until`.
template <class Blocks, class LifeOf>
[[nodiscard]] std::vector<step> steps_of(Blocks const& blocks, LifeOf life_of) {
    std::vector<step> steps;
    for (std::size_t i = 0; i != blocks.size(); ++i) {
        steps.push_back({life_of(blocks[i]).from, true, i});
        steps.push_back({life_of(blocks[i]).until, false, i});
    }
    std::stable_sort(steps.begin(), steps.end(), [](step const& a, step const& b) {
        return a.at != b.at ? a.at < b.at : a.begins < b.begins;
    });
    return steps;
}

/// Returns whether a model serves all blocks; stops at the first that it does not.
template <class Model, class SizeOf>
[[nodiscard]] bool serves(Model& model, std::vector<step> const& steps, SizeOf size_of) {
    std::vector<std::uint64_t> at(steps.size() / 2);
    for (step const& now : steps) {
        if (!now.begins) {
            model.deallocate(at[now.block], size_of(now.block));
        } else {
            auto const taken = model.allocate(size_of(now.block));
            if (!taken) return false;
            at[now.block] = *taken;
        }
    }
    return true;
}

/// Returns the least limit, in steps of 2 MiB, with which serves(limit) is true, while it is false with 2 MiB less; nullopt if it is false
/// with 16 TiB. `live`: the peak of live bytes, which no allocator undercuts.
template <class Serves>
[[nodiscard]] std::optional<std::uint64_t> least_limit(std::uint64_t live, Serves serves_with) {
    constexpr std::uint64_t page = std::uint64_t{2} << 20;
    constexpr std::uint64_t most = (std::uint64_t{1} << 44) / page;
    std::uint64_t refused = (std::max<std::uint64_t>(live, 1) - 1) / page;  // in pages
    if (refused >= most) return std::nullopt;
    std::uint64_t served = refused + 1;
    while (!serves_with(served * page)) {
        if (served >= most) return std::nullopt;
        refused = std::exchange(served, served + served / 16 + 1);
    }
    while (served - refused > 1) {
        std::uint64_t const middle = refused + (served - refused) / 2;
        (serves_with(middle * page) ? served : refused) = middle;
    }
    return served * page;
}

}  // namespace models
