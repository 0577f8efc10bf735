// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/managed_memory.hpp>

#include "support/catch.hpp"
#include "support/driver_suite.hpp"

TEST_CASE("managed_memory fulfils the contract of driver memory", "[resource][managed_memory]") {
    support::behaves_as_driver_memory<cuota::managed_memory>("cudaMallocManaged");
}
