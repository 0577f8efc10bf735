// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Uses stopped streams to show when a slot may be refilled.
#include <cuota/buffer/staging_ring.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::staging_ring;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t size = 4096;

struct scene {
    cuota::stream const stream{};
    cuota::device_buffer<std::byte> there{size, stream, cuota::device_memory{}};
    staging_ring ring;

    explicit scene(std::size_t slots) : ring{slots, size} { stream.synchronize(); }

    staging_ring::in_flight send(int value) { return send(ring.acquire(), value); }
    staging_ring::in_flight send(staging_ring::staging_slot slot, int value) {
        std::ranges::fill(slot.bytes(), static_cast<std::byte>(value));
        return std::move(slot).submit(stream, there.write(stream), size);
    }
    [[nodiscard]] bool has_arrived(int value) const {
        return there.to_vector(stream) == std::vector<std::byte>(size, static_cast<std::byte>(value));
    }
};

}  // namespace

TEST_CASE("a slot is not acquired again before its copy has finished", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{1};
    support::gate gate{on.stream};
    auto const first = on.send(1);
    CHECK_FALSE(on.ring.try_acquire());
    CHECK_FALSE(first.is_done());

    std::thread refill{[&] {
        auto slot = on.ring.acquire();  // waits for the copy
        std::ranges::fill(slot.bytes(), std::byte{2});
    }};
    gate.open();
    refill.join();

    CHECK(on.has_arrived(1));  // 2 would mean a refill during the copy
    CHECK(first.is_done());
    CHECK(on.ring.try_acquire());
}

TEST_CASE("a free slot is acquired while the copy of another is pending", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{2};
    support::gate gate{on.stream};
    auto const first = on.send(1);

    auto const second = on.ring.try_acquire();

    CHECK(second);
    CHECK_FALSE(on.ring.try_acquire());
    CHECK_FALSE(first.is_done());
}

TEST_CASE("slots are acquired in the order in which they were submitted", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{3};
    std::vector<std::byte*> order;
    for (int i = 0; i != 3; ++i) {
        auto slot = on.ring.acquire();
        order.push_back(slot.bytes().data());
        (void)on.send(std::move(slot), i);
    }
    for (int round = 0; round != 3; ++round)
        for (std::byte* const expected : order) {
            auto slot = on.ring.acquire();
            CHECK(slot.bytes().data() == expected);
            (void)on.send(std::move(slot), round);
        }
}

TEST_CASE("a copy stays finished after its slot was submitted again", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{1};
    auto const first = on.send(1);
    auto slot = on.ring.acquire();  // the first copy has finished
    support::gate gate{on.stream};
    auto const second = on.send(std::move(slot), 2);

    calls_since const waits{"cudaStreamWaitEvent"};
    cuota::stream const other;
    CHECK(first.is_done());
    first.synchronize();  // would not return if it waited for the second
    first.make_wait(other);
    CHECK(waits.count() == 0);
    CHECK_FALSE(second.is_done());

    second.make_wait(other);
    CHECK(waits.count() == 1);
    gate.open();
    second.synchronize();
    CHECK(second.is_done());
}

TEST_CASE("make_wait makes another stream wait for an unfinished copy", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{1};
    cuota::stream const other;
    support::gate gate{on.stream};
    auto const copy = on.send(1);

    copy.make_wait(other);

    cuota::for_each_index(other, 1, [](std::size_t) {});
    support::let_ready_work_run();
    CHECK_FALSE(other.is_idle());
}

TEST_CASE("destroying a staging_ring waits for its copies", "[buffer][staging_ring]") {
    support::machine const machine;
    cuota::stream const stream;
    cuota::device_buffer<std::byte> there{3 * size, stream, cuota::device_memory{}};
    support::gate gate{stream};
    calls_since const waits{"cudaEventSynchronize"};
    {
        staging_ring ring{3, size};
        auto const to = there.write(stream);
        for (std::size_t i = 0; i != 3; ++i) {
            auto slot = ring.acquire();
            std::ranges::fill(slot.bytes(), static_cast<std::byte>(i));
            (void)std::move(slot).submit(stream, to.span().subspan(i * size, size), size);
        }
        gate.open();
    }
    CHECK(waits.count() == 3);
    CHECK(stream.is_idle());
    auto const host = there.to_vector(stream);
    CHECK(host.front() == std::byte{0});
    CHECK(host.back() == std::byte{2});
}

TEST_CASE("a pending copy keeps its staging_ring's memory", "[buffer][staging_ring]") {
    support::machine const machine;
    std::optional<scene> on{std::in_place, 1u};
    auto const copy = on->send(1);
    on.reset();
    CHECK(simulator::live().pinned_bytes == size);
    copy.synchronize();
}

TEST_CASE("steady use of a staging_ring allocates no memory and creates no event", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{2};
    for (int i = 0; i != 2; ++i) (void)on.send(i);

    auto const allocations = simulator::allocation_calls();
    calls_since const events{"cudaEventCreateWithFlags"};
    calls_since const copies{"cudaMemcpyAsync"};
    for (int i = 0; i != 50; ++i) (void)on.send(i);

    CHECK(simulator::allocation_calls() == allocations);
    CHECK(events.count() == 0);
    CHECK(copies.count() == 50);
    CHECK(on.has_arrived(49));
}

TEST_CASE("a copy that cannot be enqueued returns its slot to the ring", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{1};
    char const* const call = GENERATE("cudaMemcpyAsync", "cudaEventCreateWithFlags", "cudaEventRecord");
    auto slot = on.ring.acquire();
    auto const to = on.there.write(on.stream);
    simulator::fail_call(call, 1, cudaErrorUnknown);

    CHECK_THROWS_AS(std::move(slot).submit(on.stream, to.span(), size), cuota::cuda_error);

    CHECK(on.stream.is_idle());
    CHECK(on.ring.try_acquire());
    REQUIRE_NOTHROW(on.send(3));
    CHECK(on.has_arrived(3));
}

TEST_CASE("a wait for a copy that fails returns the slot", "[buffer][staging_ring]") {
    support::machine const machine;
    scene on{1};
    (void)on.send(1);
    simulator::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);

    CHECK_THROWS_AS(on.ring.acquire(), cuota::cuda_error);

    REQUIRE_NOTHROW(on.send(2));
    CHECK(on.has_arrived(2));
}

TEST_CASE("a staging_ring that cannot be pinned is refused, or pageable if the policy allows it",
          "[buffer][staging_ring]") {
    support::machine on;
    cuota::label const who{"slots", cuota::source_location::current()};
    auto const ring_of = [&](cuota::any_resource memory, cuota::pin_failure_policy otherwise) {
        return staging_ring{2, size, std::move(memory), who, otherwise};
    };
    using enum cuota::pin_failure_policy;
    CHECK(ring_of(cuota::pinned_memory{}, use_pageable).is_pinned());

    simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    CHECK_THROWS_AS(ring_of(cuota::pinned_memory{}, refuse), cuota::out_of_memory);
    CHECK(on.errors.take().empty());

    // Failures other than a lack of memory are errors.
    simulator::fail_call("cudaHostAlloc", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(ring_of(cuota::pinned_memory{}, use_pageable), cuota::cuda_error);

    // A refusal by a budget does not fall back to pageable memory.
    cuota::budget const small{"small", size};
    CHECK_THROWS_AS(ring_of(cuota::budgeted<cuota::pinned_memory>{small}, use_pageable),
                    cuota::budget_exceeded);
    CHECK(on.errors.take().empty());

    cuota::budget const enough{"enough", 2 * size};
    simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    {
        staging_ring ring = ring_of(cuota::budgeted<cuota::pinned_memory>{enough}, use_pageable);
        CHECK_FALSE(ring.is_pinned());
        CHECK(enough.held() == 0);  // pageable memory is not charged
        auto const reported = on.errors.take();
        REQUIRE(reported.size() == 1);
        CHECK(reported[0].find("cudaHostAlloc could not page-lock that much memory") != std::string::npos);
        CHECK(support::last_error() == cudaSuccess);

        cuota::stream const s;
        cuota::device_buffer<std::byte> there{size, s, cuota::device_memory{}};
        for (int value = 1; value != 6; ++value) {
            auto slot = ring.acquire();
            std::ranges::fill(slot.bytes(), static_cast<std::byte>(value));
            auto const copied = std::move(slot).submit(s, there.write(s), size);
            copied.synchronize();
            CHECK(there.to_vector(s) == std::vector<std::byte>(size, static_cast<std::byte>(value)));
        }
    }
    CHECK(simulator::calls("cudaFreeHost") == 1);  // for the first ring
}

TEST_CASE("a staging_ring survives the failure of any CUDA call, and leaks nothing",
          "[buffer][staging_ring]") {
    support::machine machine;
    cuota::budget host{"pinned", 1_MiB};

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const stream;
        cuota::stream const other;
        cuota::device_buffer<std::byte> there{size, stream, cuota::device_memory{}};
        staging_ring ring{2, size, host};
        for (int i = 0; i != 4; ++i) {
            auto const copy = ring.acquire().submit(stream, there.write(stream), size);
            copy.make_wait(other);
            (void)copy.is_done();
            (void)ring.try_acquire();
        }
    });

    CHECK(seen.thrown > 10);
    CHECK(host.held() == 0);
}

TEST_CASE("a staging_ring refuses a stream of another device before it copies, and names both devices",
          "[buffer][staging_ring]") {
    support::machine machine{{.devices = 2}};
    staging_ring ring{2, size};
    cuota::stream const here;
    cuota::device_buffer<std::byte> near{size, here, cuota::device_memory{}};
    std::optional<cuota::stream> there;
    std::optional<cuota::device_buffer<std::byte>> far;
    {
        cuota::device_scope const other{cuota::device{1}};
        there.emplace();
        far.emplace(size, std::byte{7}, *there, cuota::device_memory{});
    }
    auto slot = ring.acquire();
    std::ranges::fill(slot.bytes(), std::byte{1});
    (void)std::move(slot).submit(here, near.write(here), size);

    for (cuota::stream_ref const s : {cuota::stream_ref{*there}, cuota::stream_ref{there->get()}})
        for (int i = 0; i != 3; ++i) {
            auto const refused = support::thrown<cuota::usage_error>([&] {
                (void)ring.acquire().submit(s, far->write(s), size, {"train.cpp", 3});
            });
            CHECK(support::has(refused.what(), "cannot copy on streams of two devices, 0 and 1"));
            CHECK(support::has(refused.what(), "train.cpp:3"));
        }
    CHECK(far->to_vector(*there) == std::vector<std::byte>(size, std::byte{7}));
    CHECK(ring.try_acquire());  // refused slots are back in the ring
    (void)ring.acquire().submit(here, near.write(here), size);
    CHECK(near.to_vector(here).size() == size);
}
