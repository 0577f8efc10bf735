// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/tracked.hpp>

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

using namespace cuota::literals;
using cuota::tracked;

TEST_CASE("tracked leaks nothing", "[guard][tracked]") {
    support::machine const sim;
    SECTION("of device memory") { support::behaves_as_a_resource(tracked<>{}); }
    SECTION("of async memory") { support::behaves_as_a_resource(tracked<cuota::async_memory>{}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(tracked<cuota::managed_memory>{}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(tracked<cuota::pinned_memory>{}); }
}

TEST_CASE("tracked reports the failure of any CUDA call, and its records stay correct", "[guard][tracked]") {
    support::machine sim;
    cuota::stream const s;
    tracked<cuota::async_memory> memory;
    auto const seen = support::survives_every_failure(sim, [&] {
        REQUIRE(memory.live().is_empty());
        void* const p = memory.allocate(s, 1000);
        try {
            memory.deallocate_sync(memory.allocate_sync(3000), 3000);
            memory.deallocate(cudaStreamPerThread, memory.allocate(cudaStreamPerThread, 10), 10);
        } catch (...) {
            memory.deallocate(s, p, 1000);
            throw;
        }
        memory.deallocate(s, p, 1000);
    });
    CHECK(memory.live().is_empty());
    CHECK(seen.thrown > 0);
    CHECK(seen.silent <= 1);  // a failed allocation is retried after the driver's own pool was trimmed
}

TEST_CASE("tracked makes no CUDA call of its own for an owned stream", "[guard][tracked]") {
    support::machine const sim;
    cuota::stream const s;
    tracked<cuota::async_memory> memory;
    support::calls_since const plain;
    cuota::async_memory upstream = memory.upstream();
    upstream.deallocate(s, upstream.allocate(s, 1000), 1000);
    auto const without = plain.count();
    support::calls_since const with;
    memory.deallocate(s, memory.allocate(s, 1000), 1000);
    CHECK(with.count() == without);
}

TEST_CASE("threads may allocate, free each other's blocks and query one tracked pool", "[guard][tracked]") {
    support::machine const sim;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};
    tracked memory{pool.resource()};
    std::vector<std::atomic<void*>> handed(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            cuota::stream const s;
            for (std::size_t i = 0; i != 200; ++i) {
                std::size_t const bytes = 1 + (i * 37 + t * 11) % 8000;
                void* const p = memory.allocate(s, bytes);
                if (i % 32 == 0) (void)memory.diff(memory.snapshot());
                memory.deallocate(s, p, bytes);
                if (void* const others = handed[(t + 1) % 4].exchange(nullptr))
                    memory.deallocate(s, others, 512);
                if (void* const mine = handed[t].exchange(memory.allocate(s, 512)))
                    memory.deallocate(s, mine, 512);
            }
            s.synchronize();
        });
    for (std::thread& t : threads) t.join();
    std::size_t left_over = 0;
    for (auto& left : handed) left_over += left.load() != nullptr;
    CHECK(memory.live().count() == left_over);
    for (auto& left : handed)
        if (void* const p = left.exchange(nullptr)) memory.deallocate(cudaStreamPerThread, p, 512);
    CHECK(memory.live().is_empty());
}
