// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Which waits are enqueued, and which uses are forgotten; lease.sim.cpp and programs.sim.cpp test the values in memory.
#include <cuota/buffer/detail/stream_uses.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/calls.hpp"
#include "support/catch.hpp"

using cuota::detail::stream_uses;

namespace {

struct scene {
    cuota::stream const home{};
    cuota::stream const b{};
    cuota::stream const c{};
    stream_uses uses{home};

    [[nodiscard]] std::size_t find(cuota::stream_ref s) {
        return uses.find(s.id(), [](std::size_t) { return false; });
    }
    // A use that ends at once. Returns the number of waits that were enqueued.
    std::uint64_t use(cuota::stream_ref s, bool writes) {
        std::size_t const me = find(s);
        support::calls_since const calls{"cudaStreamWaitEvent"};
        CHECK(!uses.order(s, me, writes).last);
        auto const waits = calls.count();
        CHECK(!uses.leave(me, s, writes).last);
        return waits;
    }
    [[nodiscard]] std::size_t joined() {
        std::size_t events = 0;
        uses.join_at_home([&](cuota::event const&) { ++events; });
        return events;
    }
};

}  // namespace

TEST_CASE("a reader waits for the last write once", "[buffer][stream_uses]") {
    scene on;
    CHECK(on.use(on.b, false) == 1);
    CHECK(on.use(on.b, false) == 0);
    CHECK(on.use(on.c, false) == 1);
    CHECK(on.use(on.c, true) == 1);  // for b's read, which followed the write at home
    CHECK(on.use(on.b, false) == 1);
    CHECK(on.use(on.home, false) == 1);
}

TEST_CASE("a writer waits for each stream that reads, and later uses for the writer only",
          "[buffer][stream_uses]") {
    scene on;
    (void)on.use(on.home, false);
    (void)on.use(on.b, false);
    CHECK(on.use(on.c, true) == 2);
    CHECK(on.use(on.c, true) == 0);
    CHECK(on.use(on.b, true) == 1);
    CHECK(on.use(on.home, false) == 1);
}

TEST_CASE("the entry of a stream is reused when no later use depends on it", "[buffer][stream_uses]") {
    scene on;
    std::size_t const b = on.find(on.b);
    (void)on.use(on.b, false);
    CHECK(on.find(on.c) != b);  // b's read must be waited for
    std::size_t const c = on.find(on.c);
    (void)on.use(on.c, true);
    CHECK(on.find(on.b) == b);

    cuota::stream const d;
    auto const find = [&](cuota::stream_ref s, std::size_t open) {
        return on.uses.find(s.id(), [=](std::size_t user) { return user == open; });
    };
    std::size_t const added = find(d, b);
    CHECK(added != b);
    CHECK(added != c);  // the writer
    CHECK(find(cuota::stream{}, stream_uses::no_user) == added);
}

TEST_CASE("the host waits for writes, and for reads on request, and forgets them", "[buffer][stream_uses]") {
    scene on;
    stream_uses host{false};
    CHECK(!host.next_to_wait_for(false).last);
    auto const use = [&](cuota::stream_ref s, bool writes) {
        std::size_t const me = host.find(s.id(), [](std::size_t) { return false; });
        CHECK(!host.order(s, me, writes).last);
        CHECK(!host.leave(me, s, writes).last);
    };
    use(on.b, true);
    use(on.c, false);

    stream_uses::host_wait const write = host.next_to_wait_for(true);
    REQUIRE(static_cast<bool>(write.last));
    stream_uses::host_wait const read = host.next_to_wait_for(false);
    CHECK(read.user != write.user);
    use(on.c, false);
    host.note(read);  // c has read since
    CHECK(host.next_to_wait_for(false).user == read.user);
    host.note(host.next_to_wait_for(false));
    CHECK(host.next_to_wait_for(false).user == write.user);
    host.note(write);
    CHECK(!host.next_to_wait_for(false).last);

    use(on.b, true);
    host.leave_completed_write();
    CHECK(!host.next_to_wait_for(false).last);
}

TEST_CASE("the home stream joins the uses that it is not ordered after", "[buffer][stream_uses]") {
    scene on;
    auto const unordered = [&] {
        auto const [reads, writes] = on.uses.unordered_at_home();
        return std::pair{reads, writes};
    };
    CHECK(unordered() == std::pair{false, false});
    CHECK(on.joined() == 0);
    (void)on.use(on.b, false);
    (void)on.use(on.c, false);
    CHECK(unordered() == std::pair{true, false});
    CHECK(on.joined() == 2);
    (void)on.use(on.b, true);
    CHECK(unordered() == std::pair{false, true});
    CHECK(on.joined() == 1);
    (void)on.use(on.home, false);
    CHECK(unordered() == std::pair{false, false});
    CHECK(on.joined() == 0);
    CHECK(on.use(on.c, true) == 1);  // for the read at home, which followed b's write
    on.uses.leave_at_home(true);
    CHECK(unordered() == std::pair{false, false});
}

TEST_CASE("moved uses are joined by the same home stream", "[buffer][stream_uses]") {
    scene on;
    (void)on.use(on.b, true);
    stream_uses moved{std::move(on.uses)};
    std::size_t events = 0;
    moved.join_at_home([&](cuota::event const&) { ++events; });
    CHECK(events == 1);
    CHECK(moved.home() == on.home);
    CHECK(moved.find(on.home.id(), [](std::size_t) { return false; }) == stream_uses::at_home);
}
