// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/any_resource.hpp>

#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/resource_suite.hpp"

TEST_CASE("any_resource leaks nothing", "[resource][any_resource]") {
    support::machine const sim;
    SECTION("device") { support::behaves_as_a_resource(cuota::any_resource{cuota::device_memory{}}); }
    SECTION("async") { support::behaves_as_a_resource(cuota::any_resource{cuota::async_memory{}}); }
    SECTION("managed") { support::behaves_as_a_resource(cuota::any_resource{cuota::managed_memory{}}); }
    SECTION("pinned") { support::behaves_as_a_resource(cuota::any_resource{cuota::pinned_memory{}}); }
}
