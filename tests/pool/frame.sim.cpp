// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Frames on the simulator's race checker: chunks are freed after all work that may use them.
#include <cuota/pool/frame.hpp>

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

TEST_CASE("a warm frame makes no CUDA call on one stream", "[pool][frame]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 16_MiB}};
    { (void)pool.frame().allocate(s, 1000); }
    calls_since const calls;
    for (int step = 0; step != 10; ++step) {
        auto frame = pool.frame();
        for (int i = 0; i != 100; ++i) (void)frame.allocate(s, 10'000);
    }
    CHECK(calls.count() == 0);
}

TEST_CASE("destroying a frame does not wait, and its memory is reused on another stream in order",
          "[pool][frame]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    support::gate gate{a};
    {
        auto frame = pool.frame();
        for (int i = 0; i != 8; ++i) cuota::rt::fill_bytes(frame.allocate(a, 128_KiB), 1, 128_KiB, a);
    }
    void* const p = pool.allocate(b, 1_MiB);
    cuota::rt::fill_bytes(p, 2, 1_MiB, b);
    support::let_ready_work_run();
    CHECK_FALSE(b.is_idle());
    gate.open();
    b.synchronize();
    CHECK(simulator::misuse().races == 0);
    pool.deallocate(b, p, 1_MiB);
}

TEST_CASE("a chunk is reused only after the work of the other streams that freed parts of it",
          "[pool][frame]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    std::optional<support::gate> gate;
    bool const is_kept = GENERATE(false, true);
    bool const is_native = GENERATE(false, true);
    std::optional<void*> kept;
    std::optional<cuota::frame_resource> memory;
    {
        auto frame = pool.frame();
        memory = frame.resource();
        void* const p = memory->allocate(a, 512_KiB);
        if (is_kept) kept = memory->allocate(a, 512_KiB);
        cuota::rt::fill_bytes(p, 1, 512_KiB, a);
        b.wait(cuota::event{a});
        gate.emplace(b);
        cuota::rt::fill_bytes(p, 2, 512_KiB, b);
        memory->deallocate(is_native ? cuota::stream_ref{b.get()} : cuota::stream_ref{b}, p, 512_KiB);
        if (is_kept) {
            cuota::rt::fill_bytes(*kept, 3, 512_KiB, b);
            memory->deallocate(b, *kept, 512_KiB);
        }
    }
    void* const p = pool.allocate(c, 512_KiB);
    cuota::rt::fill_bytes(p, 4, 512_KiB, c);
    support::let_ready_work_run();
    gate.reset();
    c.synchronize();
    pool.deallocate(c, p, 512_KiB);
    void* const all = pool.allocate(c, 1_MiB);
    cuota::rt::fill_bytes(all, 5, 1_MiB, c);
    c.synchronize();
    CHECK(simulator::misuse().races == 0);
    pool.deallocate(c, all, 1_MiB);
}

TEST_CASE("memory that outlives its frame is freed after the work of all streams that used it",
          "[pool][frame]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    std::optional<cuota::frame_resource> memory;
    void* late = nullptr;
    {
        cuota::stream const a;  // destroyed before its memory is freed
        {
            auto frame = pool.frame();
            memory = frame.resource();
            late = memory->allocate(a, 60'000);
            cuota::rt::fill_bytes(late, 1, 60'000, a);
        }
        CHECK(machine.errors.take().size() == 1);
        b.wait(cuota::event{a});
    }
    cuota::rt::fill_bytes(late, 2, 60'000, b);
    memory->deallocate(b, late, 60'000);
    CHECK(pool.stats().live_blocks == 0);
    void* const all = pool.allocate(b, 1_MiB);
    cuota::rt::fill_bytes(all, 3, 1_MiB, b);
    b.synchronize();
    CHECK(simulator::misuse().races == 0);
    pool.deallocate(b, all, 1_MiB);
}

TEST_CASE("a free in a frame on a stream whose id cannot be queried waits for that stream's work",
          "[pool][frame]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreate(&native) == cudaSuccess);
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    {
        auto frame = pool.frame();
        auto memory = frame.resource();
        void* const p = memory.allocate(native, 512_KiB);
        cuota::rt::fill_bytes(p, 1, 512_KiB, native);
        simulator::fail_call("cudaStreamGetId", 1, cudaErrorUnknown, simulator::fault_kind::until_cleared);
        memory.deallocate(native, p, 512_KiB);
        simulator::clear_faults();
        CHECK(machine.errors.take().size() == 1);
        CHECK(memory.allocate(native, 512_KiB) == p);
        memory.deallocate(native, p, 512_KiB);
    }
    CHECK(pool.stats().live_blocks == 0);
    void* const all = pool.allocate(other, 1_MiB);
    cuota::rt::fill_bytes(all, 2, 1_MiB, other);
    pool.deallocate(other, all, 1_MiB);
    other.synchronize();
    CHECK(simulator::misuse().races == 0);
    CHECK(cudaStreamDestroy(native) == cudaSuccess);
}

TEST_CASE("frames of random sizes, streams and depths are ordered without races and leak nothing",
          "[pool][frame]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::mt19937 random{5};
    std::vector<cuota::stream> streams(4);
    cuota::scoped_pool pool{cuota::budget{"trainer", 32_MiB}, {.initial_size = 2_MiB}};
    auto const any_stream = [&]() -> cuota::stream& { return streams[random() % streams.size()]; };
    auto const fill = [&](auto&& self, cuota::frame& frame, int depth) -> void {
        struct held {
            void* p;
            std::size_t bytes;
            cuota::stream* s;
        };
        std::vector<held> owned;
        auto memory = frame.resource();
        for (int i = 0; i != 12; ++i) {
            std::size_t const bytes = 1 + random() % 40'000;
            cuota::stream& s = any_stream();
            if (random() % 2 == 0) {
                cuota::rt::fill_bytes(frame.allocate(s, bytes), 1, bytes, s);
            } else {
                owned.push_back({memory.allocate(s, bytes), bytes, &s});
                cuota::rt::fill_bytes(owned.back().p, 2, bytes, s);
            }
            if (depth != 0 && i % 6 == 5) {
                auto inner = frame.nested();
                self(self, inner, depth - 1);
            }
            while (!owned.empty() && (i == 11 || random() % 3 == 0)) {
                std::swap(owned[random() % owned.size()], owned.back());
                auto const [p, n, home] = owned.back();
                owned.pop_back();
                cuota::stream& last = any_stream();
                if (&last != home) last.wait(cuota::event{*home});
                cuota::rt::fill_bytes(p, 3, n, last);
                memory.deallocate(last, p, n);
            }
        }
    };
    for (int round = 0; round != 20; ++round) {
        auto frame = pool.frame();
        fill(fill, frame, 2);
    }
    for (cuota::stream const& s : streams) s.synchronize();
    CHECK(simulator::misuse().races == 0);
    CHECK(pool.stats().live_blocks == 0);
    CHECK(pool.stats().requested == 0);
}

TEST_CASE("a frame survives the failure of any CUDA call", "[pool][frame]") {
    support::machine machine;
    auto const seen = support::survives_every_failure(machine, [] {
        cuota::stream const a;
        cuota::stream const b;
        cuota::scoped_pool pool{cuota::budget{"trainer", 8_MiB}};
        auto frame = pool.frame();
        auto memory = frame.resource();
        cuota::device_buffer<int> const buffer{1000, a, frame, cuota::no_init};
        void* p = nullptr;
        try {
            (void)frame.allocate(a, 300'000);
            p = memory.allocate(a, 100'000);
            (void)frame.allocate(b, 200'000);
        } catch (...) {
            if (p) memory.deallocate(a, p, 100'000);
            throw;
        }
        b.wait(cuota::event{a});
        memory.deallocate(b, p, 100'000);
    });
    CHECK(seen.thrown != 0);
    CHECK(seen.reported != 0);
}
