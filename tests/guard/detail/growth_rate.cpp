// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/growth_rate.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>

#include "support/catch.hpp"

using namespace std::chrono_literals;
using cuota::detail::growth_rate;

namespace {

constexpr growth_rate::time_point start{1h};

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

// Returns the observed rate after `time` of steady growth by 1000 bytes per second in steps of 1 ms.
double seen_after(std::chrono::milliseconds time) {
    growth_rate g{1s};
    for (auto t = 0ms; t <= time; t += 1ms) g.see(5'000'000 + static_cast<std::size_t>(t.count()), start + t);
    return g.per_second();
}

}  // namespace

TEST_CASE("bytes held at the start are not growth", "[guard][growth]") {
    growth_rate g{1s};
    REQUIRE(g.per_second() == 0);
    g.see(1'000'000, start);
    g.see(1'000'000, start + 10s);
    REQUIRE(g.per_second() == 0);
    REQUIRE(!g.time_to(2'000'000));
}

TEST_CASE("steady growth is measured to one half after 2.4 half-lives and in full later", "[guard][growth]") {
    REQUIRE(std::abs(seen_after(2421ms) - 500) < 2);
    REQUIRE(std::abs(seen_after(5612ms) - 900) < 2);
    REQUIRE(std::abs(seen_after(60s) - 1000) < 2);
}

TEST_CASE("the rate after one change is largest after 1.4 half-lives and then decreases", "[guard][growth]") {
    auto const shows = [](std::chrono::milliseconds after) {
        growth_rate g{1s};
        g.see(0, start);
        g.see(1000, start);
        g.see(1000, start + after);
        return g.per_second();
    };
    REQUIRE(shows(0ms) == 0);
    REQUIRE(is_near(shows(1443ms), 1000 * std::log(2.0) * std::exp2(-1.443) * std::log(2.0) * 1.443));
    REQUIRE(shows(1443ms) > shows(1400ms));
    REQUIRE(shows(1443ms) > shows(1486ms));
    REQUIRE(shows(60s) < 1e-9);
}

TEST_CASE("the rate does not depend on how often it is measured", "[guard][growth]") {
    growth_rate once{1s};
    growth_rate often{1s};
    once.see(0, start);
    often.see(0, start);
    once.see(4096, start + 1s);
    often.see(4096, start + 1s);
    for (auto t = 1s; t <= 5s; t += 1s) often.see(4096, start + t);
    once.see(4096, start + 5s);
    REQUIRE(is_near(once.per_second(), often.per_second()));
}

TEST_CASE(
    "memory that is allocated and freed at every step is hardly growth, also when measured at its peaks",
    "[guard][growth]") {
    growth_rate g{1s};
    double most = 0;
    for (auto t = 0ms; t <= 20s; t += 100ms) {
        g.see(1'000'000, start + t);
        if (t > 10s) most = std::max(most, std::abs(g.per_second()));
        g.see(0, start + t + 50ms);
    }
    REQUIRE(most < 20'000);  // with one averaging step it would be 700'000
}

TEST_CASE("shrinking is negative growth and never reaches a limit", "[guard][growth]") {
    growth_rate g{1s};
    g.see(1000, start);
    g.see(0, start);
    g.see(0, start + 1s);
    REQUIRE(g.per_second() < 0);
    REQUIRE(!g.time_to(1000));
}

TEST_CASE("the time to a limit is the available bytes divided by the rate", "[guard][growth]") {
    growth_rate g{1s};
    g.see(0, start);
    g.see(1000, start);
    g.see(1000, start + 1s);
    REQUIRE(is_near(g.time_to(3000)->count(), 2000 / g.per_second()));
    REQUIRE(g.time_to(1000)->count() == 0);
    REQUIRE(g.time_to(0)->count() == 0);
    REQUIRE(!g.time_to(cuota::unlimited));
}

TEST_CASE("a clock that runs backwards and the largest sizes yield a finite rate", "[guard][growth]") {
    growth_rate g{1ns};
    g.see(0, start);
    g.see(cuota::unlimited, start - 1h);
    g.see(0, start + 1h);
    g.see(cuota::unlimited, start + 2h);
    g.see(cuota::unlimited, start + 2h + 1ns);
    REQUIRE(std::isfinite(g.per_second()));
    REQUIRE(g.per_second() > 0);
}
