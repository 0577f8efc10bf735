// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Uses on the home stream that need no lock; lease.sim.cpp tests the waits.
#include <cuota/buffer/detail/access_tracker.hpp>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::source_location;
using cuota::detail::access_tracker;
using support::has;
using support::thrown;

namespace {

struct ended {
    void operator()(access_tracker* of) const { of->end_at_home(); }
};

struct scene {
    cuota::stream const home{};
    cuota::stream const other{};
    std::unique_ptr<access_tracker, ended> uses{new access_tracker{home}};

    [[nodiscard]] std::uint64_t begin(bool writes, unsigned line) {
        return uses->begin(home, writes, {"at.cpp", line});
    }
    // Returns the error of a writer on another stream, which names where an open use began; empty if none is open.
    [[nodiscard]] std::string open() {
        try {
            uses->end(uses->begin(other, true, {}), true);
            return {};
        } catch (cuota::usage_error const& e) { return e.what(); }
    }
};

}  // namespace

TEST_CASE("any number of accesses on the home stream may be open and end in any order",
          "[buffer][access_tracker]") {
    scene on;
    std::size_t const count = GENERATE(1, 2, 5, 6, 20);
    bool const backwards = GENERATE(false, true);
    std::vector<std::uint64_t> numbers;
    for (unsigned i = 0; i != count; ++i) numbers.push_back(on.begin(false, i + 1));

    while (!numbers.empty()) {
        CHECK(has(
            on.open(),
            "write requested here, but the buffer is leased for reading on another stream since at.cpp:"));
        auto const which = backwards ? numbers.end() - 1 : numbers.begin();
        on.uses->end(*which, false);
        numbers.erase(which);
    }

    CHECK(on.open().empty());
}

TEST_CASE("accesses that end in the order in which they began reuse their slots",
          "[buffer][access_tracker]") {
    scene on;
    for (int i = 0; i != 100; ++i) {
        auto const a = on.begin(false, 1);
        auto const b = on.begin(false, 2);
        on.uses->end(a, false);
        on.uses->end(b, false);
    }
    std::uint64_t there[5]{};
    for (std::uint64_t& number : there) number = on.begin(false, 3);
    CHECK(there[0] == 1);
    std::thread{[&] {
        for (std::uint64_t const number : there) on.uses->end(number, false);
    }}.join();
    CHECK(on.begin(false, 4) == 1);
    on.uses->end(1, false);
}

TEST_CASE("a conflict names an open access, a writer first", "[buffer][access_tracker]") {
    scene on;
    auto const a = on.begin(false, 11);
    auto const b = on.begin(true, 22);
    auto const c = on.begin(false, 33);
    CHECK(has(on.open(), "leased for writing on another stream since at.cpp:22"));
    on.uses->end(b, true);
    CHECK(has(on.open(), "since at.cpp:11"));
    on.uses->end(a, false);
    CHECK(has(on.open(), "since at.cpp:33"));
    auto const d = on.begin(true, 44);
    on.uses->end(c, false);
    CHECK(has(on.open(), "since at.cpp:44"));
    on.uses->end(d, true);
    CHECK(on.open().empty());
}

TEST_CASE("an access may end in another thread than the one in which it began",
          "[buffer][access_tracker][threads]") {
    scene on;
    std::uint64_t here[]{on.begin(true, 1), on.begin(false, 2)};
    std::uint64_t there = 0;
    std::thread{[&] {
        there = on.begin(false, 3);
        on.uses->end(here[0], true);
    }}.join();
    CHECK(has(on.open(), "since at.cpp"));
    on.uses->end(here[1], false);
    CHECK(has(on.open(), "since at.cpp:3"));
    on.uses->end(there, false);
    CHECK(on.open().empty());
}

TEST_CASE("a thread that writes on the home stream becomes the owner of the slots",
          "[buffer][access_tracker][threads]") {
    scene on;
    auto const first = on.begin(true, 1);
    on.uses->end(first, true);
    std::uint64_t reading = 0, writing = 0, after = 0;
    std::thread{[&] {
        reading = on.begin(false, 2);
        on.uses->end(reading, false);
        writing = on.begin(true, 3);
        on.uses->end(writing, true);
        after = on.begin(false, 4);
        on.uses->end(after, false);
    }}.join();
    CHECK(first == cuota::detail::owner_access_slots::first_number(true));  // a slot
    CHECK(reading > 5);                                                     // under the lock
    CHECK(writing == cuota::detail::owner_access_slots::first_number(true));
    CHECK(after == 1);
    CHECK(on.open().empty());
}

TEST_CASE("threads may read on the home stream at the same time", "[buffer][access_tracker][threads]") {
    scene on;
    auto const read = [&] {
        for (int i = 0; i != 2000; ++i) {
            auto const a = on.begin(false, 1);
            auto const b = on.uses->begin(on.other, false, {});
            on.uses->end(a, false);
            on.uses->end(b, false);
        }
    };
    std::thread there{read};
    read();
    there.join();
    CHECK(on.open().empty());
}

TEST_CASE("accesses that end after their buffer are ignored, and the last one destroys the tracker",
          "[buffer][access_tracker]") {
    support::captured_errors errors;
    scene on;
    access_tracker& left = *on.uses;
    auto const at_home = on.begin(true, 7);
    auto const again = on.begin(false, 8);
    on.uses.reset();
    CHECK(has(errors.take().at(0), "buffer destroyed while it is leased (at.cpp:7)"));
    left.end(at_home, true);
    left.end(again, false);  // AddressSanitizer detects an early free and a leak
    CHECK(errors.take().empty());
}
