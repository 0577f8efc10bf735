// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/cub.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "interop/reversed_in_two_phases.hpp"
#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::thrown;

namespace {

constexpr std::size_t count = 1000;
constexpr std::size_t scratch_of_count = count * sizeof(int);

std::vector<int> one_to(std::size_t n) {
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 1);
    return all;
}
std::vector<int> reversed(std::vector<int> all) {
    std::reverse(all.begin(), all.end());
    return all;
}

}  // namespace

static_assert(cuota::two_phase_call<cudaError_t (*)(void*, std::size_t&)>);
static_assert(!cuota::two_phase_call<void (*)(void*, std::size_t&)>);

TEST_CASE("run_cub allocates scratch memory of the size that the call requested", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::measured memory{cuota::async_memory{}};
    cuota::device_buffer<int> x{one_to(count), s, cuota::async_memory{}};
    {
        auto const all = x.write(s);
        auto const turn = [&](void* scratch, std::size_t& bytes) {
            return support::reverse(scratch, bytes, all.span(), s);
        };
        CHECK(cuota::cub_temp_storage_bytes(s, turn) == scratch_of_count);
        cuota::run_cub(s, memory, turn);
    }
    CHECK(x.to_vector(s) == reversed(one_to(count)));
    auto const seen = memory.report();
    CHECK(seen.allocations == 1);
    CHECK(seen.releases == 1);
    CHECK(seen.peak == cuota::round_up(scratch_of_count, seen.granularity));
    CHECK(seen.by_tag.front().name == cuota::tag{"cub"});
}

TEST_CASE("run_cub calls twice: without scratch memory, then with the requested bytes",
          "[interop][cub][gpu]") {
    cuota::stream const s;
    std::vector<void*> scratches;
    std::vector<std::size_t> sizes;
    cuota::run_cub(s, cuota::async_memory{}, [&](void* scratch, std::size_t& bytes) {
        if (!scratch) bytes = 77;
        scratches.push_back(scratch);
        sizes.push_back(bytes);
        return cudaSuccess;
    });
    REQUIRE(scratches.size() == 2);
    CHECK(scratches[0] == nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(scratches[1]) % cuota::default_alignment == 0);
    CHECK(scratches[1] != nullptr);
    CHECK(sizes == std::vector<std::size_t>{77, 77});
}

TEST_CASE("a call that needs no scratch memory is still run", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::measured memory{cuota::async_memory{}};
    int runs = 0;
    auto const wants_nothing = [&](void* scratch, std::size_t& bytes) {
        if (!scratch) bytes = 0;
        else ++runs;
        return cudaSuccess;
    };
    CHECK(cuota::cub_temp_storage_bytes(s, wants_nothing) == 1);
    cuota::run_cub(s, memory, wants_nothing);
    CHECK(runs == 1);
    CHECK(memory.report().live_bytes() == 0);
}

TEST_CASE("scratch memory beyond the budget is refused, and the call is not run", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::budget const small{"small", 2_KiB};
    cuota::device_buffer<int> x{one_to(count), s, cuota::async_memory{}};
    {
        auto const all = x.write(s);
        auto const turn = [&](void* scratch, std::size_t& bytes) {
            return support::reverse(scratch, bytes, all.span(), s);
        };
        unsigned const line = __LINE__ + 1;
        auto const call = [&] { cuota::run_cub(s, cuota::budgeted<cuota::async_memory>{small}, turn); };
        auto const error = thrown<cuota::budget_exceeded>(call);
        CHECK(error.info().requested == scratch_of_count);
        CHECK(error.info().request.name == cuota::tag{"cub"});
        CHECK(error.info().request.where.line == line);
        CHECK(small.held() == 0);
    }
    CHECK(x.to_vector(s) == one_to(count));
}

TEST_CASE("an error of the call is a cuda_error with the caller's line, and scratch memory is freed",
          "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::measured memory{cuota::async_memory{}};
    bool const fails_at_once = GENERATE(true, false);
    auto const fails = [&](void* scratch, std::size_t& bytes) {
        if (!scratch) bytes = 100;
        return scratch || fails_at_once ? cudaErrorInvalidValue : cudaSuccess;
    };
    unsigned const line = __LINE__ + 1;
    auto const error = thrown<cuota::cuda_error>([&] { cuota::run_cub(s, memory, fails); });
    CHECK(error.code() == cudaErrorInvalidValue);
    CHECK(error.where().line == line);
    CHECK(memory.report().allocations == (fails_at_once ? 0 : 1));
    CHECK(memory.report().live_bytes() == 0);
    CHECK(support::last_error() == cudaSuccess);
}

TEST_CASE("an exception of the call is passed on, and scratch memory is freed", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::measured memory{cuota::async_memory{}};
    auto const throws = [](void* scratch, std::size_t& bytes) {
        if (scratch) throw std::runtime_error{"no such key"};
        bytes = 100;
        return cudaSuccess;
    };
    CHECK_THROWS_AS(cuota::run_cub(s, memory, throws), std::runtime_error);
    CHECK(memory.report().allocations == 1);
    CHECK(memory.report().live_bytes() == 0);
}

TEST_CASE("scratch memory from a host resource is refused", "[interop][cub][gpu]") {
    cuota::stream const s;
    int runs = 0;
    auto const call = [&](void* scratch, std::size_t& bytes) {
        runs += scratch != nullptr;
        bytes = 100;
        return cudaSuccess;
    };
    cuota::any_resource const erased{cuota::pinned_memory{}};
    CHECK_THROWS_AS(cuota::run_cub(s, erased, call), cuota::usage_error);
    CHECK(runs == 0);
}

TEST_CASE("consecutive calls reuse the same scratch memory of a pool", "[interop][cub][gpu]") {
    cuota::stream const s;
    cuota::budget const budget{"scratch", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::device_buffer<int> x{one_to(count), s, pool};
    {
        auto const all = x.write(s);
        std::vector<void*> seen;
        auto const turn = [&](void* scratch, std::size_t& bytes) {
            if (scratch) seen.push_back(scratch);
            return support::reverse(scratch, bytes, all.span(), s);
        };
        cuota::run_cub(s, pool, turn);
        cuota::run_cub(s, pool, turn);
        CHECK(seen[0] == seen[1]);
    }
    CHECK(x.to_vector(s) == reversed(reversed(one_to(count))));
}
