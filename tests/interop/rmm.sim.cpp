// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/rmm.hpp>

#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>

#include <cstddef>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "interop/their_memory.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::from_rmm;
using cuota::to_rmm;
using support::has;
using support::thrown;

namespace {

constexpr cuota::label who{"weights", {"train.cpp", 17}};

template <class Error, class Take>
Error error_of(Take take) {
    auto memory = from_rmm(theirs::told{take, [](void* p) { (void)cudaFree(p); }});
    return thrown<Error>([&] { (void)memory.allocate_sync(1000, 256, who); });
}

}  // namespace

TEST_CASE("RMM's errors become cuota's errors with RMM's text", "[interop][rmm]") {
    support::machine const machine;
    auto const cuda = error_of<cuota::cuda_error>(
        [](std::size_t) -> void* { throw rmm::cuda_error{"cudaErrorInvalidDevice invalid device ordinal"}; });
    CHECK(cuda.code() == cudaErrorUnknown);
    CHECK(has(cuda.what(), "invalid device ordinal"));
    auto const logic = error_of<cuota::usage_error>(
        [](std::size_t) -> void* { throw rmm::logic_error{"Invalid allocation size"}; });
    CHECK(has(logic.what(), "Invalid allocation size"));
    CHECK(logic.where().line == 17);
    auto const bad = error_of<cuota::out_of_memory>(
        [](std::size_t) -> void* { throw rmm::bad_alloc{"CUDA error (failed to allocate)"}; });
    CHECK(has(bad.info().cause, "failed to allocate"));
    CHECK(bad.info().requested == 1000);
    auto const full = error_of<cuota::out_of_memory>(
        [](std::size_t) -> void* { throw rmm::out_of_memory{"Maximum pool size exceeded"}; });
    CHECK(has(full.info().cause, "out_of_memory: Maximum pool size exceeded"));
    CHECK(full.info().charged == 1024);
}

TEST_CASE("a refused RMM container on a cuota pool leaks nothing", "[interop][rmm]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::budget const account{"all", 64_KiB};
    {
        cuota::scoped_pool const pool{account};
        cuda::stream_ref const on{s.get()};
        rmm::device_uvector<int> x{100, on, to_rmm(pool)};
        CHECK_THROWS_AS(x.resize(1'000'000, on), rmm::out_of_memory);
        CHECK(x.size() == 100);
        CHECK(pool.stats().requested == 400);
    }
    CHECK(account.held() == 0);
}

TEST_CASE("a cuota pool over an RMM resource leaks nothing when any CUDA call fails", "[interop][rmm]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::scoped_pool const below{cuota::budget{"all", 64_MiB}};
        cuota::scoped_pool const pool{from_rmm(to_rmm(below))};
        cuota::any_resource memory{pool};
        void* const p = memory.allocate(s, 1000);
        memory.deallocate(s, p, 1000);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}
