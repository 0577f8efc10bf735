// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of one step of training, as pools and plans are measured with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <cuota/pool/lifetimes.hpp>

namespace bench {

/// A forward pass leaves activations of many sizes, a backward pass takes them in turn, the last first; both have
/// scratch that lives for a step or three. `of_256`: how much of a full batch, or of the longest sequence, there is.
inline std::vector<cuota::lifetime> training_step(std::size_t count, std::size_t of_256 = 256) {
    std::mt19937_64 random{7};
    auto const up_to = [&](std::uint64_t most) { return 1 + random() % most; };
    std::vector<cuota::lifetime> blocks;
    std::vector<std::pair<std::uint64_t, std::size_t>> kept;  // from, size
    std::uint64_t now = 0;
    for (std::size_t layer = 0; layer != count / 4; ++layer, now += 2) {
        kept.emplace_back(now, (of_256 << up_to(13)) * up_to(16));
        blocks.push_back({now, now + up_to(3), 2 * of_256 * up_to(2'000)});
    }
    for (; !kept.empty(); kept.pop_back(), ++now) {
        auto const [from, size] = kept.back();
        blocks.push_back({from, now + 1, size});
        blocks.push_back({now, now + 1 + up_to(2), size});
        blocks.push_back({now, now + 1, 2 * of_256 * up_to(4'000)});
    }
    return blocks;
}

}  // namespace bench
