// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack/dlpack_import.hpp>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

using interop_tests::address;
using interop_tests::made_tensor;

TEST_CASE("a lease on another stream waits for the stream on which the tensor is ready",
          "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const ready;
    cuota::stream const mine;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}, cuota::no_init};
    int* const data = address(x.write(ready));
    support::gate gate{ready};
    cuota::rt::fill_bytes(data, 1, 400, ready, {});
    made_tensor made{data, {100}};
    {
        auto const tensor = cuota::from_dlpack<int>(made.get(), ready);
        cuota::device_buffer<int> copy{100, mine, cuota::device_memory{}};
        {
            auto const use = tensor.read(mine);
            cuota::rt::copy_on_device(address(copy.write(mine)), use.span().data(), 400, mine, {});
        }
        CHECK_FALSE(cuota::stream_ref{mine}.is_idle());
        gate.open();
        CHECK(copy.to_vector(mine) == std::vector<int>(100, 0x01010101));
    }
    CHECK(made.deleted() == 1);
    CHECK(cuota::simulator::misuse().races == 0);
}

TEST_CASE("the deleter is called after the host has waited for all leases", "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const ready;
    cuota::stream const mine;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}};
    made_tensor made{address(x.write(ready)), {100}};
    std::optional<cuota::imported_buffer<int>> tensor{cuota::from_dlpack<int>(made.get(), ready)};
    support::gate gate{mine};
    cuota::rt::fill_bytes(address(tensor->write(mine)), 1, 400, mine, {});
    std::thread ends{[&] { tensor.reset(); }};
    support::let_ready_work_run();
    CHECK(made.deleted() == 0);
    gate.open();
    ends.join();
    CHECK(made.deleted() == 1);
    CHECK(cuota::stream_ref{mine}.is_idle());
}

TEST_CASE("with a producer's stream, that stream waits for the leases, and the host does not",
          "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const ready;
    cuota::stream const mine;
    cuota::stream const producer;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}};
    int* const data = address(x.write(ready));
    producer.wait(cuota::event{ready});
    made_tensor made{data, {100}};
    support::gate gate{mine};
    {
        auto tensor = cuota::from_dlpack<int>(made.get(), ready, cuota::stream_ref{producer});
        cuota::rt::fill_bytes(address(tensor.write(mine)), 1, 400, mine, {});
    }
    CHECK(made.deleted() == 1);
    cuota::rt::fill_bytes(data, 2, 400, producer, {});
    CHECK_FALSE(cuota::stream_ref{producer}.is_idle());
    gate.open();
    producer.synchronize();
    CHECK(cuota::simulator::misuse().races == 0);
}

TEST_CASE("an imported tensor without leases is deleted without a wait", "[interop][dlpack]") {
    support::machine const machine;
    cuota::stream const ready;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}};
    made_tensor made{address(x.write(ready)), {100}};
    support::gate gate{ready};
    { auto const tensor = cuota::from_dlpack<int>(made.get(), ready); }
    CHECK(made.deleted() == 1);
    CHECK_FALSE(cuota::stream_ref{ready}.is_idle());
}

TEST_CASE("a CUDA call that fails during an import calls the deleter once and leaks nothing",
          "[interop][dlpack]") {
    support::machine machine;
    cuota::stream const ready;
    cuota::stream const mine;
    cuota::stream const producer;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}};
    int* const data = address(x.write(ready));
    auto const ends_once = [&](cudaStream_t on, std::optional<cuota::stream_ref> from) {
        (void)support::survives_every_failure(machine, [&] {
            made_tensor made{data, {100}};
            struct once {
                made_tensor<>& of;
                ~once() { CHECK(of.deleted() == 1); }
            } const check{made};
            auto tensor = cuota::from_dlpack<int>(
                made.get(), on ? cuota::stream_ref{on} : cuota::stream_ref{ready}, from);
            { auto const use = tensor.write(mine); }
            { auto const use = tensor.read(ready); }
        });
    };
    ends_once(nullptr, std::nullopt);
    ends_once(nullptr, cuota::stream_ref{producer});
    ends_once(ready.get(), std::nullopt);
}

TEST_CASE("in a child, imported tensors are destroyed without their deleters and refuse leases",
          "[interop][dlpack][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    cuota::stream const ready;
    cuota::stream const mine;
    cuota::stream const producer;
    cuota::device_buffer<int> x{100, ready, cuota::device_memory{}};
    int* const data = address(x.write(ready));
    made_tensor used{data, {100}};
    made_tensor given_back{data, {100}};
    made_tensor fresh{data, {100}};
    std::vector<int> on_host(100);
    made_tensor of_host{on_host.data(), {100}, cuota::dlpack::device_type::cpu};
    struct tensors {
        cuota::imported_buffer<int> used, given_back, fresh;
        cuota::imported_host_buffer<int> of_host;
    };
    std::optional<tensors> all{tensors{cuota::from_dlpack<int>(used.get(), ready),
                                       cuota::from_dlpack<int>(given_back.get(), ready, producer),
                                       cuota::from_dlpack<int>(fresh.get(), ready),
                                       cuota::from_dlpack_on_host<int>(of_host.get())}};
    (void)all->used.write(mine);
    (void)all->given_back.write(mine);
    auto const deleted = [&] {
        return used.deleted() + given_back.deleted() + fresh.deleted() + of_host.deleted();
    };
    int const ends = support::status_of_ends_in_child([&] {
        all.reset();
        if (deleted() != 0) ::_exit(4);
    });
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("a lease", [&] { (void)all->used.read(ready); });
        ask.refuses("a first lease", [&] { (void)all->fresh.read(ready); });
        ask.refuses("a first lease on another stream", [&] { (void)all->fresh.write(mine); });
        ask.refuses("a first lease of a buffer", [&] {
            cuota::device_buffer<int> const y{std::move(x)};
            (void)y.read(mine);
        });
    });
    CHECK(requests == 0);
    all.reset();
    CHECK(deleted() == 4);
}
