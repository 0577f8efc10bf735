// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Pages of a device, and a pool that grows by pages.
#include <cuota/pool/detail/growth/mapped_range.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <cuda.h>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "pool/shadowed.hpp"
#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
namespace simulator = cuota::simulator;
using cuota::detail::device_pages;
using support::calls_since;
using support::has;
using support::thrown;

namespace {

struct allocation {
    void* at;
    std::size_t bytes;
};

struct user {
    cuota::scoped_pool& pool;
    cuota::stream_ref s;
    std::vector<allocation> all{};

    void* take(std::size_t bytes) {
        all.push_back({pool.allocate(s, bytes), bytes});
        return all.back().at;
    }
    void give(std::size_t i) {
        pool.deallocate(s, all[i].at, all[i].bytes);
        all[i].at = nullptr;
    }
    void give_all() {
        for (allocation const& a : all) pool.deallocate(s, a.at, a.bytes);
        all.clear();
    }
};

// Pages of a device. Calls `meanwhile` once, while the next pages are mapped.
class pages_that_tell final : public cuota::detail::mapped_range {
public:
    explicit pages_that_tell(std::function<void()>& meanwhile) : meanwhile_{meanwhile} {}
    [[nodiscard]] std::byte* at() const noexcept override { return pages_->at(); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return pages_->bytes(); }
    [[nodiscard]] std::size_t page() const noexcept override { return pages_->page(); }
    [[nodiscard]] bool map(std::byte* at, std::size_t bytes, cuota::detail::mapping_sizes& sizes,
                           cuota::label const& who, std::size_t& done) override {
        if (auto const once = std::exchange(meanwhile_, nullptr)) once();
        return pages_->map(at, bytes, sizes, who, done);
    }
    bool unmap(std::byte* at, std::size_t bytes) noexcept override { return pages_->unmap(at, bytes); }

private:
    std::function<void()>& meanwhile_;
    cuota::detail::light_unique_ptr<mapped_range> const pages_ = device_pages::make(cuota::device{0}, 64_MiB);
};

// Mappings of one page each.
constexpr cuota::detail::mapping_sizes by_page{2_MiB, 2_MiB, 1, cuota::unlimited};

bool is_on_a_page(void const* p) { return reinterpret_cast<std::uintptr_t>(p) % 2_MiB == 0; }

}  // namespace

TEST_CASE("device_pages count mapped pages as memory of this process until they are unmapped",
          "[pool][growing_range]") {
    support::machine const machine;
    cuota::device const here{0};
    std::size_t const before = cuota::detail::taken_on(here);
    auto const pages = device_pages::make(here, 5_MiB);
    REQUIRE(pages);
    CHECK(pages->page() == 2_MiB);
    CHECK(pages->bytes() > 6_MiB);
    CHECK(cuota::detail::taken_on(here) == before);

    std::size_t done = 0;
    auto in_pages = by_page;
    REQUIRE(pages->map(pages->at() + 2_MiB, 4_MiB, in_pages, {}, done));
    CHECK(done == 4_MiB);
    CHECK(cuota::detail::taken_on(here) == before + 4_MiB);
    CHECK(simulator::live().device_bytes == 4_MiB);
    CHECK(pages->unmap(pages->at() + 4_MiB, 2_MiB));
    CHECK(cuota::detail::taken_on(here) == before + 2_MiB);
    CHECK(pages->unmap(pages->at() + 2_MiB, 2_MiB));
    CHECK(cuota::detail::taken_on(here) == before);
}

TEST_CASE("pages are mapped in order until the device has no more memory", "[pool][growing_range]") {
    support::machine const machine{{1, 16_MiB}};
    cuota::device const here{0};
    auto const pages = device_pages::make(here, cuota::unlimited);
    simulator::set_other_programs(0, 10_MiB);
    std::size_t const free = here.memory().free;
    std::size_t done = 0;
    auto in_pages = by_page;
    CHECK_FALSE(pages->map(pages->at(), 8_MiB, in_pages, {}, done));
    CHECK(done == 6_MiB);
    CHECK(simulator::live().device_bytes == 6_MiB);
    CHECK(pages->unmap(pages->at(), done));
    CHECK(here.memory().free == free);
    for (char const* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
        simulator::fail_call(call, 1, cudaErrorUnknown);
        CHECK_THROWS_AS(pages->map(pages->at(), 4_MiB, in_pages, {}, done), cuota::cuda_error);
        CHECK(simulator::live().device_bytes == done);
        if (done != 0) CHECK(pages->unmap(pages->at(), done));
    }
}

TEST_CASE("a pool maps and unmaps a GiB of a large device by few calls", "[pool][growing_range]") {
    support::machine const machine{{1, 80_GiB}};
    simulator::set_memory_checks(simulator::memory_checks::off);  // nothing is written
    cuota::budget const budget = cuota::budget::for_device(cuota::device{0});
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    std::size_t before = 0;
    SECTION("without live blocks") {}
    SECTION("beside live blocks") {
        u.take(before = 2_MiB);
        u.take(0);
    }
    SECTION("around live blocks and over a hole") {
        for (std::size_t const bytes : {6_MiB, 20_MiB, 4_MiB, 2_MiB}) u.take(bytes);
        u.give(1);
        CHECK(pool.trim() == 20_MiB);
        u.give(2);
        before = 8_MiB;
    }
    // Counts driver calls: the runtime changes a thread's capture mode without one.
    char const* const in_the_thread = "cudaThreadExchangeStreamCaptureMode";
    calls_since const all, modes{in_the_thread};
    u.take(1_GiB);
    CHECK(all.count() - modes.count() <= 96);
    CHECK(pool.stats().reserved >= 1_GiB + before);

    u.give(u.all.size() - 1);
    stream.synchronize();
    calls_since const back, modes_back{in_the_thread};
    CHECK(pool.trim() >= 1_GiB);
    CHECK(back.count() - modes_back.count() <= 32);
    CHECK(pool.stats().reserved == before);
    u.give_all();
}

TEST_CASE("a large pool maps a little more than a request, so that later requests need no call",
          "[pool][growing_range]") {
    simulator::options const large{1, 80_GiB};
    auto const calls_for_128_pages = [&](cuota::budget const& budget) {
        cuota::stream const stream;
        cuota::scoped_pool pool{budget};
        user u{pool, stream};
        calls_since const mapped{"cuMemMap"};
        for (int i = 0; i != 128; ++i) u.take(2_MiB);
        std::size_t const reserved = pool.stats().reserved;
        CHECK(reserved >= 256_MiB);
        CHECK(reserved <= 260_MiB);
        CHECK(budget.held() == reserved);
        u.give_all();
        return mapped.count();
    };
    support::machine const machine{large};
    simulator::set_memory_checks(simulator::memory_checks::off);
    CHECK(calls_for_128_pages(cuota::budget{"trainer", cuota::unlimited}) <= 110);
    // If the requests fill the budget exactly, the pool maps only requested pages, so that all of them fit.
    CHECK(calls_for_128_pages(cuota::budget{"trainer", 256_MiB}) == 128);
}

TEST_CASE("a mapping is released as a whole once it has no live block", "[pool][growing_range]") {
    support::machine const machine{{1, 160_GiB}};
    simulator::set_memory_checks(simulator::memory_checks::off);
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", cuota::unlimited}};
    user u{pool, stream};
    calls_since const mapped{"cuMemMap"};
    u.take(96_MiB);
    CHECK(mapped.count() == 2);
    u.give(0);
    void* const small = u.take(256);

    CHECK(pool.trim() == 32_MiB);
    CHECK(pool.stats().reserved == 64_MiB);
    CHECK(pool.largest_free() == 64_MiB - 256);
    // Memory that cannot be unmapped can be reused.
    CHECK(u.take(8_MiB) == static_cast<std::byte*>(small) + 256);
    CHECK(mapped.count() == 2);
    u.give_all();
    CHECK(pool.trim() == 64_MiB);
}

TEST_CASE("a pool's pages allow RDMA where the device supports it", "[pool][growing_range]") {
    bool const can = GENERATE(true, false);
    support::machine const machine{{.maps_for_rdma = can}};
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    void* const p = pool.allocate(stream, 3_MiB);
    for (std::size_t const offset : {0_MiB, 2_MiB}) {
        unsigned reaches = 0;
        CHECK(cuPointerGetAttribute(&reaches, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                                    reinterpret_cast<CUdeviceptr>(p) + offset) == CUDA_SUCCESS);
        CHECK(reaches == can);
    }
    pool.deallocate(stream, p, 3_MiB);
}

TEST_CASE("a pool makes larger mappings under a larger cap, and single pages under a small one",
          "[pool][growing_range]") {
    support::machine const machine{{1, 80_GiB}};
    simulator::set_memory_checks(simulator::memory_checks::off);
    cuota::stream const stream;
    auto const [cap, mappings] = GENERATE(std::pair{64_MiB, 4}, std::pair{8_GiB, 3}, std::pair{16_GiB, 1});
    cuota::budget const budget{"trainer", cap};
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    calls_since const mapped{"cuMemMap"};
    u.take(8_MiB);
    CHECK(mapped.count() == static_cast<std::uint64_t>(mappings));
    u.give_all();
}

TEST_CASE("after the device has refused memory, a pool maps page by page", "[pool][growing_range]") {
    support::machine const machine{{1, 80_GiB}};
    simulator::set_memory_checks(simulator::memory_checks::off);
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"trainer", cuota::unlimited}};
    user u{pool, stream};
    simulator::set_other_programs(0, 80_GiB - 512_MiB);
    {
        calls_since const mapped{"cuMemMap"};
        u.take(8_MiB);
        CHECK(mapped.count() == 1);  // no failure has been seen yet
    }
    CHECK_THROWS_AS(pool.allocate(stream, 1_GiB), cuota::out_of_memory);
    calls_since const mapped{"cuMemMap"};
    u.take(8_MiB);
    CHECK(mapped.count() == 4);
    u.give_all();
}

TEST_CASE("a pool maps exactly the pages that a request needs", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    user u{pool, stream};

    u.take(1_MiB);
    CHECK(budget.held() == 2_MiB);
    void* const second = u.take(4_MiB);  // half a page is free
    CHECK(budget.held() == 6_MiB);
    CHECK(second == static_cast<std::byte*>(u.all[0].at) + 1_MiB);
    support::write_words(stream, second, 4_MiB, 3);  // spans three pages
    CHECK(support::all_are(support::words(stream, second, 4_MiB), 3));
    CHECK(pool.stats().segments == 1);
    CHECK(pool.stats().reserved == 6_MiB);
    CHECK(simulator::live().device_bytes == 6_MiB);
    u.give_all();
    CHECK(pool.largest_free() == 6_MiB);
    CHECK(pool.stats().free_blocks == 1);
}

TEST_CASE("initial_size is reserved exactly, by pages if it is a multiple of the page",
          "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    calls_since const mallocs{"cudaMalloc"};
    {
        cuota::scoped_pool const pages{budget, {.initial_size = 6_MiB}};
        CHECK(budget.held() == 6_MiB);
        CHECK(pages.largest_free() == 6_MiB);
        CHECK(mallocs.count() == 0);
    }
    cuota::scoped_pool const segment{budget, {.initial_size = 5_MiB}};
    CHECK(budget.held() == 5_MiB);
    CHECK(segment.largest_free() == 5_MiB);
    CHECK(mallocs.count() == 1);
}

TEST_CASE("a pool with pool_growth::segments grows by segments", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    calls_since const mallocs{"cudaMalloc"};
    calls_since const reserved{"cuMemAddressReserve"};
    cuota::scoped_pool pool{budget, {.growth = cuota::pool_growth::segments}};
    pool.deallocate(stream, pool.allocate(stream, 1_MiB), 1_MiB);
    CHECK(budget.held() == 1_MiB);
    CHECK(mallocs.count() == 1);
    CHECK(reserved.count() == 0);
}

TEST_CASE("a pool grows by segments when the driver reserves no addresses", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    simulator::fail_call("cuMemAddressReserve", 1, cudaErrorMemoryAllocation);
    cuota::scoped_pool pool{budget};
    pool.deallocate(stream, pool.allocate(stream, 1_MiB), 1_MiB);
    CHECK(budget.held() == 1_MiB);
}

TEST_CASE("separate free pages serve one request of their total size", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    std::size_t const cap = 16_MiB;
    cuota::scoped_pool pool{budget, {.max_size = cap}};
    user u{pool, stream};
    for (int i = 0; i != 8; ++i) u.take(2_MiB);
    REQUIRE(budget.held() == cap);

    SECTION("none of them adjacent") {
        for (std::size_t const i : {0u, 2u, 4u, 6u}) u.give(i);
        REQUIRE(pool.largest_free() == 2_MiB);
        void* const large = u.take(8_MiB);
        CHECK(budget.held() == cap);
        CHECK(simulator::live().device_bytes == cap);
        support::write_words(stream, large, 8_MiB, 5);
        CHECK(support::all_are(support::words(stream, large, 8_MiB), 5));
        CHECK_THROWS_AS(u.take(1), cuota::budget_exceeded);
    }
    SECTION("some at the end, which are not remapped") {
        for (std::size_t const i : {0u, 2u, 6u, 7u}) u.give(i);
        calls_since const unmapped{"cuMemUnmap"};
        calls_since const mapped{"cuMemMap"};
        void* const large = u.take(8_MiB);
        CHECK(unmapped.count() == 2);
        CHECK(mapped.count() == 2);
        CHECK(large == static_cast<std::byte*>(u.all[5].at) + 2_MiB);
    }
    SECTION("one page more is refused, and nothing is unmapped") {
        for (std::size_t const i : {0u, 2u, 4u, 6u}) u.give(i);
        calls_since const unmapped{"cuMemUnmap"};
        auto const refused = thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(stream, 8_MiB + 1); });
        CHECK(unmapped.count() == 0);
        CHECK(refused.info().largest_free == 2_MiB);
        CHECK(refused.info().max_fit == 8_MiB);
        u.take(refused.info().max_fit);
    }
    u.give_all();
    CHECK(pool.trim() == cap);
    CHECK(budget.held() == 0);
}

TEST_CASE("a hole between live blocks is mapped again", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    void* const first = u.take(4_MiB);
    u.take(2_MiB);
    u.give(0);
    CHECK(pool.trim() == 4_MiB);
    CHECK(pool.stats().segments == 1);
    CHECK(simulator::live().device_bytes == 2_MiB);

    CHECK(u.take(4_MiB) == first);
    CHECK(budget.held() == 6_MiB);
    u.give_all();
}

TEST_CASE("the free part of a page serves together with newly mapped pages", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    std::size_t const cap = 8_MiB;
    cuota::scoped_pool pool{budget, {.max_size = cap}};
    user u{pool, stream};
    u.take(6_MiB);
    u.take(512_KiB);
    u.give(0);
    REQUIRE(budget.held() == cap);
    // Three pages are free, and three quarters of the last one.
    auto const refused =
        thrown<cuota::budget_exceeded>([&] { (void)pool.allocate(stream, 7_MiB + 512_KiB + 1); });
    CHECK(refused.info().max_fit == 7_MiB + 512_KiB);
    u.take(7_MiB + 512_KiB);
    CHECK(budget.held() == cap);
    u.give_all();
}

TEST_CASE("a cap that is not a multiple of the page is served to the last byte", "[pool][growing_range]") {
    support::machine const machine;
    std::size_t const cap = 5_MiB + 512;
    cuota::stream const stream;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget, {.max_size = cap}};
    user u{pool, stream};

    SECTION("by one block") { u.take(cap); }
    SECTION("by many blocks") {
        while (budget.held() < cap) u.take(std::min(512_KiB + std::size_t{256}, cap - budget.held()));
        while (pool.largest_free() != 0) u.take(pool.largest_free());
        CHECK(pool.stats().allocated == cap);
    }
    SECTION("by one block after many") {
        for (std::size_t const bytes : {1_MiB, 3_MiB, 1_MiB}) u.take(bytes);
        u.give_all();
        u.take(cap);
    }
    CHECK(budget.held() == cap);
    CHECK(simulator::live().device_bytes == cap);
    CHECK_THROWS_AS(pool.allocate(stream, 1), cuota::budget_exceeded);
    u.give_all();
    CHECK(pool.trim() == cap);
}

TEST_CASE("trim releases whole pages at any address, and as few as suffice", "[pool][growing_range]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    for (int i = 0; i != 6; ++i) u.take(2_MiB);
    u.take(256);
    REQUIRE(budget.held() == 14_MiB);
    for (std::size_t const i : {0u, 2u, 3u, 4u}) u.give(i);

    CHECK(pool.trim(14_MiB) == 0);
    CHECK(pool.trim(14_MiB - 1) == 2_MiB);
    CHECK(budget.held() == 12_MiB);
    CHECK(pool.largest_free() == 6_MiB);  // the page came from the smaller free block
    CHECK(pool.trim(9_MiB) == 4_MiB);
    CHECK(pool.trim() == 2_MiB);
    CHECK(pool.trim() == 0);
    CHECK(pool.stats().reserved == 6_MiB);
    CHECK(simulator::live().device_bytes == 6_MiB);
    CHECK(pool.stats().segments == 2);
    u.give_all();
    CHECK(pool.stats().free_blocks == 2);
}

TEST_CASE("a pool can be used while another thread waits in trim", "[pool][growing_range][threads]") {
    bool const by_pages = GENERATE(true, false);
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{
        budget, {.growth = by_pages ? cuota::pool_growth::automatic : cuota::pool_growth::segments}};
    void* const kept = pool.allocate(a, 2_MiB);
    void* const other = pool.allocate(a, 4_MiB);
    pool.deallocate(b, kept, 2_MiB);
    support::gate gate{a};
    pool.deallocate(a, other, 4_MiB);
    calls_since const waits{"cudaEventSynchronize"};
    std::size_t given = 0;
    std::thread trimmer{[&] { given = pool.trim(2_MiB); }};
    while (waits.count() == 0) std::this_thread::yield();

    CHECK(pool.stats().reserved == 6_MiB);  // until it is released
    void* const p = pool.allocate(b, 1_MiB);
    pool.deallocate(b, p, 1_MiB);
    CHECK(pool.trim(2_MiB) == 0);  // the memory that is being released suffices

    gate.open();
    trimmer.join();
    CHECK(given == 4_MiB);
    CHECK(pool.stats().reserved == 2_MiB);
}

TEST_CASE("a request waits for memory that another thread is releasing, and is not refused",
          "[pool][growing_range][threads]") {
    bool const by_pages = GENERATE(true, false);
    support::machine const machine;
    cuota::budget budget{"trainer", 6_MiB};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{
        budget, {.growth = by_pages ? cuota::pool_growth::automatic : cuota::pool_growth::segments}};
    void* const kept = pool.allocate(b, 2_MiB);
    void* const idle = pool.allocate(a, 4_MiB);
    support::gate gate{a};
    pool.deallocate(a, idle, 4_MiB);
    calls_since const waits{"cudaEventSynchronize"};
    std::thread trimmer{[&] { pool.trim(); }};
    while (waits.count() == 0) std::this_thread::yield();
    void* p = nullptr;
    std::thread other{[&] { p = pool.allocate(b, 4_MiB); }};
    gate.open();
    trimmer.join();
    other.join();

    CHECK(p);
    pool.deallocate(b, p, 4_MiB);
    pool.deallocate(b, kept, 2_MiB);
}

TEST_CASE("a block that is freed while pages are mapped beside it is reused in order",
          "[pool][growing_range]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const a;
    cuota::stream const b;
    std::function<void()> meanwhile;
    cuota::scoped_pool pool =
        cuota::detail::pool_on_pages::make(cuota::budget{"trainer", 64_MiB}, cuota::device_memory{}, {},
                                           cuota::detail::light_unique_ptr<pages_that_tell>::make(meanwhile));
    void* const p = pool.allocate(a, 1_MiB);
    support::gate gate{a};
    cuota::rt::fill_bytes(p, 1, 1_MiB, a);
    meanwhile = [&] { pool.deallocate(a, p, 1_MiB); };

    // When it is requested, half of the page is free; the other half is freed while pages are mapped.
    void* const q = pool.allocate(b, 2_MiB);

    REQUIRE(q == p);
    cuota::rt::fill_bytes(q, 2, 2_MiB, b);
    gate.open();
    b.synchronize();
    CHECK(simulator::misuse().races == 0);
    pool.deallocate(b, q, 2_MiB);
}

TEST_CASE("destroying a pool waits for work on leaked blocks", "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const a;
    std::optional<support::gate> gate;
    std::thread opener;
    {
        cuota::scoped_pool pool{budget};
        void* const lost = pool.allocate(a, 1_MiB);
        gate.emplace(a);
        support::write_words(a, lost, 1_MiB, 1);
        opener = std::thread{[&] { gate->open(); }};
    }
    opener.join();
    CHECK(machine.errors.take().size() == 1);  // reports the leak, but no unfinished work
    CHECK(cudaStreamSynchronize(a.get()) == cudaSuccess);
    CHECK(budget.held() == 0);
}

TEST_CASE("pages whose work cannot be waited for stay free in the pool", "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const a;
    cuota::scoped_pool pool{budget};
    pool.deallocate(a, pool.allocate(a, 3_MiB), 3_MiB);
    simulator::fail_call("cudaEventSynchronize", 1);

    CHECK(pool.trim() == 0);

    CHECK(machine.errors.take().size() == 1);
    CHECK(budget.held() == 4_MiB);
    CHECK(pool.largest_free() == 4_MiB);
    CHECK(pool.trim() == 4_MiB);
}

TEST_CASE("pages that cannot be unmapped stay in the pool", "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const a;
    cuota::scoped_pool pool{budget};
    pool.deallocate(a, pool.allocate(a, 6_MiB), 6_MiB);
    simulator::fail_call("cuMemUnmap", 1, cudaErrorUnknown);
    simulator::fail_call("cuMemUnmap", 2, cudaErrorUnknown);

    CHECK(pool.trim() == 0);

    CHECK(machine.errors.take().size() == 1);
    CHECK(budget.held() == 6_MiB);
    CHECK(pool.largest_free() == 6_MiB);
    CHECK(pool.trim() == 6_MiB);
    CHECK(budget.held() == 0);
    CHECK(simulator::live().device_bytes == 0);
}

TEST_CASE("a request for pages that fails for any reason leaves the pool unchanged",
          "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{budget};
    std::size_t failed = 0;
    for (std::uint64_t nth = 1;; ++nth) {
        user u{pool, a};
        for (int i = 0; i != 4; ++i) u.take(2_MiB);
        u.give(1);
        pool.deallocate(b, std::exchange(u.all[3].at, nullptr), 2_MiB);
        auto const before = pool.stats();
        simulator::fail_call(nullptr, nth, cudaErrorUnknown);
        auto const injected = simulator::faults_injected();
        void* p = nullptr;
        try {
            p = pool.allocate(a, 4_MiB);
        } catch (cuota::cuda_error const&) { ++failed; }
        bool const was_hit = simulator::faults_injected() != injected;
        simulator::clear_faults();
        (void)machine.errors.take();
        auto const after = pool.stats();
        CHECK(budget.held() == after.reserved);
        CHECK(simulator::live().device_bytes == after.reserved);
        if (!p) {
            CHECK(after.live_blocks == before.live_blocks);
            CHECK(after.requested == before.requested);
        }
        pool.deallocate(a, p, 4_MiB);
        u.give_all();
        pool.trim();
        REQUIRE(budget.held() == 0);
        if (!was_hit) break;
    }
    CHECK(failed > 5);
}

TEST_CASE("a pool of pages survives the failure of any CUDA call", "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 12_MiB};
    auto const life = [&] {
        cuota::stream const a;
        cuota::stream const b;
        cuota::scoped_pool pool{budget, {.initial_size = 2_MiB, .max_size = 5_MiB}};
        user u{pool, a};
        try {
            u.take(2_MiB);
            u.take(1_MiB + 512_KiB);
            pool.deallocate(b, std::exchange(u.all[0].at, nullptr), 2_MiB);
            u.take(2_MiB + 256_KiB);  // next to the second block, with the first one's page
            u.take(1_MiB);            // a segment, because no page is left under the cap
            u.give(2);
            (void)pool.trim(3_MiB);
        } catch (...) {
            u.give_all();
            throw;
        }
        u.give_all();
    };
    auto const seen = support::survives_every_failure(machine, life, {cudaErrorUnknown});
    CHECK(budget.held() == 0);
    CHECK(seen.thrown > 10);
    CHECK(simulator::live().address_ranges == 0);
}

TEST_CASE("a budget of a device counts mapped pages as its own memory", "[pool][growing_range]") {
    support::machine const machine{{1, 64_MiB}};
    cuota::budget const budget = cuota::budget::for_device(cuota::device{0});
    cuota::stream const stream;
    std::size_t const limit = budget.limit();
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    u.take(20_MiB);
    u.take(2_MiB);
    CHECK(budget.limit() == limit);
    u.take(cuota::round_down(budget.available(), 2_MiB));
    auto const refused = thrown<cuota::out_of_memory>([&] { (void)pool.allocate(stream, 4_MiB); });
    REQUIRE(refused.info().device);
    CHECK(refused.info().device->own == pool.stats().reserved);
    u.give_all();
}

TEST_CASE("in a random walk, a capped pool never refuses a request that its free pages hold",
          "[pool][growing_range]") {
    simulator::options shape;
    support::machine const machine{shape};
    cuota::budget budget{"trainer", 64_MiB};
    std::size_t const cap = 32_MiB;
    cuota::scoped_pool pool{budget, {.max_size = cap}};
    std::vector<cuota::stream> streams(3);
    std::vector<std::pair<allocation, std::uint32_t>> live;
    std::mt19937 random{7};
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i != 120; ++i) {
        cuota::stream_ref const s = streams[random() % 3];
        std::size_t const wanted = 2_MiB * (1 + random() % 6);
        while (bytes + wanted > cap || (!live.empty() && random() % 4 == 0)) {
            std::size_t const which = random() % live.size();
            auto const [a, mark] = live[which];
            REQUIRE(support::all_are(support::words(s, a.at, 64), mark));
            pool.deallocate(s, a.at, a.bytes);
            bytes -= a.bytes;
            live[which] = live.back();
            live.pop_back();
        }
        void* p = nullptr;
        REQUIRE_NOTHROW(p = pool.allocate(s, wanted));
        REQUIRE(is_on_a_page(p));
        support::write_words(s, p, 64, i);
        s.synchronize();
        live.push_back({{p, wanted}, i});
        bytes += wanted;
        REQUIRE(budget.held() <= cap);
        REQUIRE(budget.held() == simulator::live().device_bytes);
    }
    for (auto const& [a, mark] : live) pool.deallocate(streams[0], a.at, a.bytes);
}

TEST_CASE("threads may grow and trim one pool of pages at the same time", "[pool][growing_range][threads]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 32_MiB};
    {
        cuota::scoped_pool pool{budget};
        std::atomic<int> refused = 0;
        auto const work = [&](unsigned seed) {
            std::mt19937 random{seed};
            cuota::stream const s;
            for (int i = 0; i != 40; ++i) {
                std::size_t const bytes = 1 + random() % (6_MiB);  // up to four pages, the outer ones in part
                try {
                    void* const p = pool.allocate(s, bytes);
                    if (i % 7 == 0) pool.trim(random() % 16_MiB);
                    pool.deallocate(s, p, bytes);
                } catch (cuota::out_of_memory const&) { ++refused; }
            }
        };
        std::vector<std::thread> threads;
        for (unsigned seed = 0; seed != 3; ++seed) threads.emplace_back(work, seed);
        for (std::thread& t : threads) t.join();
        CHECK(refused == 0);
        CHECK(pool.stats().requested == 0);
        CHECK(pool.stats().reserved == budget.held());
    }
    CHECK(budget.held() == 0);
}

TEST_CASE("a full device's refusal reports the size that would fit with the pool's free bytes",
          "[pool][growing_range]") {
    support::machine const machine{{1, 16_MiB}};
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    user u{pool, stream};
    u.take(3_MiB);  // leaves 1 MiB of a page free
    simulator::set_other_programs(0, 10_MiB);
    REQUIRE(cuota::device{0}.memory().free == 2_MiB);

    auto const refused = thrown<cuota::out_of_memory>([&] { (void)pool.allocate(stream, 4_MiB); });

    CHECK(refused.info().max_fit == 3_MiB);
    u.take(3_MiB);
    CHECK_THROWS_AS(pool.allocate(stream, 1), cuota::out_of_memory);
    u.give_all();
}

TEST_CASE("pages that can neither be used nor unmapped stay charged until the pool is destroyed",
          "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{budget};
        user u{pool, stream};
        u.take(2_MiB);
        u.take(2_MiB);
        u.take(2_MiB);
        u.give(1);
        REQUIRE(pool.trim() == 2_MiB);  // leaves a hole between live blocks
        u.give(2);

        // Of 4 MiB behind the free block one page is mapped, and unmapping it fails twice.
        simulator::fail_call("cuMemCreate", 3, cudaErrorUnknown);
        simulator::fail_call("cuMemUnmap", 1, cudaErrorUnknown);
        simulator::fail_call("cuMemUnmap", 2, cudaErrorUnknown);
        CHECK_THROWS_AS(pool.allocate(stream, 8_MiB), cuota::cuda_error);

        std::size_t const told = machine.errors.take().size();
        CHECK(told == 1);
        auto const now = pool.stats();
        CHECK(now.reserved == simulator::live().device_bytes);
        CHECK(budget.held() == now.reserved);
        CHECK(now.reserved == 6_MiB);
        CHECK(pool.trim() == 2_MiB);  // the free page
        CHECK(budget.held() == simulator::live().device_bytes);

        u.take(8_MiB);  // at other addresses
        CHECK(budget.held() == simulator::live().device_bytes);
        u.give_all();
    }
    CHECK(budget.held() == 0);
    CHECK(simulator::live().device_bytes == 0);
    CHECK(simulator::live().address_ranges == 0);
}

TEST_CASE("mapped pages stay charged after a failed unmap and any other failure, until the pool is destroyed",
          "[pool][growing_range]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    std::size_t kept = 0;
    for (std::uint64_t nth = 1;; ++nth) {
        bool was_hit = true;
        {
            cuota::scoped_pool pool{budget};
            user u{pool, stream};
            for (int i = 0; i != 3; ++i) u.take(2_MiB);
            u.give(1);
            pool.trim();
            u.give(2);
            auto const injected = simulator::faults_injected();
            simulator::fail_call(nullptr, nth, cudaErrorUnknown);
            for (std::uint64_t const first : {1U, 2U})
                simulator::fail_call("cuMemUnmap", first, cudaErrorUnknown);
            void* p = nullptr;
            try {
                p = pool.allocate(stream, 8_MiB);
            } catch (cuota::cuda_error const&) {}
            was_hit = simulator::faults_injected() != injected;
            simulator::clear_faults();
            (void)machine.errors.take();
            std::size_t const mapped = simulator::live().device_bytes;
            CHECK(budget.held() == mapped);
            CHECK(pool.stats().reserved == mapped);
            if (!p && mapped > 4_MiB) ++kept;
            pool.deallocate(stream, p, 8_MiB);
            u.give_all();
        }
        REQUIRE(budget.held() == 0);
        REQUIRE(simulator::live().device_bytes == 0);
        REQUIRE(simulator::live().address_ranges == 0);
        if (!was_hit) break;
    }
    CHECK(kept > 3);
}
