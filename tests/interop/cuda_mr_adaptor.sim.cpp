// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/cuda_mr.hpp>
#include <cuota/interop/cuda_mr_adaptor.hpp>

#include <chrono>
#include <cstddef>
#include <new>
#include <optional>
#include <stdexcept>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "interop/their_memory.hpp"
#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::from_cuda_mr;
using cuota::to_cuda_mr;
using support::has;
using support::thrown;

namespace {

constexpr cuota::label who{"weights", {"train.cpp", 17}};
constexpr auto frees = [](void* p) { (void)cudaFree(p); };

// Returns the error of a request to a resource whose allocation runs `take`.
template <class Error, class Take>
Error error_of(Take take) {
    auto memory = from_cuda_mr(theirs::told{take, frees});
    return thrown<Error>([&] { (void)memory.allocate_sync(1000, 256, who); });
}

::cuda::cuda_error their_cuda_error(cudaError_t code) {
#if CCCL_VERSION < 3001000
    return {code, "asked the driver"};
#else
    return {code, "asked the driver", "cudaMalloc"};
#endif
}

}  // namespace

TEST_CASE("bad_alloc of a CCCL resource becomes a refusal with facts", "[interop][cuda_mr]") {
    support::machine const machine;
    auto const refused = error_of<cuota::out_of_memory>([](std::size_t) -> void* { throw std::bad_alloc{}; });
    CHECK(refused.info().requested == 1000);
    CHECK(refused.info().charged == 1024);
    CHECK(refused.info().request.name == cuota::tag{"weights"});
    CHECK(has(refused.info().cause, "std::bad_alloc"));
    REQUIRE(refused.info().device);
    CHECK(refused.info().device->own == 0);  // the charge was undone
    CHECK(has(refused.what(), "train.cpp:17"));
}

TEST_CASE("cuda_error of a CCCL resource becomes cuota's, or a refusal if memory was missing",
          "[interop][cuda_mr]") {
    support::machine const machine;
    auto const error = error_of<cuota::cuda_error>(
        [](std::size_t) -> void* { throw their_cuda_error(cudaErrorInvalidDevice); });
    CHECK(error.code() == cudaErrorInvalidDevice);
    CHECK(has(error.what(), "asked the driver"));
    auto const refused = error_of<cuota::out_of_memory>(
        [](std::size_t) -> void* { throw their_cuda_error(cudaErrorMemoryAllocation); });
    CHECK(has(refused.info().cause, "asked the driver"));
}

TEST_CASE("invalid_argument becomes usage_error, null a refusal, and other exceptions pass unchanged",
          "[interop][cuda_mr]") {
    support::machine const machine;
    auto const error = error_of<cuota::usage_error>(
        [](std::size_t) -> void* { throw std::invalid_argument{"such an alignment"}; });
    CHECK(has(error.what(), "such an alignment"));
    CHECK(error.where().line == 17);
    CHECK(has(error_of<cuota::out_of_memory>([](std::size_t) -> void* { return nullptr; }).what(), "null"));
    CHECK(has(error_of<std::domain_error>([](std::size_t) -> void* { throw std::domain_error{"x"}; }).what(),
              "x"));
    CHECK(error_of<int>([](std::size_t) -> void* { throw 7; }) == 7);
}

TEST_CASE("memory of a CCCL resource that is not aligned as requested is freed and refused",
          "[interop][cuda_mr]") {
    support::machine const machine;
    auto const shifted = [](std::size_t bytes) -> void* {
        return static_cast<char*>(theirs::by_cuda_malloc(bytes + 8)) + 8;
    };
    auto const unshifted = [](void* p) { (void)cudaFree(static_cast<char*>(p) - 8); };
    auto memory = from_cuda_mr(theirs::told{shifted, unshifted});
    auto const error = thrown<cuota::usage_error>([&] { (void)memory.allocate_sync(1000, 16, who); });
    CHECK(has(error.what(), "not aligned to the requested 16"));
    CHECK(cuota::simulator::live().device_allocations == 0);
    void* const p = memory.allocate_sync(1000, 8, who);  // an alignment that the resource provides succeeds
    memory.deallocate_sync(p, 1000, 8);
}

TEST_CASE("an exception of a CCCL resource's deallocate is reported", "[interop][cuda_mr]") {
    support::machine machine;
    auto memory = from_cuda_mr(theirs::told{&theirs::by_cuda_malloc, [](void* p) {
                                                (void)cudaFree(p);
                                                throw std::runtime_error{"they are not sure"};
                                            }});
    void* const p = memory.allocate_sync(1000);
    memory.deallocate_sync(p, 1000);
    auto const reported = machine.errors.take();
    REQUIRE(reported.size() == 1);
    CHECK(has(reported[0], "they are not sure"));
    // Still counted, as the memory may not have been freed. Reset for the following tests.
    CHECK(cuota::detail::taken_on(cuota::device{0}).exchange(0) == 1024);
}

TEST_CASE("a CCCL resource is called with its device current, whatever the caller's device",
          "[interop][cuda_mr]") {
    support::machine const machine{{.devices = 2}};
    int asked = -1;
    auto memory = from_cuda_mr(theirs::told{[&](std::size_t bytes) {
                                                (void)cudaGetDevice(&asked);
                                                return theirs::by_cuda_malloc(bytes);
                                            },
                                            [&](void* p) {
                                                (void)cudaGetDevice(&asked);
                                                (void)cudaFree(p);
                                            }},
                               512, cuota::device{1});
    void* const p = memory.allocate_sync(1000);
    CHECK(asked == 1);
    asked = -1;
    memory.deallocate_sync(p, 1000);
    CHECK(asked == 1);
    CHECK(cuota::device::current() == cuota::device{0});
    CHECK(memory.device() == cuota::device{1});
}

TEST_CASE("a size beyond every machine's memory is refused without a call of the CCCL resource",
          "[interop][cuda_mr]") {
    support::machine const machine;
    int calls = 0;
    auto memory = from_cuda_mr(theirs::told{[&](std::size_t) {
                                                ++calls;
                                                return theirs::by_cuda_malloc(8);
                                            },
                                            frees});
    CHECK_THROWS_AS(memory.allocate_sync(static_cast<std::size_t>(-1)), cuota::out_of_memory);
    CHECK_THROWS_AS(memory.allocate_sync(static_cast<std::size_t>(-1) - 255), cuota::out_of_memory);
    CHECK(calls == 0);
}

TEST_CASE("a device budget counts memory of a CCCL resource as its own", "[interop][cuda_mr]") {
    support::machine const machine{{.capacity = 64_MiB}};
    auto account = cuota::budget::for_device(cuota::device{0}, 1.0, 0, std::chrono::nanoseconds{0});
    std::size_t const before = account.limit();
    cuota::budgeted limited{account, from_cuda_mr(theirs::at_once{})};
    void* const p = limited.allocate_sync(32_MiB);
    void* const q = limited.allocate_sync(1_MiB);  // refreshes the limit
    CHECK(account.limit() == before);
    limited.deallocate_sync(p, 32_MiB);
    limited.deallocate_sync(q, 1_MiB);
}

TEST_CASE("a pool over CCCL's memory leaks nothing when any CUDA call fails", "[interop][cuda_mr]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::budget const account{"all", 64_MiB};
        cuota::scoped_pool const below{account};
        cuota::scoped_pool const pool{from_cuda_mr(to_cuda_mr(below))};
        auto mr = to_cuda_mr(pool);
        void* const p = mr.allocate(cuda::stream_ref{s.get()}, 1000);
        mr.deallocate(cuda::stream_ref{s.get()}, p, 1000);
        void* const q = mr.allocate_sync(5000);
        mr.deallocate_sync(q, 5000);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("synchronous CCCL memory leaks nothing when any CUDA call fails", "[interop][cuda_mr]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        auto memory = from_cuda_mr(to_cuda_mr(cuota::device_memory{}));
        void* const p = memory.allocate(s, 1000);
        memory.deallocate(s, p, 1000);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("in a child, CCCL's and cuota's resources free nothing and refuse requests",
          "[interop][cuda_mr][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"pool", 8_MiB}};
    std::optional theirs_in_order{from_cuda_mr(theirs::in_order{})};
    std::optional theirs_at_once{from_cuda_mr(theirs::at_once{})};
    std::optional ours{to_cuda_mr(pool)};
    void* const a = theirs_in_order->allocate(s, 1000);
    void* const b = theirs_at_once->allocate(s, 1000);
    void* const c = theirs_at_once->allocate_sync(1000);
    void* const d = ours->allocate(cuda::stream_ref{s.get()}, 1000);
    auto const give_all = [&] {
        theirs_in_order->deallocate(s, a, 1000);
        theirs_at_once->deallocate(s, b, 1000);
        theirs_at_once->deallocate_sync(c, 1000);
        ours->deallocate(cuda::stream_ref{s.get()}, d, 1000);
        theirs_in_order.reset();
        theirs_at_once.reset();
        ours.reset();
    };
    int const ends = support::status_of_ends_in_child(give_all);
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("theirs, in order", [&] { (void)theirs_in_order->allocate(s, 1000); });
        ask.refuses("theirs, at once", [&] { (void)theirs_at_once->allocate_sync(1000); });
        ask.refuses("own", [&] { (void)ours->allocate(cuda::stream_ref{s.get()}, 1000); });
    });
    CHECK(requests == 0);
    give_all();
}
