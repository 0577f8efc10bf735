// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// No context is created on a device that the program does not use, and a thread's current device is unchanged afterwards.
#include <cuota/runtime/rt/primary_context.hpp>

#include <cstddef>
#include <thread>

#include <cuota/runtime/device.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

namespace simulator = cuota::simulator;

namespace {

constexpr simulator::options two_devices{.devices = 2, .capacity = std::size_t{64} << 20};

// Runs `work` on a thread that has not set a device; its current device is 0.
template <class Work>
void on_a_new_thread(Work work) {
    std::thread{work}.join();
}

}  // namespace

TEST_CASE("a device_scope creates no context on another device, and restores the current device",
          "[runtime][primary_context]") {
    support::machine const machine{two_devices};
    on_a_new_thread([] {
        {
            cuota::device_scope const scope{cuota::device{1}};
            CHECK(cuota::device::current() == cuota::device{1});
            cuota::stream const s;
            CHECK(s.device() == cuota::device{1});
            cuota::rt::device_free(cuota::rt::device_allocate(4096));
            {
                cuota::device_scope const same{cuota::device{1}};
                CHECK(cuota::device::current() == cuota::device{1});
            }
        }
        CHECK(cuota::device::current() == cuota::device{0});
    });
    CHECK(simulator::contexts_made(0) == 0);
    CHECK(simulator::contexts_made(1) == 1);
}

TEST_CASE("queries of one device and work on it create no context on another", "[runtime][primary_context]") {
    support::machine const machine{two_devices};
    on_a_new_thread([] {
        cuota::device const other{1};
        (void)other.memory();
        (void)other.name();
        (void)other.host_numa_node();
        other.synchronize();
        CHECK(cuota::device::current() == cuota::device{0});
    });
    CHECK(simulator::contexts_made(0) == 0);
    CHECK(simulator::contexts_made(1) == 1);
}

TEST_CASE("device_scope restores a device whose context the program has created",
          "[runtime][primary_context]") {
    support::machine const machine{two_devices};
    on_a_new_thread([] {
        cuota::rt::device_free(cuota::rt::device_allocate(4096));
        { cuota::device_scope const scope{cuota::device{1}}; }
        CHECK(cuota::device::current() == cuota::device{0});
        REQUIRE(cudaSetDevice(1) == cudaSuccess);
        {
            cuota::device_scope const scope{cuota::device{0}};
            CHECK(cuota::device::current() == cuota::device{0});
        }
        CHECK(cuota::device::current() == cuota::device{1});
    });
    CHECK(simulator::contexts_made(0) == 1);
    CHECK(simulator::contexts_made(1) == 1);
}

TEST_CASE("nested scopes on different devices restore the devices in turn", "[runtime][primary_context]") {
    support::machine const machine{two_devices};
    on_a_new_thread([] {
        {
            cuota::device_scope const outer{cuota::device{1}};
            {
                cuota::device_scope const inner{cuota::device{0}};
                CHECK(cuota::device::current() == cuota::device{0});
            }
            CHECK(cuota::device::current() == cuota::device{1});
        }
        CHECK(cuota::device::current() == cuota::device{0});
        cuota::stream const s;
        CHECK(s.device() == cuota::device{0});
    });
}

TEST_CASE("a device that does not exist is refused without a context, and failures restore the device",
          "[runtime][primary_context]") {
    support::machine machine{two_devices};
    on_a_new_thread([&] {
        CHECK_THROWS_AS(cuota::device_scope{cuota::device{2}}, cuota::cuda_error);
        CHECK(cuota::device::current() == cuota::device{0});
        CHECK(simulator::contexts_made(0) == 0);
        auto const seen = support::survives_every_failure(
            machine, [] { cuota::device_scope const scope{cuota::device{1}}; });
        CHECK(seen.silent == 0);
        CHECK(cuota::device::current() == cuota::device{0});
        CHECK(simulator::contexts_made(0) == 0);
    });
}
