// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack/dlpack_export.hpp>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

using namespace cuota::literals;
using interop_tests::address;

TEST_CASE("the consumer's stream waits for work on the exported buffer, and the host does not",
          "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const consumer;
    cuota::device_buffer<int> x{100, home, cuota::device_memory{}, cuota::no_init};
    support::gate gate{home};
    cuota::rt::fill_bytes(address(x.write()), 1, x.bytes(), home, {});
    auto const tensor = cuota::to_dlpack(std::move(x), consumer);
    cuota::rt::fill_bytes(tensor.tensor().data, 2, 400, consumer, {});
    CHECK_FALSE(cuota::stream_ref{consumer}.is_idle());
    gate.open();
    consumer.synchronize();
    CHECK(cuota::simulator::misuse().races == 0);
}

TEST_CASE("memory of a tensor is freed after the consumer's work, and the host does not wait",
          "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const consumer;
    cuota::budget const budget{"all", 2_MiB};
    cuota::scoped_pool pool{budget};
    auto* const tensor =
        cuota::to_dlpack(cuota::device_buffer<char>{2'000'000, home, pool}, consumer).release();
    void const* const at = tensor->dl_tensor.data;
    support::gate gate{consumer};
    cuota::rt::fill_bytes(tensor->dl_tensor.data, 2, 2'000'000, consumer, {});
    std::thread{[tensor] { tensor->deleter(tensor); }}.join();

    cuota::device_buffer<char> next{2'000'000, home, pool, cuota::no_init};
    CHECK(address(next.write()) == at);
    cuota::rt::fill_bytes(address(next.write()), 3, next.bytes(), home, {});
    CHECK_FALSE(cuota::stream_ref{home}.is_idle());
    gate.open();
    home.synchronize();
    CHECK(cuota::simulator::misuse().races == 0);
}

TEST_CASE("a tensor may outlive its pool and its streams", "[interop][dlpack]") {
    support::machine machine;
    cuota::dlpack::managed_tensor_versioned* tensor = nullptr;
    cuota::dlpack::managed_tensor* old = nullptr;
    {
        cuota::stream const home;
        cuota::stream const consumer;
        cuota::budget const budget{"all", 8_MiB};
        cuota::scoped_pool pool{budget};
        tensor = cuota::to_dlpack(cuota::device_buffer<float>{6, home, pool}, {2, 3}, consumer).release();
        old = cuota::to_dlpack(cuota::device_buffer<float>{6, home, pool}, {3, 2}, consumer)
                  .release_unversioned();
        cuota::rt::fill_bytes(tensor->dl_tensor.data, 2, 24, consumer, {});
    }
    CHECK(machine.errors.take().size() == 1);  // the pool reports the block that outlives it
    CHECK(cuota::simulator::live().device_bytes > 0);
    tensor->deleter(tensor);
    std::thread{[old] { old->deleter(old); }}.join();
    CHECK(cuota::simulator::live().device_bytes == 0);
}

TEST_CASE("a CUDA call that fails during an export leaves the buffer unchanged and leaks nothing",
          "[interop][dlpack]") {
    support::machine machine;
    cuota::stream const home;
    cuota::stream const consumer;
    (void)support::survives_every_failure(machine, [&] {
        cuota::device_buffer<int> x{100, home, cuota::device_memory{}};
        std::optional<cuota::dlpack_tensor> tensor;
        try {
            tensor.emplace(cuota::to_dlpack(std::move(x), consumer));
        } catch (...) {
            CHECK(x.size() == 100);
            throw;
        }
        CHECK(x.is_empty());
    });
    (void)support::survives_every_failure(machine, [&] {
        auto const x = std::make_shared<cuota::device_buffer<int> const>(100, home, cuota::device_memory{});
        auto const a = cuota::to_dlpack(x, {10, 10}, consumer);
        auto const b = cuota::to_dlpack(x, {10, 10}, home);
    });
    (void)support::survives_every_failure(
        machine, [&] { auto const tensor = cuota::to_dlpack(cuota::pinned_buffer<int>{100}, {100}); });
}

TEST_CASE("in a child, tensors of buffers are destroyed without a CUDA call, and exports are refused",
          "[interop][dlpack][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const consumer;
    auto const make = [&] { return cuota::device_buffer<int>{100, home, cuota::device_memory{}}; };
    std::optional<cuota::dlpack_tensor> kept{cuota::to_dlpack(make(), consumer)};
    auto const shared = std::make_shared<cuota::device_buffer<int>>(make());
    std::optional<cuota::dlpack_tensor> view{cuota::to_dlpack(shared, {100}, consumer)};
    auto* const released = cuota::to_dlpack(make(), consumer).release();
    auto* const pinned = cuota::to_dlpack(cuota::pinned_buffer<int>{100}, {100}).release();
    cuota::device_buffer<int> more = make();
    int const ends = support::status_of_ends_in_child([&] {
        kept.reset();
        view.reset();
        released->deleter(released);
        pinned->deleter(pinned);
    });
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("to_dlpack", [&] { (void)cuota::to_dlpack(std::move(more), consumer); });
    });
    CHECK(requests == 0);
    released->deleter(released);
    pinned->deleter(pinned);
}
