// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of one training step, the common load of pools and plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <cuota/pool/planning/lifetimes.hpp>

namespace bench {

/// The forward pass creates activations of many sizes; the backward pass consumes them in reverse order. Both allocate scratch blocks that
/// live for one to three steps. `of_256`: the share of a full batch, or of the longest sequence, in 256ths.
inline std::vector<cuota::lifetime> training_step(std::size_t count, std::size_t of_256 = 256) {
    std::mt19937_64 random{7};
    auto const up_to = [&](std::uint64_t most) { return 1 + random() % most; };
    std::vector<cuota::lifetime> blocks;
    std::vector<std::pair<std::uint64_t, std::size_t>> kept;  // start, size
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
