// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/element_count.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::element_count;
using support::has;
using support::thrown;

namespace {

static_assert(std::is_convertible_v<int, element_count> && std::is_convertible_v<std::size_t, element_count>);
static_assert(!std::is_convertible_v<double, element_count> && !std::is_convertible_v<float, element_count>);
static_assert(!std::is_convertible_v<bool, element_count> && !std::is_convertible_v<void*, element_count>);
static_assert(std::is_trivially_copyable_v<element_count> && sizeof(element_count) == sizeof(std::size_t));

std::size_t taken(element_count count) { return count; }

}  // namespace

TEST_CASE("an element_count holds the value of any integer type", "[core][element_count]") {
    CHECK(taken(0) == 0);
    CHECK(taken(std::numeric_limits<std::int64_t>::max()) == 9'223'372'036'854'775'807u);
    CHECK(taken(std::numeric_limits<std::size_t>::max()) == std::numeric_limits<std::size_t>::max());
    CHECK(taken(std::uint8_t{255}) == 255);
    CHECK(taken(std::int8_t{127}) == 127);
}

TEST_CASE("a negative count is refused with the number and the call site", "[core][element_count]") {
    int const negative = -3;

    unsigned const line = __LINE__ + 1;
    auto const error = thrown<cuota::usage_error>([&] { (void)taken(negative); });

    CHECK(has(error.what(), "element count is negative: -3"));
    CHECK(error.where().line == line);
    CHECK_THROWS_AS(taken(std::numeric_limits<std::int64_t>::min()), cuota::usage_error);
    CHECK_THROWS_AS(taken(static_cast<std::int8_t>(-1)), cuota::usage_error);
}
