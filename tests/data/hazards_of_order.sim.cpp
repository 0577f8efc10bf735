// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Hazards H1 to H6 of loading data: memory that is overwritten or freed while a copy or a kernel still needs it. tests/README.md lists the
// guard against each.
#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"

extern "C" void cuota_simulator_declare(cudaStream_t stream, void const* pointer, std::size_t bytes,
                                        int writes);

namespace sim = cuota::simulator;
using support::copy_numbers;
using support::machine;
using support::numbered_source;
using support::seen_by;

namespace {

constexpr std::uint64_t seeds = 4;

using numbers = std::vector<std::uint32_t>;
using buffers = std::vector<cuota::device_buffer<std::uint32_t>>;

// Returns one buffer per batch, each for 4 samples of 5 numbers.
buffers buffers_for(std::size_t batches, cuota::stream const& s) {
    buffers made;
    for (std::size_t i = 0; i != batches; ++i) made.emplace_back(20, s, cuota::device_memory{});
    s.synchronize();
    return made;
}

// Checks that buffer i has the values that kernels read in batch i of 4 samples.
void expect_batches(buffers& seen, cuota::stream const& s) {
    for (std::size_t i = 0; i != seen.size(); ++i) {
        INFO("batch " << i);
        auto const values = seen[i].to_vector(s);
        for (std::size_t k = 0; k != values.size(); ++k) REQUIRE(values[k] == i * 4 + k / 5);
    }
}

// Passes an epoch through a device transform; everything is enqueued before anything runs.
void expect_in_order_when_transformed(std::size_t slots) {
    constexpr std::size_t batches = 8;
    machine const on;
    auto const seed = GENERATE(range(std::uint64_t{0}, seeds));
    if (seed != 0) sim::set_schedule(sim::schedule::late, seed);
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const s;
    cuota::device_transform const as_it_is{
        {{"numbers", cuota::element_type::u32, {5}}}, [](cuota::transform_context const& job) {
            cuota::for_each_index(job.stream(), 5 * job.size(),
                                  copy_numbers{job.in<std::uint32_t>(), job.out<std::uint32_t>()});
        }};
    cuota::batch_loader loader{
        numbered_source{batches * 4},
        {.batch_size = 4, .device_slots = slots, .host_slots = batches, .transform = as_it_is}};
    buffers seen = buffers_for(batches, s);
    {
        sim::hold const nothing_runs_yet;
        for (cuota::batch b : loader.epoch(0))
            cuota::for_each_index(s, 20, copy_numbers{b.view<std::uint32_t>(s), seen[b.index()].write(s)});
    }
    expect_batches(seen, s);
    CHECK(sim::race_reports() == std::vector<std::string>{});
}

void fill(cuota::staging_ring::staging_slot const& slot, int value) {
    std::ranges::fill(slot.bytes(), static_cast<std::byte>(value));
}

// Pinned memory whose freed blocks are overwritten at once. CUDA's own deallocation would wait for all earlier work.
struct handed_on_memory : cuota::pinned_memory {
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = cuota::default_alignment) noexcept {
        std::memset(p, 0xee, bytes);
        pinned_memory::deallocate_sync(p, bytes, alignment);
    }
};

template <class T>
concept gives_its_pointer = requires(T const& b) {
    b.data();
}
|| std::convertible_to<T const&, void const*>;
template <class T>
concept gives_its_bytes = requires(T const& copy) {
    copy.bytes();
};

}  // namespace

// A copy in flight provides no access to its slot.
static_assert(!gives_its_bytes<cuota::staging_ring::in_flight>);
static_assert(!std::is_copy_constructible_v<cuota::staging_ring::staging_slot>);

TEST_CASE("H1: a pinned slot is not refilled before its copy has finished", "[data][hazard]") {
    machine const on;
    SECTION("a loader with one pinned slot delivers each batch intact, however late its copies run") {
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
            sim::set_schedule(sim::schedule::late, seed);
            cuota::stream const s;
            cuota::batch_loader loader{numbered_source{24},
                                       {.batch_size = 4, .device_slots = 6, .host_slots = 1}};
            std::vector<cuota::batch> all;
            for (cuota::batch b : loader.epoch(0)) all.push_back(std::move(b));
            REQUIRE(all.size() == 6);
            for (std::uint32_t i = 0; i != 6; ++i) {
                std::uint32_t const first = i * 4;
                REQUIRE(seen_by(s, all[i]) == numbers{first, first + 1, first + 2, first + 3});
            }
        }
    }
    SECTION("try_acquire does not return a slot whose copy is in progress") {
        cuota::stream const s;
        cuota::device_buffer<std::byte> there{64, s, cuota::device_memory{}};
        s.synchronize();
        cuota::staging_ring ring{1, 64};
        auto slot = ring.acquire();
        {
            sim::hold const nothing_runs_yet;
            (void)std::move(slot).submit(s, there.write(s), 64);
            CHECK_FALSE(ring.try_acquire());
        }
        s.synchronize();
        CHECK(ring.try_acquire());
    }
}

TEST_CASE("H2: pinned memory is not freed while a copy from it is in progress", "[data][hazard]") {
    machine const on;
    SECTION("when the ring and the copy's own handle are destroyed") {
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
            sim::set_schedule(sim::schedule::late, seed);
            cuota::stream const s;
            cuota::device_buffer<std::byte> there{64, s, cuota::device_memory{}};
            s.synchronize();
            {
                cuota::staging_ring ring{1, 64, handed_on_memory{}};
                auto slot = ring.acquire();
                fill(slot, 7);
                (void)std::move(slot).submit(s, there.write(s), 64);
            }
            CHECK(there.to_vector(s) == std::vector<std::byte>(64, std::byte{7}));
        }
    }
    SECTION("when a loader releases its pinned slots to a budget that is short") {
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
            sim::set_schedule(sim::schedule::late, seed);
            cuota::stream const s;
            cuota::budget pinned{"pinned", 3 * 512};
            cuota::batch_loader loader{numbered_source{4},
                                       {.batch_size = 4, .pinned_budget = pinned, .reclaim_priority = 0}};
            buffers seen = buffers_for(1, s);
            for (cuota::batch const b : loader.epoch(0))
                cuota::for_each_index(s, 20, copy_numbers{b.view<std::uint32_t>(s), seen[0].write(s)});
            pinned.charge(1);
            CHECK(sim::live().pinned_bytes == 0);
            expect_batches(seen, s);
            pinned.refund(1);
        }
    }
    CHECK(sim::misuse().total() == 0);
}

// Access to a batch's data requires the stream that will work on it.
static_assert(!gives_its_pointer<cuota::batch>);

TEST_CASE("H3: a kernel on a batch starts after the batch's copy", "[data][hazard]") {
    machine const on;
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const s;
    cuota::stream const other;
    buffers seen = buffers_for(2, s);
    cuota::batch_loader loader{numbered_source{8}, {.batch_size = 4}};
    auto epoch = loader.epoch(0);
    {
        sim::hold const nothing_runs_yet;
        for (std::size_t i = 0; i != 2; ++i) {
            auto const b = epoch.next();
            auto const view = b->view<std::uint32_t>(s);
            cuota::for_each_index(s, 20, copy_numbers{view, seen[i].write(s)});
            b->used_on(other);
            cuota::for_each_index(
                other, 1, [](std::size_t) {}, "reads the batch");
        }
    }
    expect_batches(seen, s);
    CHECK(sim::race_reports() == std::vector<std::string>{});

    // Non-blocking streams are not ordered with the legacy default stream.
    cuota::batch_loader again{numbered_source{8}, {.batch_size = 4}};
    auto third = again.epoch(0);
    auto const b = third.next();
    CHECK_THROWS_AS(b->view<std::uint32_t>(cudaStreamLegacy), cuota::usage_error);
    CHECK_THROWS_AS(b->used_on(cudaStream_t{}), cuota::usage_error);
}

TEST_CASE("H3: a kernel on a batch starts after the batch's transform", "[data][hazard]") {
    expect_in_order_when_transformed(8);
}

// An event cannot exist unrecorded.
static_assert(!std::is_default_constructible_v<cuota::event>);
static_assert(!std::is_default_constructible_v<cuota::staging_ring::in_flight>);

TEST_CASE("H4: every event is recorded when it is constructed, so that waiting for it waits for work",
          "[data][hazard]") {
    machine const on;
    cuota::stream const first;
    cuota::stream const second;
    sim::hold const nothing_runs_yet;
    cuota::for_each_index(first, 1, [](std::size_t) {});
    cuota::event const made{first};
    CHECK_FALSE(made.is_done());
    second.wait(made);
    cuota::for_each_index(second, 1, [](std::size_t) {});
    CHECK_FALSE(second.is_idle());
    CHECK(sim::calls("cudaEventRecord") == sim::calls("cudaEventCreateWithFlags"));
}

TEST_CASE("H5: a device slot is overwritten after all work on its batch has finished on all streams",
          "[data][hazard]") {
    constexpr std::size_t batches = 8;
    machine const on;
    std::uint64_t const seed = GENERATE(0, 1, 2, 3);
    if (seed != 0) sim::set_schedule(sim::schedule::late, seed);
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const first;
    cuota::stream const second;
    std::size_t const slots = GENERATE(std::size_t{1}, std::size_t{2});
    // One pinned slot per batch: everything can be enqueued before anything runs.
    cuota::batch_loader loader{numbered_source{batches * 4},
                               {.batch_size = 4, .device_slots = slots, .host_slots = batches}};
    buffers by_first = buffers_for(batches, first);
    buffers by_second = buffers_for(batches, second);
    {
        sim::hold const nothing_runs_yet;
        for (cuota::batch b : loader.epoch(0)) {
            auto const view = b.view<std::uint32_t>(first);
            cuota::for_each_index(first, 20, copy_numbers{view, by_first[b.index()].write(first)});
            if (b.index() % 3 == 2) continue;  // the second stream uses some batches only
            b.used_on(second);
            cuota::for_each_index(second, 20, copy_numbers{view, by_second[b.index()].write(second)});
        }
    }
    expect_batches(by_first, first);
    for (std::size_t i = 0; i != batches; ++i) {
        if (i % 3 == 2) continue;
        auto const values = by_second[i].to_vector(second);
        for (std::size_t k = 0; k != values.size(); ++k) REQUIRE(values[k] == i * 4 + k / 5);
    }
    CHECK(sim::race_reports() == std::vector<std::string>{});
}

TEST_CASE("H5: a transform writes to a device slot after all work on the previous batch", "[data][hazard]") {
    expect_in_order_when_transformed(GENERATE(std::size_t{1}, std::size_t{2}));
}

TEST_CASE("H5: a stream that used a batch is synchronized if an event cannot be recorded on it",
          "[data][hazard]") {
    machine on;
    cuota::stream const s;
    buffers seen = buffers_for(3, s);
    cuota::batch_loader loader{numbered_source{12}, {.batch_size = 4, .device_slots = 1, .host_slots = 3}};
    auto epoch = loader.epoch(0);
    for (std::size_t i = 0; i != 3; ++i) {
        auto b = epoch.next();
        cuota::for_each_index(s, 20, copy_numbers{b->view<std::uint32_t>(s), seen[i].write(s)});
        sim::fail_call(i == 0 ? "cudaEventCreateWithFlags" : "cudaEventRecord", 1, cudaErrorUnknown);
        auto const waits = sim::calls("cudaStreamSynchronize");
        b.reset();
        sim::clear_faults();
        CHECK(sim::calls("cudaStreamSynchronize") == waits + 1);
        CHECK(on.errors.take().size() == 1);
    }
    expect_batches(seen, s);
}

TEST_CASE("H6: a kernel that uses a view after the end of its batch is reported", "[data][hazard]") {
    machine const on;
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{8}, {.batch_size = 4, .device_slots = 1, .host_slots = 2}};
    auto epoch = loader.epoch(0);
    auto b = epoch.next();
    auto const kept = b->view<std::uint32_t>(s);
    auto const read_it = [&] {
        cuota_simulator_declare(s.get(), kept.data(), kept.bytes(), 0);
        cuota::for_each_index(
            s, 1, [](std::size_t) {}, "reader");
    };
    read_it();
    cuota::batch moved = std::move(*b);  // the view stays valid
    read_it();
    CHECK(sim::race_reports() == std::vector<std::string>{});
    CHECK_THROWS_AS(b->view<std::uint32_t>(s), cuota::usage_error);
    CHECK_THROWS_AS(b->used_on(s), cuota::usage_error);
    CHECK_THROWS_AS(b->samples(), cuota::usage_error);

    { cuota::batch const ended = std::move(moved); }
    auto const next = epoch.next();  // its copy writes to the same slot
    REQUIRE(next);
    cuota::for_each_index(
        s, 1, [](std::size_t) {}, "innocent");
    CHECK(sim::race_reports() == std::vector<std::string>{});
    read_it();
    auto const reports = sim::race_reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].find("reader") != std::string::npos);
    CHECK(reports[0].find("cudaMemcpyAsync") != std::string::npos);

    // A use of the next batch on the same stream is in order again.
    (void)next->view<std::uint32_t>(s);
    read_it();
    CHECK(sim::race_reports().size() == 1);
}

TEST_CASE("H6: with the option poison, a view that is used after the end of its batch reads none of its data",
          "[data][hazard]") {
    machine const on;
    cuota::stream const s;
    bool const poisoned = GENERATE(false, true);
    cuota::batch_loader loader{numbered_source{8}, {.batch_size = 4, .poison = poisoned}};
    buffers seen = buffers_for(2, s);
    auto epoch = loader.epoch(0);
    auto b = epoch.next();
    auto const kept = b->view<std::uint32_t>(s);
    for (auto& out : seen) cuota::for_each_index(s, 20, copy_numbers{kept, out.write(s)});
    b.reset();  // poisoning is ordered after the batch's uses
    std::vector<std::uint32_t> const first = seen[0].to_vector(s);
    CHECK(seen[1].to_vector(s) == first);
    CHECK(first.back() == 3);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    cuota::for_each_index(s, 20, copy_numbers{kept, seen[1].write(s)});  // a use after the batch's end
    CHECK(seen[1].to_vector(s) == (poisoned ? std::vector<std::uint32_t>(20, ~0U) : first));

    auto const next = epoch.next();  // the next batch is unaffected
    CHECK(seen_by(s, *next) == std::vector<std::uint32_t>{4, 5, 6, 7});
}

TEST_CASE("H6: an ended batch is poisoned after all work on it and before the next batch is copied",
          "[data][hazard]") {
    constexpr std::size_t batches = 8;
    machine const on;
    auto const seed = GENERATE(range(std::uint64_t{0}, seeds));
    if (seed != 0) sim::set_schedule(sim::schedule::late, seed);
    sim::set_race_checks(sim::race_checks::report);
    cuota::stream const s;
    buffers seen = buffers_for(batches, s);
    cuota::batch_loader loader{numbered_source{4 * batches},
                               {.batch_size = 4, .device_slots = 2, .poison = true}};
    for (cuota::batch const b : loader.epoch(0))
        cuota::for_each_index(s, 20, copy_numbers{b.view<std::uint32_t>(s), seen[b.index()].write(s)});
    expect_batches(seen, s);
    CHECK(sim::race_reports() == std::vector<std::string>{});
}
