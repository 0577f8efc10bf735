// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Lifetimes for tests of plans: random ones, and those of a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/planning/lifetimes.hpp>

namespace support {

/// Returns a number in [low, high], the same on every machine.
inline std::size_t pick(std::mt19937_64& random, std::size_t low, std::size_t high) {
    return low + static_cast<std::size_t>(random() % (high - low + 1));
}

inline std::vector<cuota::lifetime> random_lifetimes(std::mt19937_64& random, std::size_t count,
                                                     std::size_t steps, std::size_t largest) {
    std::vector<cuota::lifetime> blocks;
    for (std::size_t i = 0; i != count; ++i) {
        std::size_t const from = pick(random, 0, steps - 1);
        blocks.push_back({from, pick(random, from + 1, steps), pick(random, 0, largest)});
    }
    return blocks;
}

inline std::vector<cuota::detail::lifetime_part> parts_of(std::vector<cuota::lifetime> const& blocks) {
    return cuota::detail::independent_parts(blocks, cuota::detail::checked_sizes(blocks, 1, {}));
}

/// About `count` blocks of a training step. The forward pass allocates activations of many sizes, the backward pass frees them in reverse
/// order, and both have scratch with a lifetime of one to three steps.
inline std::vector<cuota::lifetime> training_step(std::size_t count, std::uint64_t seed) {
    using namespace cuota::literals;
    std::mt19937_64 random{seed};
    std::vector<cuota::lifetime> blocks;
    std::vector<std::pair<std::uint64_t, std::size_t>> kept;  // from, size
    std::uint64_t now = 0;
    for (std::size_t layer = 0; layer != count / 4; ++layer) {
        std::size_t const scale = std::size_t{512} << pick(random, 0, 12);
        kept.emplace_back(now, scale * pick(random, 1, 16));
        blocks.push_back({now, now + pick(random, 1, 3), 512 * pick(random, 1, 2'000)});
        now += 2;
    }
    for (; !kept.empty(); kept.pop_back()) {
        auto const [from, size] = kept.back();
        blocks.push_back({from, now + 1, size});                         // activation
        blocks.push_back({now, now + pick(random, 2, 3), size});         // gradient
        blocks.push_back({now, now + 1, 512 * pick(random, 1, 4'000)});  // scratch
        ++now;
    }
    return blocks;
}

/// Small problems whose smallest peak is 1 byte above the most bytes that are live at once.
inline std::vector<std::vector<cuota::lifetime>> above_their_bound() {
    return {{{0, 3, 4},
             {4, 7, 2},
             {6, 9, 6},
             {7, 8, 4},
             {0, 1, 1},
             {2, 4, 1},
             {4, 5, 2},
             {3, 6, 3},
             {8, 10, 5},
             {2, 4, 5},
             {3, 7, 2}},
            {{0, 2, 4},
             {5, 8, 6},
             {4, 7, 4},
             {3, 5, 3},
             {6, 7, 4},
             {8, 11, 2},
             {2, 4, 6},
             {3, 6, 3},
             {4, 5, 5},
             {7, 10, 6}},
            {{2, 6, 5},
             {3, 7, 2},
             {8, 10, 5},
             {6, 8, 6},
             {1, 2, 6},
             {1, 4, 4},
             {7, 9, 3},
             {0, 1, 5},
             {4, 7, 2},
             {4, 8, 1}}};
}

}  // namespace support
