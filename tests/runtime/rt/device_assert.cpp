// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Runs on the host the functions by which a kernel writes the record. The CUDA calls are tested in device_assert.sim.cpp, and kernels on a
// GPU in tests/buffer/detail/view_origin.cpp.
#include <cuota/runtime/rt/device_assert.hpp>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

namespace rt = cuota::rt;
using cuota::detail::out_of_bounds;

namespace {

constexpr out_of_bounds index_of(std::uint64_t index) {
    return {out_of_bounds::part::element, {index}, {10}};
}

}  // namespace

static_assert(sizeof(rt::device_assert_record) == 4096);  // a page of its own

TEST_CASE("text_of describes the recorded misuse with name and call site",
          "[runtime][device_assert_record]") {
    auto const record = std::make_unique<rt::device_assert_record>();
    CHECK(rt::text_of(*record).empty());

    rt::record_device_assert(*record, index_of(12), "floats", "weights", {"train.cpp", 41});

    CHECK(rt::text_of(*record) == "cuota::usage_error: index 12 is outside a device_span of 10 floats: "
                                  "weights, leased at train.cpp:41");
}

TEST_CASE("only the first misuse is recorded", "[runtime][device_assert_record]") {
    auto const record = std::make_unique<rt::device_assert_record>();
    rt::record_device_assert(*record, index_of(12), "floats", "first", {});
    rt::record_device_assert(*record, index_of(99), "ints", "second", {"b.cpp", 2});

    CHECK(rt::text_of(*record) ==
          "cuota::usage_error: index 12 is outside a device_span of 10 floats: first");
}

TEST_CASE("a misuse that is still being written has no text", "[runtime][device_assert_record]") {
    auto const record = std::make_unique<rt::device_assert_record>();
    CHECK(rt::detail::claim(record->state));
    CHECK_FALSE(rt::detail::claim(record->state));
    CHECK(rt::text_of(*record).empty());
    rt::record_device_assert(*record, index_of(12), "floats", {}, {});  // not the first misuse
    CHECK(rt::text_of(*record).empty());
}

TEST_CASE("a unit name that is too long is truncated", "[runtime][device_assert_record]") {
    auto const record = std::make_unique<rt::device_assert_record>();
    rt::record_device_assert(*record, index_of(12), "elements with a long name", {}, {});
    CHECK(rt::text_of(*record) ==
          "cuota::usage_error: index 12 is outside a device_span of 10 elements with a");
}

TEST_CASE("of several simultaneous misuses one is recorded completely",
          "[runtime][device_assert_record][threads]") {
    for (int round = 0; round != 200; ++round) {
        auto const record = std::make_unique<rt::device_assert_record>();
        std::vector<std::thread> threads;
        for (unsigned i = 1; i != 4; ++i)
            threads.emplace_back([&, i] {
                rt::record_device_assert(*record, index_of(100 + i), "floats", "x", {"train.cpp", i});
            });
        for (std::thread& t : threads) t.join();

        std::string const line = std::to_string(record->leased.line);
        REQUIRE(rt::text_of(*record) ==
                "cuota::usage_error: index 10" + line +
                    " is outside a device_span of 10 floats: x, leased at train.cpp:" + line);
    }
}
