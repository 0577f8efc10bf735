// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs ranks as threads that sum gradients, and collects their results.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuota/training/distributed/thread_group.hpp>

namespace support {

/// Checks a claim in a thread that is not the test's. Throws, so that the thread ends with a text that the test checks.
inline void claim(bool holds, std::string const& what) {
    if (!holds) throw std::logic_error{"NOT SO: " + what};
}

struct ended_rank {
    std::string text{};
    std::vector<std::vector<float>> gradients{};
};

/// Runs `run(rank, rank_consensus, result)` in one thread per rank.
template <class Run>
std::vector<ended_rank> run_rank_threads(std::size_t ranks, std::chrono::nanoseconds deadline, Run run) {
    cuota::thread_group const group{ranks, deadline};
    std::vector<ended_rank> ends(ranks);
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r != ranks; ++r)
        threads.emplace_back([&, r] {
            try {
                cuota::rank_consensus mine = group.join(r);
                run(r, mine, ends[r]);
            } catch (std::exception const& error) { ends[r].text = error.what(); }
        });
    for (std::thread& t : threads) t.join();
    return ends;
}

/// Returns rank r's value of element i of a gradient. Rounding makes sums in another order differ.
[[nodiscard]] inline float part_of_sum(std::size_t rank, std::size_t gradient, std::size_t i,
                                       std::size_t step = 0) {
    auto const mixed =
        static_cast<std::uint32_t>((rank * 7919 + gradient * 104729 + i * 31 + step * 17) * 2654435761U);
    return static_cast<float>(mixed >> 8U) / 1048576.0f - 7.5f;
}
/// Returns the sums over `ranks`, added in rank order.
[[nodiscard]] inline std::vector<std::vector<float>> sums_of_ranks(std::size_t ranks,
                                                                   std::vector<std::size_t> const& counts,
                                                                   std::size_t step = 0) {
    std::vector<std::vector<float>> sums;
    for (std::size_t g = 0; g != counts.size(); ++g) {
        auto& sum = sums.emplace_back();
        for (std::size_t i = 0; i != counts[g]; ++i) {
            sum.push_back(part_of_sum(0, g, i, step));
            for (std::size_t r = 1; r != ranks; ++r) sum.back() += part_of_sum(r, g, i, step);
        }
    }
    return sums;
}

}  // namespace support
