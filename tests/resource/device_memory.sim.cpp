// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/device_memory.hpp>

#include <cuota/runtime/rt/peer_access.hpp>

#include "support/catch.hpp"
#include "support/driver_suite.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

TEST_CASE("device_memory fulfils the contract of driver memory", "[resource][device_memory]") {
    support::behaves_as_driver_memory<cuota::device_memory>("cudaMalloc");
}

TEST_CASE("a stream is refused if kernels of its device cannot access the memory",
          "[resource][device_memory][peers]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const near;
    cuota::stream const far = [] {
        cuota::device_scope const there{cuota::device{1}};
        return cuota::stream{};
    }();
    cuota::device_memory memory{cuota::device{0}};
    auto const refused = support::thrown<cuota::usage_error>([&] {
        (void)memory.allocate(far, 1000, 256, {"x", {"train.cpp", 4}});
    });
    for (char const* const part : {"train.cpp:4", "kernels of device 1 cannot", "memory of device 0"})
        CHECK(support::has(refused.what(), part));
    CHECK(cuota::simulator::live().device_allocations == 0);
    CHECK(memory.allocate(far, 0) == nullptr);

    cuota::rt::allow_reach(cuota::device{1}, cuota::device{0});
    for (cuota::stream const* const s : {&near, &far}) {
        void* const p = memory.allocate(*s, 1000);
        memory.deallocate(*s, p, 1000);
    }
}
