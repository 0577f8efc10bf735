// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budgeted.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::budgeted;

TEST_CASE("budgeted leaks nothing", "[guard][budgeted]") {
    support::machine const sim;
    budget b{"b", 1_GiB};
    SECTION("of device memory") { support::behaves_as_a_resource(budgeted<cuota::device_memory>{b}); }
    SECTION("of async memory") { support::behaves_as_a_resource(budgeted<cuota::async_memory>{b}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(budgeted<cuota::managed_memory>{b}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(budgeted<cuota::pinned_memory>{b}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(budgeted<cuota::any_resource>{b, cuota::async_memory{}});
    }
    REQUIRE(b.held() == 0);
}

TEST_CASE("budgeted reports the failure of any CUDA call, and its account stays correct",
          "[guard][budgeted]") {
    support::machine sim;
    cuota::stream const s;
    budget b{"b", 100_KiB};
    budgeted<cuota::async_memory> memory{b};
    auto const seen = support::survives_every_failure(sim, [&] {
        REQUIRE(b.held() == 0);
        void* const p = memory.allocate(s, 1000);
        try {
            memory.deallocate_sync(memory.allocate_sync(3000), 3000);
            REQUIRE_THROWS_AS(memory.allocate(s, 1_MiB), cuota::budget_exceeded);
        } catch (...) {
            memory.deallocate(s, p, 1000);
            throw;
        }
        memory.deallocate(s, p, 1000);
    });
    REQUIRE(b.held() == 0);
    REQUIRE(seen.thrown > 0);
    REQUIRE(seen.silent == 0);
}

TEST_CASE("a refused request makes no allocation call", "[guard][budgeted]") {
    support::machine const sim;
    budgeted<> memory{budget{"b", 1_KiB}};
    REQUIRE_THROWS_AS(memory.allocate_sync(2_KiB), cuota::budget_exceeded);
    REQUIRE(cuota::simulator::allocation_calls() == 0);
}

TEST_CASE("a full device throws out_of_memory and not budget_exceeded", "[guard][budgeted]") {
    support::machine const sim{{1, 1_MiB}};
    budget b{"b", 1_GiB};
    budgeted<> memory{b};
    try {
        (void)memory.allocate_sync(2_MiB);
        FAIL("nothing was thrown");
    } catch (cuota::budget_exceeded const&) {
        FAIL("the budget had room");
    } catch (cuota::out_of_memory const& refused) { REQUIRE(refused.info().max_fit == 1_MiB); }
    REQUIRE(b.held() == 0);
}

TEST_CASE("a refusal has the figures of the device and of other programs", "[guard][budgeted]") {
    support::machine const sim{{2, 64_MiB}};
    cuota::simulator::set_other_programs(1, 10_MiB);
    budgeted<> memory{budget{"b", 4_MiB}, cuota::device_memory{cuota::device{1}}};
    void* const p = memory.allocate_sync(3_MiB);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)memory.allocate_sync(2_MiB); });
    REQUIRE(refused.info().device);
    REQUIRE(refused.info().device->ordinal == 1);
    REQUIRE(refused.info().device->free == 51_MiB);
    REQUIRE(refused.info().device->external() == 10_MiB);
    memory.deallocate_sync(p, 3_MiB);
}

TEST_CASE("threads that allocate from one budget never exceed its limit", "[guard][budgeted]") {
    support::machine const sim;
    budget b{"b", 16_KiB};
    budgeted<cuota::async_memory> memory{b};
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([&, t] {
            cuota::stream const s;
            for (int i = 0; i != 300; ++i) {
                std::size_t const bytes = 1 + static_cast<std::size_t>((i * 37 + t * 11) % 8000);
                try {
                    memory.deallocate(s, memory.allocate(s, bytes), bytes);
                } catch (cuota::budget_exceeded const&) { ++refused; }
            }
            s.synchronize();
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(b.held() == 0);
    REQUIRE(b.peak() <= 16_KiB);
    INFO(refused << " refusals");
}

namespace {

// Yields, then throws out_of_memory for more than 1000 bytes.
struct picky_memory {
    std::shared_ptr<std::atomic<std::size_t>> held = std::make_shared<std::atomic<std::size_t>>(0);
    std::shared_ptr<std::atomic<std::size_t>> most = std::make_shared<std::atomic<std::size_t>>(0);

    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t a = cuota::default_alignment) {
        return allocate_sync(bytes, a);
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes,
                    std::size_t a = cuota::default_alignment) noexcept {
        deallocate_sync(p, bytes, a);
    }
    void* allocate_sync(std::size_t bytes, std::size_t = cuota::default_alignment) {
        std::this_thread::yield();
        if (bytes > 1000) throw cuota::out_of_memory{cuota::refusal{}};
        std::size_t const now = *held += bytes;
        std::size_t seen = *most;
        while (seen < now && !most->compare_exchange_weak(seen, now)) {}
        return ::operator new(bytes);
    }
    // The test subtracts the bytes from `held` after their refund, because the account counts them before it.
    void deallocate_sync(void* p, std::size_t, std::size_t = cuota::default_alignment) noexcept {
        ::operator delete(p);
    }
    static constexpr std::size_t granularity() noexcept { return 1; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
    friend bool operator==(picky_memory const&, picky_memory const&) = default;
};

}  // namespace

TEST_CASE("the peak does not include requests that upstream refused, while other threads charge",
          "[guard][budgeted]") {
    cuota::budget root{"root", 1'000'000'000};
    cuota::budget inside{"inside", 1'000'000'000, root};
    picky_memory const source;
    cuota::budgeted<picky_memory> memory{inside, source};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t != 4; ++t)
        threads.emplace_back([&, mine = memory, t]() mutable {
            for (std::size_t i = 0; i != 2000; ++i) {
                std::size_t const bytes = 1 + (i * 37 + t * 101) % 900;
                void* const p = mine.allocate_sync(bytes);
                try {
                    mine.deallocate_sync(mine.allocate_sync(1'000'000), 1'000'000);
                } catch (cuota::out_of_memory const&) {}
                if (i % 3 == t % 3 && root.try_charge(0)) root.refund(0);
                mine.deallocate_sync(p, bytes);
                *source.held -= bytes;
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(inside.held() == 0);
    CHECK(inside.peak() <= *source.most);
    CHECK(inside.peak() >= 900);
    CHECK(root.peak() == inside.peak());
    inside.reset_peak();
    CHECK(inside.peak() == 0);
}
