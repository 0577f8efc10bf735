// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/released_buffer.hpp>

#include <cstring>
#include <optional>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::thrown;

namespace simulator = cuota::simulator;

namespace {

using support::word;
using words = cuota::device_buffer<word>;
constexpr std::size_t count = 1000;

}  // namespace

TEST_CASE("released memory is freed after the work of all earlier leases", "[buffer][released_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const other;
    cuota::async_memory const memory;
    words some{count, home, memory};
    support::gate gate{other};
    {
        auto const to = some.write(other);
        cuota::for_each_index(other, count, support::write_word{to.span().data(), 1}, "late");
    }

    auto raw = some.release();
    support::let_ready_work_run();
    CHECK_FALSE(home.is_idle());  // waits for the writer
    raw.reset();
    gate.open();
    home.synchronize();
    other.synchronize();

    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("released memory is freed after the work of the streams that were passed to used_on",
          "[buffer][released_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const other;
    {
        auto raw = words{count, home, cuota::async_memory{}}.release();
        other.wait(cuota::event{home});
        support::gate gate{other};
        cuota::for_each_index(other, count, support::write_word{raw.get(), 1}, "late");
        raw.used_on(other);
        raw.used_on(home);
        raw.reset();
        support::let_ready_work_run();
        CHECK_FALSE(home.is_idle());
        gate.open();
        home.synchronize();
    }
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("a buffer cannot be released while it is leased", "[buffer][released_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const other;
    bool const at_home = GENERATE(true, false);
    words some{count, 4u, home, cuota::device_memory{}};
    {
        auto const lease = some.read(at_home ? home : other, {"train.cpp", 5});

        auto const error = thrown<cuota::usage_error>([&] { (void)some.release({"train.cpp", 6}); });

        CHECK(support::has(error.what(), "cannot be released while it is leased since train.cpp:5"));
        CHECK(support::has(error.what(), "train.cpp:6"));
        CHECK(some.size() == count);
    }
    CHECK(some.release().size() == count);
}

TEST_CASE("detaching a released_buffer without host memory throws and leaves it unchanged",
          "[buffer][released_buffer]") {
    support::machine const machine;
    cuota::stream const home;
    auto raw = words{count, 4u, home, cuota::device_memory{}}.release();
    {
        support::failing_heap const heap{0};
        CHECK_THROWS_AS((void)std::move(raw).release(), std::bad_alloc);
    }
    CHECK(support::all_are(support::words(home, raw.get(), raw.bytes()), 4));
}

TEST_CASE("a release survives the failure of any CUDA call, and leaks nothing", "[buffer][released_buffer]") {
    support::machine machine;
    cuota::budget budget{"test", 1_MiB};

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const home;
        cuota::stream const other;
        cuota::scoped_pool pool{budget};
        words some{count, home, pool};
        { auto const used = some.write(other); }
        auto raw = some.release();
        raw.used_on(other);
        cuota::raw_memory const plain = std::move(raw).release();
        plain.deleter(plain.context);
    });

    CHECK(seen.thrown > 5);
    CHECK(budget.held() == 0);
}
