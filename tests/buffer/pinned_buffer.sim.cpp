// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Uses stopped streams to show which copies are waited for.
#include <cuota/buffer/pinned_buffer.hpp>

#include <algorithm>
#include <optional>
#include <thread>

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

struct scene {
    cuota::stream const stream{};
    cuota::device_buffer<int> there{count, 5, stream, cuota::device_memory{}};
    cuota::pinned_buffer<int> some{count};

    scene() { stream.synchronize(); }
};

// Opens the gate on another thread while this one waits for it.
class opener {
public:
    explicit opener(support::gate& gate) : thread_{[&gate] { gate.open(); }} {}
    ~opener() { thread_.join(); }
    opener(opener const&) = delete;
    opener& operator=(opener const&) = delete;

private:
    std::thread thread_;
};

}  // namespace

TEST_CASE("read waits for a download", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.stream};
    on.some.download(on.there, on.stream);

    calls_since const waits{"cudaEventSynchronize"};
    opener const later{gate};
    auto const seen = on.some.read();

    CHECK(std::ranges::all_of(seen, [](int i) { return i == 5; }));
    CHECK(waits.count() == 1);
}

TEST_CASE("a pinned_buffer can be used while another thread waits for its elements",
          "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    cuota::stream const other;
    cuota::device_buffer<int> elsewhere{count, other, cuota::device_memory{}};
    std::ranges::fill(on.some.write(), 3);
    support::gate gate{on.stream};
    on.some.upload(on.there, on.stream);
    support::while_waiting(
        gate, "cudaEventSynchronize", [&] { (void)on.some.write(); },
        [&] {
            on.some.upload(elsewhere, other);
            CHECK(elsewhere.to_vector(other) == std::vector<int>(count, 3));
        });
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
}

TEST_CASE("a device_buffer can be used while the end of a lease waits for its stream",
          "[buffer][pinned_buffer]") {
    support::machine machine;
    scene on;
    cuota::stream const late;
    cuota::stream const other;
    support::gate gate{late};
    auto lease = std::optional{on.there.read(late)};
    simulator::fail_call("cudaEventCreateWithFlags", 1, cudaErrorUnknown);
    support::while_waiting(
        gate, "cudaStreamSynchronize", [&] { lease.reset(); },
        [&] { CHECK(on.there.to_vector(other) == std::vector<int>(count, 5)); });
    CHECK(machine.errors.take().size() == 1);
    CHECK(late.is_idle());
}

TEST_CASE("read does not wait for an upload", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.stream};
    on.some.upload(on.there, on.stream);

    calls_since const calls;
    CHECK(on.some.read().size() == count);  // the stream is stopped: a wait would not return

    CHECK(calls.count() == 0);
}

TEST_CASE("write waits for an upload", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    std::ranges::fill(on.some.write(), 1);
    support::gate gate{on.stream};
    on.some.upload(on.there, on.stream);
    {
        opener const later{gate};
        std::ranges::fill(on.some.write(), 2);
    }
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 1));
}

TEST_CASE("a wait that has finished is not repeated", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    on.some.upload(on.there, on.stream);
    on.some.download(on.there, on.stream);
    (void)on.some.write();

    calls_since const calls;
    (void)on.some.write();
    (void)on.some.read();

    CHECK(calls.count() == 0);
}

TEST_CASE("two uploads of one pinned_buffer on two streams do not wait for each other",
          "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    cuota::stream const other;
    cuota::device_buffer<int> elsewhere{count, other, cuota::device_memory{}};
    other.synchronize();
    std::ranges::fill(on.some.write(), 3);
    support::gate gate{on.stream};
    on.some.upload(on.there, on.stream);

    on.some.upload(elsewhere, other);
    REQUIRE_NOTHROW(other.synchronize());  // while the first stream is stopped

    gate.open();
    CHECK(elsewhere.to_vector(other) == std::vector<int>(count, 3));
}

TEST_CASE("a download waits for an upload of the same elements on another stream",
          "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    cuota::stream const other;
    cuota::device_buffer<int> elsewhere{count, 9, other, cuota::device_memory{}};
    other.synchronize();
    std::ranges::fill(on.some.write(), 3);
    support::gate gate{on.stream};
    on.some.upload(on.there, on.stream);

    on.some.download(elsewhere, other);

    support::let_ready_work_run();
    CHECK_FALSE(other.is_idle());
    gate.open();
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 3));
    CHECK(std::ranges::all_of(on.some.read(), [](int i) { return i == 9; }));
}

TEST_CASE("destroying a pinned_buffer waits for its copies", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    support::gate gate{on.stream};
    calls_since const waits{"cudaEventSynchronize"};
    {
        cuota::pinned_buffer<int> from{count};
        std::ranges::fill(from.write(), 4);
        from.upload(on.there, on.stream);
        cuota::pinned_buffer<int> const moved{std::move(from)};
        gate.open();
    }
    CHECK(waits.count() == 1);
    CHECK(on.stream.is_idle());
    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 4));
}

TEST_CASE("destroying an unused pinned_buffer waits for nothing", "[buffer][pinned_buffer]") {
    support::machine const machine;
    calls_since const calls;
    calls_since const modes{"cudaThreadExchangeStreamCaptureMode"};
    { cuota::pinned_buffer<int> const untouched{count}; }
    CHECK(calls.count() - modes.count() == 2);  // one allocation, one free
}

TEST_CASE("a copy that cannot be enqueued leaves both buffers usable", "[buffer][pinned_buffer]") {
    support::machine const machine;
    scene on;
    simulator::fail_call("cudaMemcpyAsync", 1, cudaErrorUnknown);
    bool const up = GENERATE(true, false);

    if (up) CHECK_THROWS_AS(on.some.upload(on.there, on.stream), cuota::cuda_error);
    else CHECK_THROWS_AS(on.some.download(on.there, on.stream), cuota::cuda_error);

    CHECK(on.there.to_vector(on.stream) == std::vector<int>(count, 5));
    CHECK(std::ranges::all_of(on.some.read(), [](int i) { return i == 0; }));
    REQUIRE_NOTHROW(on.some.download(on.there, on.stream));
    CHECK(std::ranges::all_of(on.some.read(), [](int i) { return i == 5; }));
}

TEST_CASE("an upload and a download survive the failure of any CUDA call, and leak nothing",
          "[buffer][pinned_buffer]") {
    support::machine machine;
    cuota::budget host{"pinned", 1_MiB};

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const home;
        cuota::stream const other;
        cuota::device_buffer<int> there{count, home, cuota::device_memory{}};
        cuota::pinned_buffer<int> some{count, host};
        std::ranges::fill(some.write(), 1);
        some.upload(there, other);
        std::ranges::fill(some.write(), 2);
        some.download(there, home);
        (void)some.read();
    });

    CHECK(seen.thrown > 10);
    CHECK(host.held() == 0);
}
