// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/libraries/library_handle.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

namespace {

// A library for tests, which counts its calls and returns chosen statuses. Its handles are numbers.
struct fake_library {
    using native = int;
    static inline int alive = 0, create_status = 0, stream_status = 0, workspace_status = 0,
                      destroy_status = 0;
    static inline std::size_t own = 0;
    static inline cudaStream_t stream = nullptr;
    static inline void* memory = nullptr;
    static inline std::size_t bytes = 0;
    static inline int creations = 0;

    static std::string prefix() { return "fake"; }
    static cuota::tag name() { return "fake"; }
    static std::size_t own_bytes() { return own; }
    static std::size_t usual_workspace(cuota::device) { return 2_MiB; }
    static int create(native& h) {
        ++creations;
        bool const has_room = own != 0 && cuota::device{0}.memory().free >= own;
        if (create_status != 0 && !has_room) return create_status;
        h = ++alive;
        return 0;
    }
    static int destroy(native) {
        --alive;
        return destroy_status;
    }
    static int set_stream(native, cudaStream_t s) {
        stream = s;
        return stream_status;
    }
    static int set_workspace(native, void* p, std::size_t n) {
        memory = p;
        bytes = n;
        return workspace_status;
    }
    static int forget_workspace(native, cudaStream_t) {
        memory = nullptr;
        return 0;
    }
    static std::string set_workspace_name() { return "fakeSetWorkspace"; }
    static std::string forget_workspace_name() { return "fakeSetStream"; }
    static bool lacks_memory(int status) { return status == 3; }
    static bool may_lack_memory(int status) { return status == 1; }
    static std::string text_of(int status) { return "status " + std::to_string(status); }

    static void reset() {
        alive = create_status = stream_status = workspace_status = destroy_status = creations = 0;
        own = bytes = 0;
        stream = nullptr;
        memory = nullptr;
    }
};
static_assert(cuota::workspace_library<fake_library>);

using handle = cuota::library_handle<fake_library>;

struct bench {
    bench() { fake_library::reset(); }
    support::machine machine{};
    cuota::stream s{};
    cuota::budget budget{"libraries", 8_MiB};
    cuota::budgeted<cuota::async_memory> memory{budget};
};

}  // namespace

TEST_CASE("a scope has the stream and a workspace, which is charged only while it lives",
          "[interop][library_handle]") {
    bench b;
    {
        handle h{b.memory};
        CHECK(h.workspace_bytes() == 2_MiB);
        CHECK(h.device() == cuota::device{0});
        CHECK(b.budget.held() == 0);
        for (int i = 0; i != 3; ++i) {
            auto const on = h.on(b.s);
            CHECK(int{on} == 1);
            CHECK(fake_library::stream == b.s.get());
            CHECK(fake_library::memory != nullptr);
            CHECK(fake_library::bytes == 2_MiB);
            CHECK(b.budget.held() == 2_MiB);
        }
        CHECK(fake_library::memory == nullptr);
        CHECK(b.budget.held() == 0);
        CHECK(fake_library::alive == 1);
    }
    CHECK(fake_library::alive == 0);
}

TEST_CASE("a handle can have a workspace of another size, or none", "[interop][library_handle]") {
    bench b;
    handle small{b.memory, 1_MiB, "small"};
    {
        auto const on = small.on(b.s);
        CHECK(b.budget.held() == 1_MiB);
        std::string const text =
            support::thrown<cuota::budget_exceeded>([&] { (void)b.memory.allocate_sync(8_MiB); }).what();
        CHECK(support::has(text, "small"));  // a refusal names it among the holders
    }
    fake_library::bytes = 7;
    handle none{b.memory, 0};
    auto const on = none.on(b.s);
    CHECK(b.budget.held() == 0);
    CHECK(fake_library::bytes == 7);
}

TEST_CASE("further workspaces of a scope are freed with it, in the order of the stream",
          "[interop][library_handle]") {
    bench b;
    handle h{b.memory};
    {
        support::gate const gate{b.s};
        auto on = h.on(b.s);
        void* const first = on.workspace(1_MiB);
        void* const second = on.workspace(1_MiB);
        CHECK(first != second);
        CHECK(on.workspace(0) == nullptr);
        CHECK(b.budget.held() == 4_MiB);
    }
    CHECK(b.budget.held() == 0);
}

TEST_CASE("a refused workspace leaves the handle as it was", "[interop][library_handle]") {
    bench b;
    handle h{b.memory, 16_MiB};
    std::string const text = support::thrown<cuota::budget_exceeded>([&] { (void)h.on(b.s); }).what();
    CHECK(support::has(text, "fake"));
    CHECK(support::has(text, "library_handle.sim.cpp"));
    CHECK(b.budget.held() == 0);
    b.budget.set_limit(32_MiB);
    CHECK(h.on(b.s).get() == 1);
}

TEST_CASE("a handle has one scope at a time", "[interop][library_handle]") {
    bench b;
    handle h{b.memory};
    {
        auto const open = h.on(b.s);
        std::string const text = support::thrown<cuota::usage_error>([&] { (void)h.on(b.s); }).what();
        CHECK(support::has(text, "cannot begin a scope before the scope of library_handle.sim.cpp:"));
    }
    CHECK(h.on(b.s).get() == 1);
}

TEST_CASE("a scope outlives its handle", "[interop][library_handle]") {
    bench b;
    std::optional<handle> h{std::in_place, b.memory};
    {
        auto const open = h->on(b.s);
        h.reset();
        CHECK(fake_library::alive == 1);
        CHECK(b.budget.held() == 2_MiB);
    }
    CHECK(fake_library::alive == 0);
    CHECK(b.budget.held() == 0);
}

TEST_CASE("a stream of another device is refused, and the handle's device is current in a scope",
          "[interop][library_handle]") {
    fake_library::reset();
    support::machine const machine{{.devices = 2}};
    cuota::device_scope const second{cuota::device{1}};
    cuota::stream const s;
    handle h{cuota::async_memory{cuota::device{1}}};
    cuota::device_scope const first{cuota::device{0}};
    cuota::stream const other;
    std::string const text = support::thrown<cuota::usage_error>([&] { (void)h.on(other); }).what();
    CHECK(support::has(text, "the stream is on device 0, the handle on device 1"));
    {
        auto const on = h.on(s);
        CHECK(cuota::device::current() == cuota::device{1});
    }
    CHECK(cuota::device::current() == cuota::device{0});
}

TEST_CASE("a library without room gets the idle memory of pools", "[interop][library_handle]") {
    fake_library::reset();
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 60_MiB}};
    { cuota::device_buffer<char> const used{48_MiB, s, pool}; }
    s.synchronize();
    fake_library::own = 40_MiB;
    fake_library::create_status = GENERATE(1, 3);  // both for a lack of memory
    {
        handle const h{pool.resource()};
        CHECK(fake_library::creations == 2);
        CHECK(cuota::device{0}.memory().free >= 40_MiB);
    }
    cuota::device_buffer<char> const used{48_MiB, s, pool};
    std::string const text = support::thrown<cuota::out_of_memory>([&] {
                                 handle const h{pool.resource(), "products"};
                             }).what();
    CHECK(support::has(text, "fakeCreate: not enough free memory on the device"));
    CHECK(support::has(text, "products"));
    CHECK(fake_library::alive == 0);
}

TEST_CASE("other failures of a library are its errors, with its texts", "[interop][library_handle]") {
    bench b;
    fake_library::create_status = 3;
    CHECK_THROWS_AS(handle{b.memory}, cuota::out_of_memory);
    fake_library::create_status = 5;
    fake_library::own = 1'024_GiB;  // not for a lack of memory, although that is not free
    CHECK(support::has(support::thrown<cuota::library_error>([&] { handle const h{b.memory}; }).what(),
                       "fakeCreate failed: status 5"));
    CHECK(fake_library::alive == 0);
    fake_library::reset();
    handle h{b.memory};
    SECTION("of the stream") {
        fake_library::stream_status = 5;
        try {
            (void)h.on(b.s);
            FAIL("must throw");
        } catch (cuota::library_error const& e) {
            CHECK(e.status() == 5);
            CHECK_FALSE(e.is_out_of_memory());
            CHECK(e.call() == "fakeSetStream");
            CHECK(support::has(
                e.what(), "cuota::library_error: fakeSetStream failed: status 5 (library_handle.sim.cpp:"));
        }
    }
    SECTION("of the workspace") {
        fake_library::workspace_status = 3;
        try {
            (void)h.on(b.s);
            FAIL("must throw");
        } catch (cuota::library_error const& e) {
            CHECK(e.is_out_of_memory());
            CHECK(e.call() == "fakeSetWorkspace");
        }
    }
    CHECK(b.budget.held() == 0);
    CHECK_THROWS_AS(handle::check(7, "fakeProduct"), cuota::library_error);
    CHECK_NOTHROW(handle::check(0, "fakeProduct"));
}

TEST_CASE("a failure to destroy a handle is reported", "[interop][library_handle]") {
    bench b;
    {
        handle const h{b.memory};
        fake_library::destroy_status = 2;
    }
    auto const reported = b.machine.errors.take();
    REQUIRE(reported.size() == 1);
    CHECK(support::has(reported[0], "fakeDestroy failed: status 2"));
}

TEST_CASE("a moved-from library_handle refuses each use", "[interop][library_handle][moved_from]") {
    bench b;
    handle h{b.memory};
    handle const other{std::move(h)};
    CHECK(other.workspace_bytes() == 2_MiB);
    CHECK_THROWS_AS(h.on(b.s), cuota::usage_error);
    CHECK_THROWS_AS(h.workspace_bytes(), cuota::usage_error);
    CHECK_THROWS_AS(h.device(), cuota::usage_error);
}

TEST_CASE("in a capture, the workspace belongs to the graph", "[interop][library_handle]") {
    fake_library::reset();
    support::machine const machine;
    cuota::stream const s, other;
    cuota::scoped_pool pool{cuota::budget{"pool", 64_MiB}};
    handle h{pool.resource()};
    auto const races = cuota::simulator::misuse().races;
    void* of_graph = nullptr;
    cuota::graph_exec graph = cuota::capture(s, [&] {
        auto const on = h.on(s);
        of_graph = fake_library::memory;
        REQUIRE(cudaMemsetAsync(of_graph, 1, 2_MiB, s.get()) == cudaSuccess);
    });
    graph.launch(other);
    {
        auto const on = h.on(s);
        CHECK(fake_library::memory != of_graph);
        REQUIRE(cudaMemsetAsync(fake_library::memory, 2, 2_MiB, s.get()) == cudaSuccess);
    }
    other.synchronize();
    s.synchronize();
    CHECK(cuota::simulator::misuse().races == races);
}

TEST_CASE("in a child, a handle of the parent makes no call", "[interop][library_handle][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    bench b;
    std::optional<handle> h{std::in_place, b.memory};
    int const status = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("on", [&] { (void)h->on(b.s); });
        ask.refuses("a new handle", [&] { handle const another{b.memory}; });
        int const before = fake_library::alive;
        h.reset();
        ask.expect("the parent's handle is not destroyed", fake_library::alive == before);
    });
    CHECK(status == 0);
}

TEST_CASE("in a child, an open scope of the parent ends without a call", "[interop][library_handle][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    bench b;
    struct open_scope {
        explicit open_scope(bench& of) : h{of.memory}, on(h.on(of.s)) {}
        handle h;
        handle::scope on;
    };
    auto open = std::make_unique<open_scope>(b);
    void* const set = fake_library::memory;
    CHECK(support::status_of_ends_in_child([&] {
              open.reset();
              if (fake_library::memory != set || fake_library::alive != 1) ::_exit(4);
          }) == 0);
    open.reset();
    CHECK(fake_library::memory == nullptr);
}

TEST_CASE("a scope leaks nothing when any CUDA call fails", "[interop][library_handle]") {
    fake_library::reset();
    support::machine machine;
    auto const operation = [] {
        cuota::stream const s;
        cuota::scoped_pool pool{cuota::budget{"pool", 64_MiB}};
        handle h{pool.resource()};
        auto on = h.on(s);
        (void)on.workspace(3_MiB);
    };
    CHECK(support::survives_every_failure(machine, operation).thrown > 0);
    CHECK(fake_library::alive == 0);
}
