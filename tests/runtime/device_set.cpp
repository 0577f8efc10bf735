// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/device_set.hpp>

#include <string>
#include <vector>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::device;
using cuota::device_set;

namespace {

constexpr device_set two{device{1}, device{63}, device{1}};
static_assert(two.size() == 2 && two.has(device{1}) && two.has(device{63}) && !two.has(device{0}));
static_assert(!two.has(device{-1}) && !two.has(device{64}) && !two.has(device{1000}));
static_assert(device_set{}.is_empty() && !two.is_empty());
static_assert(two.without(device{1}) == device_set{device{63}} && two.without(device{7}) == two);

}  // namespace

TEST_CASE("a device_set has each device once, in ascending order", "[runtime][device_set]") {
    device_set some{device{5}, device{0}, device{5}};
    some.add(device{3});
    std::vector<int> seen;
    some.for_each([&](device d) { seen.push_back(d.ordinal()); });
    CHECK(seen == std::vector{0, 3, 5});
    CHECK(some.without(device{99}) == some);
}

TEST_CASE("a device_set refuses an ordinal out of range and is unchanged", "[runtime][device_set]") {
    device_set some{device{2}};
    for (int const ordinal : {-1, 64}) {
        auto const refused = support::thrown<cuota::usage_error>([&] { some.add(device{ordinal}); });
        CHECK(support::has(refused.what(), "device " + std::to_string(ordinal)));
    }
    CHECK(some == device_set{device{2}});
}
