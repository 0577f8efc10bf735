// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Checks that the figures of a snapshot are consistent while threads allocate and free. CUOTA_SNAPSHOTS=<number of snapshots>.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>
#include <cuota/report/snapshot/snapshot.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"

using namespace cuota::literals;

namespace {

constexpr cuota::tag names[]{"weights", "activations", "workspace", "batch"};

// Allocates and frees until `is_over`, with sizes that thread caches serve and sizes that make pools grow.
void churn(unsigned seed, cuota::budget const& budget, cuota::scoped_pool& shared, std::atomic<int>& begun,
           std::atomic<bool> const& is_over) {
    cuota::stream const stream;
    std::mt19937 random{seed};
    cuota::scoped_pool own{budget, {.name = "own"}};
    struct block {
        cuota::scoped_pool* from;
        void* at;
        std::size_t bytes;
    };
    std::vector<block> held;
    bool is_counted = false;
    while (!is_over.load(std::memory_order_relaxed)) {
        if (!is_counted && held.size() >= 10) {  // from here on, snapshots have content
            is_counted = true;
            ++begun;
        }
        if (held.size() < 60 && random() % 2 == 0) {
            cuota::scoped_pool& from = random() % 4 == 0 ? own : shared;
            std::size_t const bytes = 1 + random() % (random() % 4 == 0 ? 3'000'000 : 5'000);
            try {
                held.push_back({&from, from.allocate(stream, bytes, 256, names[random() % 4]), bytes});
            } catch (cuota::out_of_memory const&) {
            }  // the budget is small, so that reclaims and refusals occur
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            held.back().from->deallocate(stream, held.back().at, held.back().bytes);
            held.pop_back();
        }
        if (random() % 500 == 0) (void)shared.trim(8_MiB);
        if (random() % 100 == 0) (void)budget.info();
    }
    for (block const& b : held) b.from->deallocate(stream, b.at, b.bytes);
}

int snapshots() {
    char const* const told = std::getenv("CUOTA_SNAPSHOTS");
    return told ? std::atoi(told) : std::max(50, support::rounds(500));
}

}  // namespace

TEST_CASE("snapshots taken under four threads are all consistent", "[report][snapshot][stress][threads]") {
    cuota::budget root{"root", 96_MiB};
    cuota::budget part{"part", 64_MiB, root};
    cuota::scoped_pool pool{part, {.name = "shared"}};
    std::atomic<int> begun = 0;
    std::atomic<bool> is_over = false;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, t] { churn(t, t % 2 == 0 ? root : part, pool, begun, is_over); });
    std::size_t blocks = 0;
    while (begun.load() != 4) std::this_thread::yield();
    std::size_t failed = 0;
    std::string why;
    // A thread that is not scheduled keeps its blocks, so snapshots have content on a busy machine, too.
    auto const look = [&](int times) {
        for (int i = 0; i != times && failed == 0; ++i) {
            cuota::memory_snapshot const now = cuota::snapshot_of(root);
            try {
                cuota::check_snapshot(now);
            } catch (cuota::usage_error const& wrong) {
                ++failed;
                why = wrong.what();
            }
            for (cuota::pool_info const& p : now.pools) blocks += p.stats.live_blocks;
            std::this_thread::yield();  // otherwise threads that wait for the locks starve
        }
    };
    look(snapshots() / 2);
    {
        cuota::recorder const recorder{root, {.capacity = 1024}};
        look(snapshots() / 2);
    }
    is_over = true;
    for (std::thread& t : threads) t.join();
    INFO(why);
    REQUIRE(failed == 0);
    REQUIRE(blocks > 500);  // the snapshots had content
}
