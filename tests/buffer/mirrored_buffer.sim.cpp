// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/mirrored_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t count = 1000;
using ints = cuota::mirrored_buffer<int>;

struct add_to_all {
    cuota::device_span<int> to;
    int value;
    void operator()(std::size_t i) const { to[i] += value; }
};

void add(ints& to, int value, cuota::stream_ref s) {
    auto const some = to.write(s);
    cuota::for_each_index(s, count, add_to_all{some.span(), value}, "add");
}
bool are(ints& all, int value) {
    auto const some = all.read_host();
    return std::ranges::all_of(some, [&](int x) { return x == value; });
}

}  // namespace

TEST_CASE("a valid side is not copied again", "[buffer][mirrored_buffer]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    ints all{count, s, cuota::device_memory{}};
    std::ranges::fill(all.write_host(), 1);
    calls_since const copies{"cudaMemcpyAsync"};
    for (int i = 0; i != 5; ++i) {
        (void)all.read(s);
        (void)all.read(other);
        (void)all.read_host();
    }
    CHECK(copies.count() == 1);
    for (int i = 0; i != 5; ++i) add(all, 1, s);
    CHECK(copies.count() == 1);
    for (int i = 0; i != 5; ++i) (void)all.read_host();
    CHECK(copies.count() == 2);
    all.release_host();
    all.prefetch_to_device(other);
    CHECK(copies.count() == 2);
    CHECK(are(all, 6));
    CHECK(copies.count() == 3);
}

TEST_CASE("each side allocates memory once, and release and evict free it", "[buffer][mirrored_buffer]") {
    support::machine const machine;
    cuota::stream const s;
    constexpr std::size_t device_bytes = 8 * 512;  // 4,000 bytes, rounded up
    ints all{count, s, cuota::device_memory{}};
    auto const live = [] {
        return std::pair{simulator::live().device_bytes, simulator::live().pinned_bytes};
    };
    (void)all.write_host();
    CHECK(live() == std::pair{std::size_t{0}, count * sizeof(int)});
    add(all, 1, s);
    CHECK(live() == std::pair{device_bytes, count * sizeof(int)});
    all.release_host();
    CHECK(live() == std::pair{device_bytes, std::size_t{0}});
    all.evict_to_host(s);
    CHECK(live() == std::pair{std::size_t{0}, count * sizeof(int)});
    CHECK(are(all, 1));
}

TEST_CASE("the host waits neither for an eviction nor for a prefetch", "[buffer][mirrored_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const copies;
    cuota::scoped_pool pool{cuota::budget{"test", 4_MiB}};
    ints all{count, home, pool.resource()};
    add(all, 3, home);
    home.synchronize();
    {
        support::gate const gate{copies};
        all.evict_to_host(copies);
        CHECK_FALSE(copies.is_idle());
        CHECK(all.is_host_valid());
        CHECK_FALSE(all.has_device_memory());
        CHECK(pool.stats().live_blocks == 0);
        all.prefetch_to_device(copies);
        add(all, 4, home);
        CHECK_FALSE(home.is_idle());  // waits for the copies
    }
    CHECK(are(all, 7));
}

TEST_CASE("a mirrored_buffer survives the failure of any CUDA call", "[buffer][mirrored_buffer]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::stream const copies;
        ints all{count, s, cuota::device_memory{}};
        std::ranges::fill(all.write_host(), 1);
        add(all, 1, s);
        all.evict_to_host(copies);
        bool const was_offloaded = are(all, 2);  // throws
        REQUIRE(was_offloaded);
        all.prefetch_to_device(copies);
        all.release_host();
        add(all, 1, copies);
        bool const is_right = are(all, 3);
        REQUIRE(is_right);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("a mirrored_buffer keeps its values when any CUDA call fails", "[buffer][mirrored_buffer]") {
    support::machine machine;
    cuota::stream const s;
    cuota::stream const copies;
    ints all{count, s, cuota::device_memory{}};
    int value = 0;
    bool has_failed = true;
    for (std::uint64_t nth = 1; has_failed; ++nth) {
        INFO("call " << nth);
        auto const injected = simulator::faults_injected();
        simulator::fail_call(nullptr, nth);
        auto const tries = [&](auto step) {
            try {
                step();
            } catch (cuota::cuda_error const&) {
            } catch (cuota::out_of_memory const&) {}
        };
        tries([&] { all.evict_to_host(copies); });
        tries([&] { all.prefetch_to_device(copies); });
        tries([&] { all.release_host(); });
        tries([&] { (void)all.read_host(); });
        has_failed = simulator::faults_injected() != injected;
        simulator::clear_faults();
        (void)machine.errors.take();
        REQUIRE(are(all, value));
        add(all, 1, s);
        ++value;
    }
    CHECK(value > 10);
}
