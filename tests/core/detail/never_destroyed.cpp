// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/never_destroyed.hpp>

#include <stdexcept>
#include <type_traits>

#include "support/catch.hpp"

namespace {

struct counted {
    counted() noexcept = default;
    explicit counted(int first) : value{first} {
        if (first < 0) throw std::invalid_argument{"negative"};
    }
    ~counted() { ++destroyed; }
    int value = 7;
    static inline int destroyed = 0;
};

}  // namespace

TEST_CASE("never_destroyed constructs its object and does not destroy it", "[core][never_destroyed]") {
    using cuota::detail::never_destroyed;
    {
        never_destroyed<counted> const one;
        never_destroyed<counted> const other{3};
        CHECK(one.value.value == 7);
        CHECK(other.value.value == 3);
    }
    CHECK(counted::destroyed == 0);
    CHECK_THROWS_AS(never_destroyed<counted>{-1}, std::invalid_argument);
    STATIC_REQUIRE(std::is_nothrow_default_constructible_v<never_destroyed<counted>>);
    STATIC_REQUIRE(!std::is_nothrow_constructible_v<never_destroyed<counted>, int>);
}
