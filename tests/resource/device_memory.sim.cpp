// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/driver_suite.hpp"

TEST_CASE("device_memory behaves as memory of a driver", "[resource][device_memory]") {
    support::behaves_as_driver_memory<cuota::device_memory>("cudaMalloc");
}
