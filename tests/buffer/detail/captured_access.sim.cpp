// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Buffers in captures and in the resulting graphs: the dependencies of each launch, and operations that are refused before they invalidate
// the capture. Most tests rely on the simulator's race checker and its late schedule.
#include <cuota/buffer/detail/captured_access.hpp>

#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/kernels.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t count = 1000;
using ints = cuota::device_buffer<int>;

void add_one(ints const& from, ints& to, cuota::stream_ref s) {
    auto const source = from.read(s);
    auto const target = to.write(s);
    cuota::for_each_index(s, from.size(), support::add_one{target.span().data(), source.span().data()});
}
void increase(ints& x, cuota::stream_ref s) {
    auto const both = x.write(s);
    cuota::for_each_index(s, x.size(), support::add_one{both.span().data(), both.span().data()});
}
void set(ints& x, int value, cuota::stream_ref s) {
    auto const target = x.write(s);
    cuota::for_each_index(s, x.size(), support::write_value{target.span().data(), value});
}
int first_of(ints const& x, cuota::stream_ref s) { return x.to_vector(s).front(); }

template <class Action>
std::string why_refused(Action action) {
    return support::thrown<cuota::usage_error>(action).what();
}

struct scene {
    cuota::stream const home{};
    cuota::stream const other{};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    ints x{count, home, pool, "x"};
    ints y{count, home, pool, "y"};
};

}  // namespace

TEST_CASE("a launch on any stream counts as access to the buffers that were leased in the capture",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    auto graph = cuota::capture(on.home, [&] { add_one(on.x, on.y, on.home); });
    CHECK(first_of(on.y, on.other) == 0);  // nothing has run

    for (int round = 0; round != 5; ++round) {
        cuota::stream_ref const at = round % 2 == 0 ? on.home : on.other;
        cuota::stream_ref const else_where = round % 3 == 0 ? on.home : on.other;
        set(on.x, 10 * round, else_where);  // the launch waits for this
        graph.launch(at);
        CHECK(first_of(on.y, else_where) == 10 * round + 1);  // and this waits for the launch
        set(on.y, 0, else_where);
    }
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a launch on the home stream makes no CUDA call but the launch and a query for a foreign capture",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    auto graph = cuota::capture(on.home, [&] { add_one(on.x, on.y, on.home); });
    graph.launch(on.home);

    calls_since const all;
    calls_since const launches{"cudaGraphLaunch"};
    for (int i = 0; i != 10; ++i) graph.launch(on.home);

    CHECK(launches.count() == 10);
    CHECK(all.count() == 20);
}

TEST_CASE("launches of two graphs that share buffers are ordered across streams",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    auto more = cuota::capture(on.home, [&] { increase(on.x, on.home); });
    auto also = cuota::capture(on.other, [&] { increase(on.x, on.other); });
    for (int i = 0; i != 10; ++i) {
        more.launch(on.home);
        also.launch(on.other);
    }
    CHECK(first_of(on.x, on.home) == 20);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("leases in a capture order its streams", "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    ints z{count, on.home, on.pool};
    auto graph = cuota::capture({on.home, on.other}, [&] {
        increase(on.x, on.other);
        add_one(on.x, on.y, on.home);
        add_one(on.y, z, on.other);
        increase(on.x, on.home);
    });
    for (int i = 0; i != 5; ++i) {
        graph.launch(on.other);
        CHECK(first_of(z, on.home) == 2 * i + 3);
        CHECK(first_of(on.x, on.other) == 2 * i + 2);
    }
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a capture leaves later leases on any stream unaffected", "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    set(on.x, 7, on.other);  // outside a capture, the home stream would wait for this
    {
        auto const graph = cuota::capture(on.home, [&] { increase(on.x, on.home); });
    }
    CHECK(first_of(on.x, on.home) == 7);
    increase(on.x, on.home);
    CHECK(first_of(on.x, on.other) == 8);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("other streams and other threads can be used during a capture", "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    ints z{count, on.other, on.pool};
    set(on.x, 3, on.home);
    auto graph = cuota::capture(on.home, [&] {
        increase(on.y, on.home);
        add_one(on.x, z, on.other);  // no wait: home had completed its work before the capture
        increase(on.y, on.home);
        CHECK(first_of(z, on.other) == 4);
        std::thread{[&] {
            cuota::stream const own;
            add_one(on.x, z, own);
            CHECK(first_of(z, own) == 4);
        }}.join();
    });
    graph.launch(on.home);
    CHECK(first_of(on.y, on.other) == 2);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a lease that was begun before a capture and ends in it or later counts as work before it",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    std::optional<cuota::lease<int>> held{on.x.write(on.other)};
    std::optional<cuota::lease<int>> longer{on.y.write(on.other)};
    auto graph = cuota::capture(on.other, [&] { held.reset(); });
    longer.reset();
    increase(on.x, on.home);
    increase(on.y, on.home);
    CHECK(first_of(on.x, on.home) == 1);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a launch is refused when one of its buffers has a conflicting lease or was destroyed",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    std::optional<ints> z{std::in_place, count, on.home, on.pool};
    auto graph = cuota::capture(on.home, [&] {
        add_one(on.x, on.y, on.home);
        add_one(on.y, *z, on.home);
    });
    {
        auto const held = on.y.read(on.other);
        CHECK(why_refused([&] {
                  graph.launch(on.home);
              }).find("write requested here, but the buffer is leased for reading") != std::string::npos);
    }
    graph.launch(on.home);
    ints moved{std::move(*z)};  // the same buffer
    graph.launch(on.home);
    CHECK(first_of(moved, on.other) == 2);
    z = std::move(moved);
    z.reset();
    calls_since const launches{"cudaGraphLaunch"};
    CHECK(why_refused([&] { graph.launch(on.home); }).find("uses a destroyed buffer (captured at ") !=
          std::string::npos);
    CHECK(launches.count() == 0);
    increase(on.x, on.other);  // the refused launch left nothing borrowed
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a buffer's memory is freed after the launches that use it", "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    auto z = std::make_optional<ints>(count, on.home, on.pool);
    auto graph = cuota::capture(on.home, [&] { increase(*z, on.home); });
    {
        simulator::hold const nothing_runs;
        graph.launch(on.other);
        z.reset();
        ints const next{count, on.home, on.pool};  // may get the same memory
        CHECK(!on.home.is_idle());
    }
    on.home.synchronize();
    on.other.synchronize();
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a lease that is open when its capture ends is misuse, and no graph is made",
          "[buffer][captured_access]") {
    support::machine machine;
    scene on;
    std::optional<cuota::lease<int>> held;
    std::string const why =
        why_refused([&] { (void)cuota::capture(on.home, [&] { held.emplace(on.x.write(on.home)); }); });
    CHECK(why.find("buffer: cannot leave its capture while it is leased since ") != std::string::npos);
    held.reset();
    CHECK(machine.errors.take().size() == 1);  // reported again when the capture was discarded
    increase(on.x, on.home);
    CHECK(first_of(on.x, on.other) == 1);
}

TEST_CASE("conflicting leases on two streams of a capture are refused, and the capture continues",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    auto graph = cuota::capture({on.home, on.other}, [&] {
        auto const one = on.x.write(on.home);
        CHECK_THROWS_AS(on.x.read(on.other), cuota::usage_error);
        cuota::for_each_index(on.home, count, support::write_value{one.span().data(), 5});
    });
    graph.launch(on.home);
    CHECK(first_of(on.x, on.other) == 5);
}

TEST_CASE("copies that wait on the host are refused before any of them is captured",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    std::vector<int> host(count, 9);
    auto graph = cuota::capture(on.home, [&] {
        CHECK_THROWS_AS(on.x.copy_from(std::span<int const>{host}, on.home), cuota::usage_error);
        CHECK_THROWS_AS(on.x.copy_to(host, on.home), cuota::usage_error);
        CHECK_THROWS_AS(on.x.to_vector(on.home), cuota::usage_error);
        CHECK_THROWS_AS(on.home.synchronize(), cuota::usage_error);
        CHECK_THROWS_AS(on.home.is_idle(), cuota::usage_error);
        CHECK_THROWS_AS(cuota::device::current().synchronize(), cuota::usage_error);
        increase(on.x, on.home);
    });
    graph.launch(on.home);
    CHECK(first_of(on.x, on.home) == 1);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("pinned memory is copied at each launch with its current contents", "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    cuota::pinned_buffer<int> in{count, cuota::pinned_memory{}};
    cuota::pinned_buffer<int> out{count, cuota::pinned_memory{}};
    auto graph = cuota::capture(on.home, [&] {
        in.upload(on.x, on.home);
        add_one(on.x, on.y, on.home);
        out.download(on.y, on.home);
    });
    for (int round = 0; round != 3; ++round) {
        for (int& value : in.write()) value = round;
        graph.launch(on.other);
        CHECK(out.read()[count - 1] == round + 1);
    }
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("no CUDA failure around a capture and a launch leaks memory or makes the streams unusable",
          "[buffer][captured_access]") {
    support::machine machine;
    scene on;
    auto const program = [&] {
        {
            auto graph = cuota::capture({on.home, on.other}, [&] {
                increase(on.x, on.other);
                add_one(on.x, on.y, on.home);
            });
            graph.launch(on.home);
            graph.launch(on.other);
        }
        set(on.y, 1, on.home);
        set(on.y, 2, on.other);
        add_one(on.x, on.y, on.other);
        on.other.synchronize();
    };
    program();  // creates the events that the buffers keep
    auto const seen = support::survives_every_failure(machine, program);
    CHECK(seen.silent == 0);
    simulator::clear_faults();
    set(on.y, 3, on.home);
    CHECK(first_of(on.y, on.other) == 3);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE(
    "buffers that are made and destroyed in a capture use the graph's memory, and launches allocate none",
    "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    std::optional<cuota::graph_exec> graph{cuota::capture(on.home, [&] {
        ints a{count, on.home, on.pool, "a"};  // zeroed by each launch
        increase(a, on.home);
        ints b{count, 5, on.home, on.pool, "b"};
        add_one(a, b, on.home);
        a = ints{count, on.home, on.pool, "c"};  // at another address: made before the first a is freed
        add_one(b, on.x, on.home);
    })};
    for (int i = 0; i != 3; ++i) {
        ints const between{count, 9, on.home, on.pool};  // never gets the graph's memory
        graph->launch(i == 1 ? on.other : on.home);
        CHECK(first_of(on.x, on.home) == 3);
        CHECK(first_of(between, on.other) == 9);
    }
    graph.reset();
    CHECK(on.pool.stats().live_blocks == 2);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a buffer from before a capture that is destroyed in it belongs to the graph, for every resource",
          "[buffer][captured_access]") {
    support::machine machine;
    scene on;
    cuota::tracked<cuota::pool_resource> const tracked{on.pool.resource()};
    cuota::budget const account{"plain", 1_MiB};
    cuota::budgeted<cuota::device_memory> const plain{account};
    std::array<cuota::any_resource, 5> const memories{on.pool.resource(), tracked, plain,
                                                      cuota::device_memory{}, cuota::async_memory{}};
    cuota::any_resource const memory = memories[GENERATE(range(std::size_t{0}, std::size_t{5}))];
    std::optional<ints> a{std::in_place, count, 1, on.home, memory};
    increase(*a, on.other);  // outside a capture, the home stream would wait for this
    std::optional<cuota::graph_exec> graph{cuota::capture(on.home, [&] {
        add_one(*a, on.x, on.home);
        a.reset();
    })};
    for (int i = 0; i != 3; ++i) {
        ints const between{count, 9, on.home, on.pool};
        graph->launch(on.other);
        CHECK(first_of(on.x, on.home) == 3);
    }
    graph->launch(on.other);
    graph.reset();
    CHECK(on.pool.stats().live_blocks == 2);
    CHECK(account.held() == 0);
    CHECK(simulator::race_reports().empty());
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("destroying a graph waits for its last successful launch before its memory is freed",
          "[buffer][captured_access]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::set_unkindness({.free_at_once = true});
    scene on;
    std::optional<ints> a{std::in_place, count, 1, on.home, cuota::device_memory{}};
    std::optional<cuota::graph_exec> graph{cuota::capture(on.home, [&] {
        increase(*a, on.home);
        a.reset();
    })};
    graph->launch(on.other);
    simulator::fail_call("cudaGraphLaunch", 1);
    CHECK_THROWS_AS(graph->launch(on.home), cuota::cuda_error);
    graph.reset();
    CHECK(simulator::race_reports() == std::vector<std::string>{});
}

TEST_CASE("a buffer that is made in a capture and outlives it can be used like any other",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    std::optional<ints> made;
    std::optional<cuota::graph_exec> graph{cuota::capture(on.home, [&] {
        made.emplace(count, on.home, on.pool);
        add_one(on.x, *made, on.home);
    })};
    set(on.x, 4, on.other);
    graph->launch(on.home);
    CHECK(first_of(*made, on.other) == 5);
    increase(*made, on.other);
    SECTION("the graph is destroyed first") {
        graph.reset();
        CHECK(first_of(*made, on.home) == 6);
        made.reset();
    }
    SECTION("the buffer is destroyed first") {
        made.reset();
        CHECK(why_refused([&] { graph->launch(on.home); }).find("uses a destroyed buffer") !=
              std::string::npos);
        graph.reset();
    }
    CHECK(on.pool.stats().live_blocks == 2);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("operations that need the host at each launch are refused before any of them is captured",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    cuota::staging_ring ring{1, count * sizeof(int)};
    cuota::pinned_buffer<int> pinned{count, cuota::pinned_memory{}};
    cuota::mirrored_buffer<int> both{count, on.home, on.pool};
    cuota::append_buffer<int> appended{10, on.home, on.pool};
    std::vector<int> const host(count, 9);
    auto frame = on.pool.frame();
    ints in_frame{count, on.home, frame.resource()};
    auto graph = cuota::capture(on.home, [&] {
        CHECK_THROWS_AS(cuota::upload(std::span<int const>{host}, on.x, ring, on.home), cuota::usage_error);
        CHECK_THROWS_AS(cuota::upload(std::move(pinned), on.x, on.home), cuota::usage_error);
        CHECK_THROWS_AS(cuota::download(on.x, std::move(pinned), on.home), cuota::usage_error);
        CHECK_THROWS_AS(both.read(on.home), cuota::usage_error);
        CHECK_THROWS_AS(both.overwrite(on.home), cuota::usage_error);
        CHECK_THROWS_AS(both.read_host(), cuota::usage_error);
        CHECK_THROWS_AS(appended.size(on.home), cuota::usage_error);
        CHECK_THROWS_AS(on.x.release(), cuota::usage_error);
        CHECK_THROWS_AS((ints{count, on.home, frame.resource()}), cuota::usage_error);
        increase(in_frame, on.home);
    });
    CHECK(pinned.size() == count);
    graph.launch(on.other);
    CHECK(first_of(in_frame, on.home) == 1);
    cuota::upload(std::span<int const>{host}, on.x, ring, on.home);  // the slot is free again
    CHECK(first_of(on.x, on.home) == 9);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("leases and pool requests that make no CUDA call leave a foreign capture intact",
          "[buffer][captured_access]") {
    support::machine const machine;
    scene on;
    { auto const first = on.x.write(on.home); }
    on.pool.deallocate(on.home, on.pool.allocate(on.home, 64_KiB), 64_KiB);
    REQUIRE(cudaStreamBeginCapture(on.home.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    increase(on.x, on.home);
    cudaGraph_t others = nullptr;
    REQUIRE(cudaStreamEndCapture(on.home.get(), &others) == cudaSuccess);
    CHECK(cudaGraphDestroy(others) == cudaSuccess);
}
