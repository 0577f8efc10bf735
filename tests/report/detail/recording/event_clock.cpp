// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/event_clock.hpp>

#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::event_clock;
using cuota::detail::tick_scale;

TEST_CASE("a tick scale is linear from its start", "[report][event_clock]") {
    tick_scale const half{1000, 2000, 1000};
    CHECK(half.nanoseconds(1000) == 0);
    CHECK(half.nanoseconds(2000) == 500);
    CHECK(half.nanoseconds(3000) == 1000);
    CHECK(half.nanoseconds(5000) == 2000);
    tick_scale const twice{0, 500, 1000};
    CHECK(twice.nanoseconds(250) == 500);
}

TEST_CASE("ticks before the start of a tick scale are converted to its start", "[report][event_clock]") {
    tick_scale const scale{1000, 10, 10};
    CHECK(scale.nanoseconds(0) == 0);
    CHECK(scale.nanoseconds(999) == 0);
}

TEST_CASE("a tick scale of zero length converts all ticks to the same time", "[report][event_clock]") {
    tick_scale const scale{1000, 0, 0};
    CHECK(scale.nanoseconds(1000) == 0);
    CHECK(scale.nanoseconds(5000) == 0);
}

TEST_CASE("a later tick is never converted to an earlier time, even after years", "[report][event_clock]") {
    std::mt19937_64 random{7};
    for (int i = 0; i != 10'000; ++i) {
        std::uint64_t const began = random() >> (2 + random() % 60);
        std::uint64_t const ticks = (random() >> (2 + random() % 60)) + 1;
        tick_scale const scale{began, ticks, ticks / 3 + 1};
        std::uint64_t const tick = random() >> (2 + random() % 60);
        REQUIRE(scale.nanoseconds(tick) <= scale.nanoseconds(tick + 1));
        REQUIRE(scale.nanoseconds(tick) <= scale.nanoseconds(tick + random() % 10'000));
    }
    constexpr std::uint64_t year = 365ull * 24 * 3600 * 1'000'000'000;
    std::uint64_t const shown = tick_scale{0, 3 * year, year}.nanoseconds(3 * year);
    CHECK(shown + 10 >= year);
    CHECK(shown <= year + 10);
}

TEST_CASE("an event clock measures the same intervals as steady_clock", "[report][event_clock]") {
    using steady = std::chrono::steady_clock;
    auto const nanoseconds = [](steady::duration d) {
        return static_cast<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(d).count());
    };
    std::vector<event_clock::base> bases{event_clock::base::steady};
    if (event_clock::has_counter()) bases.push_back(event_clock::base::counter);
    for (event_clock::base const by : bases) {
        auto const before_begin = steady::now();
        event_clock const clock{by};
        auto const after_begin = steady::now();
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        auto const before = steady::now();
        std::uint64_t const tick = clock.now();
        auto const after = steady::now();
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        auto const shown = static_cast<std::int64_t>(clock.scale().nanoseconds(tick));
        constexpr std::int64_t error = 10'000'000;  // error of two clock readings, with a wide margin
        CHECK(shown >= nanoseconds(before - after_begin) - error);
        CHECK(shown <= nanoseconds(after - before_begin) + error);
    }
}

TEST_CASE("an event clock never goes backwards", "[report][event_clock]") {
    event_clock const clock;
    std::uint64_t last = clock.now();
    std::vector<std::uint64_t> ticks{last};
    for (int i = 0; i != 10'000; ++i) ticks.push_back(clock.now());
    tick_scale const scale = clock.scale();
    std::uint64_t at = 0;
    for (std::uint64_t const tick : ticks) {
        REQUIRE(tick >= last);
        REQUIRE(scale.nanoseconds(tick) >= at);
        last = tick;
        at = scale.nanoseconds(tick);
    }
    CHECK(scale.nanoseconds(clock.now()) >= at);
}

TEST_CASE("an event clock stores the time of day of its start", "[report][event_clock]") {
    auto const before = std::chrono::system_clock::now();
    event_clock const clock;
    auto const after = std::chrono::system_clock::now();
    CHECK(clock.began() >= before);
    CHECK(clock.began() <= after);
}
