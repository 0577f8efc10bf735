// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/guarded.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/kernels.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::guarded;

namespace {

// Has one block and allocates it without host memory.
struct ready_block {
    void* block;
    bool* is_taken;
    void* allocate(cuota::stream_ref, std::size_t n, std::size_t a) { return allocate_sync(n, a); }
    void deallocate(cuota::stream_ref, void* p, std::size_t n, std::size_t a) noexcept {
        deallocate_sync(p, n, a);
    }
    void* allocate_sync(std::size_t, std::size_t) { return *is_taken = true, block; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept { *is_taken = false; }
    std::size_t granularity() const { return 256; }
    cuota::memory_kind kind() const { return cuota::memory_kind::device; }
    bool operator==(ready_block const&) const = default;
};

}  // namespace

TEST_CASE("guarded leaks nothing", "[guard][guarded]") {
    support::machine const sim;
    SECTION("of device memory") { support::behaves_as_a_resource(guarded<>{}); }
    SECTION("of async memory") { support::behaves_as_a_resource(guarded<cuota::async_memory>{}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(guarded<cuota::managed_memory>{}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(guarded<cuota::pinned_memory>{}); }
}

TEST_CASE("guarded reports the failure of any CUDA call and leaks nothing", "[guard][guarded]") {
    support::machine sim;
    cuota::stream const s;
    cuota::budget b{"b", 1_MiB};
    auto const seen = support::survives_every_failure(sim, [&] {
        REQUIRE(b.held() == 0);
        guarded memory{cuota::budgeted<cuota::async_memory>{b}};
        void* const p = memory.allocate(s, 1000);
        try {
            memory.deallocate_sync(memory.allocate_sync(3000), 3000);
            memory.verify(s);
        } catch (...) {
            memory.deallocate(s, p, 1000);
            throw;
        }
        memory.deallocate(s, p, 1000);
        memory.close(s);
    });
    CHECK(b.held() == 0);
    CHECK(seen.thrown > 0);
    CHECK(seen.reported > 0);
}

TEST_CASE("a free that cannot check the guard bytes is reported, and frees the memory", "[guard][guarded]") {
    support::machine sim;
    cuota::stream const s;
    cuota::budget b{"b", 1_MiB};
    auto const gives_back = [&](auto memory, char const* look) {
        void* const p = memory.allocate(s, 1000);
        cuota::simulator::fail_call(look, 1, cudaErrorUnknown);
        memory.deallocate(s, p, 1000);
        CHECK(sim.errors.take().size() == 1);
        CHECK(b.held() == 0);
        CHECK_NOTHROW(memory.verify(s));
    };
    gives_back(guarded{cuota::budgeted<cuota::async_memory>{b}}, "cuota_simulator_launch");
    gives_back(guarded{cuota::budgeted<cuota::managed_memory>{b}}, "cudaMemcpyAsync");
}

TEST_CASE("verify of many blocks launches few kernels, or copies if the host can access the memory",
          "[guard][guarded]") {
    support::machine const sim;
    cuota::stream const s;
    auto const looks_at_forty = [&](auto memory) {
        std::vector<void*> blocks;
        for (int i = 0; i != 40; ++i) blocks.push_back(memory.allocate(s, 100));
        support::calls_since const kernels{"cuota_simulator_launch"};
        support::calls_since const copies{"cudaMemcpyAsync"};
        memory.verify(s);
        auto const seen = std::pair{kernels.count(), copies.count()};
        for (void* const p : blocks) memory.deallocate(s, p, 100);
        memory.close(s);
        return seen;
    };
    CHECK(looks_at_forty(guarded<>{}) == std::pair<std::uint64_t, std::uint64_t>{3, 0});
    CHECK(looks_at_forty(guarded<cuota::managed_memory>{}) == std::pair<std::uint64_t, std::uint64_t>{0, 80});
}

TEST_CASE("verify checks each of many blocks", "[guard][guarded]") {
    support::machine const sim;
    cuota::stream const s;
    guarded<> memory;
    std::vector<unsigned char*> blocks;
    for (int i = 0; i != 40; ++i) blocks.push_back(static_cast<unsigned char*>(memory.allocate(s, 100)));
    for (std::size_t const broken : {0u, 15u, 16u, 39u}) {
        cuota::rt::fill_bytes(blocks[broken] - 1, 7, 1, s);
        cuota::rt::fill_bytes(blocks[broken] + 355, 9, 1, s);
        auto const found = support::thrown<cuota::guard_bytes_error>([&] { memory.verify(s); });
        CHECK(found.violations().size() == 1);
        CHECK(found.violations()[0].at == blocks[broken]);
        CHECK(found.violations()[0].offset == -1);
        CHECK(found.violations()[0].count == 2);
        cuota::rt::fill_bytes(blocks[broken] - 1, 0xFD, 1, s);
        cuota::rt::fill_bytes(blocks[broken] + 355, 0xFD, 1, s);
    }
    for (void* const p : blocks) memory.deallocate(s, p, 100);
    CHECK_NOTHROW(memory.close(s));
}

TEST_CASE("without host memory, guarded allocates nothing", "[guard][guarded]") {
    support::machine sim;
    cuota::stream const s;
    void* const block = cuota::rt::device_allocate(4096);
    bool is_taken = false;
    {
        guarded memory{ready_block{block, &is_taken}};
        memory.deallocate(s, memory.allocate(s, 100),
                          100);  // the simulator needs host memory to lock pages
        // Allows 0, 1, 2, ... host allocations until the request succeeds.
        for (std::size_t allowed = 0;; ++allowed) {
            void* p = nullptr;
            {
                support::failing_heap const few{allowed};
                try {
                    p = memory.allocate(s, 100);
                } catch (std::bad_alloc const&) {
                } catch (cuota::cuda_error const&) {}  // the simulator needs host memory too
            }
            CHECK(is_taken == (p != nullptr));
            if (!p) continue;
            memory.deallocate(s, p, 100);
            break;
        }
        CHECK(!is_taken);
        CHECK_NOTHROW(memory.close(s));
    }
    (void)sim.errors.take();
    cuota::rt::device_free(block);
}

TEST_CASE("neither a free nor the next allocation waits", "[guard][guarded]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};
    guarded memory{pool.resource()};
    memory.deallocate(s, memory.allocate(s, 100), 100);
    s.synchronize();
    support::calls_since const streams{"cudaStreamSynchronize"};
    support::calls_since const events{"cudaEventSynchronize"};
    for (int i = 0; i != 10; ++i) memory.deallocate(s, memory.allocate(s, 100), 100);
    CHECK(streams.count() == 0);
    CHECK(events.count() == 0);
    memory.close(s);
}

TEST_CASE("a stream that is being captured is refused", "[guard][guarded]") {
    support::machine sim;
    cuota::stream const s;
    guarded<cuota::async_memory> memory;
    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK_THROWS_AS(memory.allocate(s, 100), cuota::usage_error);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    memory.deallocate(s, memory.allocate(s, 100), 100);
    memory.close(s);
}

TEST_CASE("guarded works on memory of another device", "[guard][guarded]") {
    support::machine const sim{{2, 64_MiB}};
    guarded memory{cuota::device_memory{cuota::device{1}}};
    void* const p = memory.allocate_sync(100);
    CHECK_NOTHROW(memory.verify(cudaStreamPerThread));
    memory.deallocate_sync(p, 100);
    CHECK_NOTHROW(memory.close());
}

TEST_CASE("a freed block is checked on the device of its stream", "[guard][guarded]") {
    support::machine sim{{2, 64_MiB}};
    cuota::stream const here;
    std::optional<cuota::device_scope> other{std::in_place, cuota::device{1}};
    cuota::stream const there;
    other.reset();
    guarded<> memory;
    void* const p = memory.allocate(here, 100);
    cuota::rt::fill_bytes(static_cast<char*>(p) + 100, 1, 1, here);
    there.wait(cuota::event{here});
    memory.deallocate(there, p, 100);
    CHECK(sim.errors.count() == 0);
    CHECK_THROWS_AS(memory.close(), cuota::guard_bytes_error);
    memory.deallocate(here, memory.allocate(here, 100), 100);
    CHECK_NOTHROW(memory.close());
}

TEST_CASE("damage that was found is thrown even if a later call fails", "[guard][guarded]") {
    support::machine const sim;
    cuota::stream const s;
    guarded<cuota::async_memory> memory;
    void* const damaged = memory.allocate(s, 100);
    void* const sound = memory.allocate(s, 100);
    void* const alive = memory.allocate(s, 100);
    cuota::rt::fill_bytes(static_cast<char*>(damaged) + 100, 1, 1, s);
    memory.deallocate(s, damaged, 100);
    memory.deallocate(s, sound, 100);
    char const* const fails = GENERATE("cudaEventSynchronize", "cudaStreamSynchronize", "cudaMemcpyAsync");
    cuota::simulator::fail_call(fails, std::string{fails} == "cudaEventSynchronize" ? 2 : 1,
                                cudaErrorUnknown);
    CHECK_THROWS_AS(memory.verify(s), cuota::guard_bytes_error);
    CHECK_NOTHROW(memory.verify(s));
    memory.deallocate(s, alive, 100);
    CHECK_NOTHROW(memory.close(s));
}

TEST_CASE("threads may allocate, free and verify guarded memory at the same time", "[guard][guarded]") {
    support::machine const sim;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};
    guarded memory{pool.resource()};
    std::atomic<int> found = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            cuota::stream const s;
            for (std::size_t i = 0; i != 60; ++i) {
                std::size_t const bytes = 1 + (i * 37 + t * 11) % 8000;
                void* const p = memory.allocate(s, bytes);
                cuota::for_each_index(s, bytes, support::write_pattern{static_cast<unsigned char*>(p), 1});
                try {
                    if (i % 16 == 0) memory.verify(s);
                } catch (cuota::guard_bytes_error const&) { ++found; }
                memory.deallocate(s, p, bytes);
            }
            s.synchronize();
        });
    for (std::thread& t : threads) t.join();
    CHECK(found == 0);
    CHECK_NOTHROW(memory.close());
}

TEST_CASE("guarded memory can be allocated and freed while verify runs", "[guard][guarded]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};
    guarded memory{pool.resource()};
    cuota::stream const a;
    cuota::stream const b;
    void* const p = memory.allocate(a, 1000);
    void* const q = memory.allocate(a, 2000);
    b.wait(cuota::event{a});
    {
        support::gate gate{a};
        support::while_waiting(
            gate, "cudaStreamSynchronize", [&] { CHECK_NOTHROW(memory.verify(a)); },
            [&] {
                void* const r = memory.allocate(b, 500);
                memory.deallocate(b, r, 500);
                memory.deallocate(b, p, 1000);
                void* const again = memory.allocate(b, 1000);
                cuota::rt::fill_bytes(again, 1, 1000, b);
                memory.deallocate(b, again, 1000);
            });
    }
    memory.deallocate(a, q, 2000);
    CHECK_NOTHROW(memory.close());
    CHECK(cuota::simulator::race_reports().empty());
}

TEST_CASE("a reclaimer that is called for pinned memory may use the same guarded memory",
          "[guard][guarded]") {
    support::machine const machine;
    cuota::budget budget{"b", 64_MiB};
    guarded memory{cuota::budgeted{budget, cuota::device_memory{}}};
    cuota::stream const s;
    int calls = 0;
    cuota::reclaimer const cache{budget, "cache", [](std::size_t wanted) { return wanted; },
                                 [&](std::size_t wanted) {
                                     ++calls;
                                     void* const p = memory.allocate(s, 100);
                                     memory.deallocate(s, p, 100);
                                     return wanted;
                                 }};
    std::vector<void*> blocks;

    SECTION("in an allocation") {
        cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
        blocks.push_back(memory.allocate(s, 1000));
        CHECK(calls == 1);
    }
    SECTION("in verify of more blocks than spare records") {
        for (int i = 0; i != 64; ++i) blocks.push_back(memory.allocate(s, 1000));
        cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
        CHECK_NOTHROW(memory.verify(s));
        CHECK(calls == 1);
    }
    for (void* const p : blocks) memory.deallocate(s, p, 1000);
    CHECK_NOTHROW(memory.close());
}
