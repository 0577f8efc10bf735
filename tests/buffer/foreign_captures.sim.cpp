// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Leases on streams that other code captures: no capture is invalidated, the graph contains the order of its leases, and the host waits for
// work outside the graph on which a lease depends.
#include <cuota/buffer/detail/access_tracker.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/kernels.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::foreign_capture;
using support::has;
using support::native_stream;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t count = 1000;
using ints = cuota::device_buffer<int>;

void set(ints& x, int value, cuota::stream_ref s) {
    auto const target = x.write(s);
    cuota::for_each_index(s, x.size(), support::write_value{target.span().data(), value});
}
void add_one(ints const& from, ints& to, cuota::stream_ref s) {
    auto const source = from.read(s);
    auto const target = to.write(s);
    cuota::for_each_index(s, from.size(), support::add_one{target.span().data(), source.span().data()});
}
int first_of(ints const& x, cuota::stream_ref s) { return x.to_vector(s).front(); }

struct scene {
    native_stream const a{};  // captured
    native_stream const b{};
    cuota::stream const home{};
    cuota::stream const other{};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};
    ints x{count, home, pool, "x"};
    ints y{count, home, pool, "y"};
};

}  // namespace

TEST_CASE("a lease on a captured stream makes the host wait for earlier work of other streams",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    simulator::set_capture_checks(simulator::capture_checks::every_slow_call);
    scene on;
    set(on.x, 1, on.home);
    set(on.y, 1, on.other);
    foreign_capture capture{on.a};
    add_one(on.x, on.y, on.a);
    CHECK(capture.is_intact());
    auto const graph = capture.end();
    graph.launch(on.b);  // only the host orders this after home and other
    CHECK(cudaStreamSynchronize(on.b) == cudaSuccess);
    CHECK(first_of(on.y, on.home) == 2);
    simulator::set_capture_checks(simulator::capture_checks::named);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("leases on several streams of one foreign capture become edges of its graph",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    scene on;
    bool const from_home = GENERATE(false, true);
    cudaStream_t const first = from_home ? on.home.get() : static_cast<cudaStream_t>(on.a);
    cuota::stream_ref const writer = from_home ? cuota::stream_ref{on.home} : on.a.ref();
    on.home.synchronize();  // the program must order earlier work of a captured stream
    foreign_capture capture{first};
    on.b.ref().wait(cuota::event{writer});  // b joins the capture
    set(on.x, 4, writer);
    add_one(on.x, on.y, on.b);
    add_one(on.y, on.x, writer);
    auto const graph = capture.end();
    graph.launch(on.other.get());
    on.other.synchronize();
    CHECK(first_of(on.x, on.home) == 6);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("after a foreign capture, leases wait for work before it and not for its graph",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    scene on;
    set(on.x, 1, on.a);
    add_one(on.x, on.y, on.a);  // a reads x here and in the capture
    {
        foreign_capture capture{on.a};
        add_one(on.x, on.y, on.a);
        (void)capture.end();
    }
    set(on.x, 9, on.other);
    set(on.y, 9, on.home);
    set(on.x, 8, on.a);
    {
        foreign_capture capture{on.b};
        add_one(on.x, on.y, on.b);
        (void)capture.end();
    }
    foreign_capture capture{on.a};  // its streams cannot wait for events of the first capture
    add_one(on.y, on.x, on.a);
    CHECK(capture.is_intact());
    (void)capture.end();
    CHECK(first_of(on.x, on.home) == 8);
    CHECK(first_of(on.y, on.other) == 9);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a lease that would wait for a home stream in a foreign capture is refused until the capture ends",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    scene on;
    set(on.x, 1, on.home);
    foreign_capture capture{on.home.get()};
    CHECK(has(support::thrown<cuota::usage_error>([&] { (void)on.x.read(on.other); }).what(),
              "captured outside cuota::capture"));
    CHECK(capture.is_intact());
    (void)capture.end();
    CHECK(first_of(on.x, on.other) == 1);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a buffer that is destroyed in a foreign capture of its home stream leaves its memory to the graph",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    scene on;
    std::optional<ints> z{ints{count, on.a, on.pool, "z"}};
    set(*z, 1, on.b);
    foreign_capture capture{on.a};
    set(*z, 2, on.a);
    void const* at = nullptr;
    {
        auto const borrowed = z->read(on.a);
        at = borrowed.span().data();
    }
    z.reset();
    CHECK(capture.is_intact());
    (void)capture.end();
    ints const fresh{count, on.a, on.pool, "fresh"};
    auto const borrowed = fresh.read(on.a);
    CHECK(static_cast<void const*>(borrowed.span().data()) != at);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("operations that need the host at each launch are refused on a stream in a foreign capture",
          "[buffer][foreign_capture]") {
    support::machine const machine;
    scene on;
    cuota::staging_ring ring{1, count * sizeof(int)};
    cuota::pinned_buffer<int> pinned{count, cuota::pinned_memory{}};
    cuota::mirrored_buffer<int> both{count, on.home, on.pool};
    std::vector<int> const host(count, 9);
    cuota::stream_ref const s = on.a;
    foreign_capture capture{on.a};
    CHECK_THROWS_AS(cuota::upload(std::span<int const>{host}, on.x, ring, s), cuota::usage_error);
    CHECK_THROWS_AS(cuota::upload(std::move(pinned), on.x, s), cuota::usage_error);
    CHECK_THROWS_AS(cuota::download(on.x, std::move(pinned), s), cuota::usage_error);
    CHECK_THROWS_AS(both.read(s), cuota::usage_error);
    CHECK_THROWS_AS(on.x.copy_from(host, s), cuota::usage_error);
    CHECK_THROWS_AS(on.x.to_vector(s), cuota::usage_error);
    CHECK(capture.is_intact());
    (void)capture.end();
    cuota::upload(std::span<int const>{host}, on.x, ring, s);
    CHECK(first_of(on.x, on.home) == 9);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}
