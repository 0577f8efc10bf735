// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/sync.hpp>

#include <atomic>
#include <latch>
#include <thread>

#include "support/catch.hpp"

TEST_CASE("a heavy fence on one side orders both", "[core][sync]") {
    // Store-buffering, the pattern that processors reorder: without fences both sides read 0 now and then.
    if (!cuota::detail::fences_are_asymmetric()) {
        WARN("not run: this system has no membarrier(2)");
        return;
    }
    std::atomic<int> x = 0;
    std::atomic<int> y = 0;
    std::atomic<int> round = 0;
    std::atomic<int> read_by_light = -1;
    constexpr int rounds = 20'000;
    std::thread light{[&] {
        for (int i = 1; i <= rounds; ++i) {
            while (round.load() != i) std::this_thread::yield();
            x.store(1, std::memory_order_relaxed);
            cuota::detail::light_fence();
            read_by_light.store(y.load(std::memory_order_relaxed));
        }
    }};
    int neither = 0;
    for (int i = 1; i <= rounds; ++i) {
        x = y = 0;
        read_by_light = -1;
        round = i;
        y.store(1, std::memory_order_relaxed);
        cuota::detail::heavy_fence();
        int const read_by_heavy = x.load(std::memory_order_relaxed);
        while (read_by_light == -1) std::this_thread::yield();
        if (read_by_heavy == 0 && read_by_light == 0) ++neither;
    }
    light.join();
    REQUIRE(neither == 0);
}
