// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/cub.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>

#include "interop/reversed_in_two_phases.hpp"
#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

using namespace cuota::literals;

namespace {

std::vector<int> one_to_hundred() {
    std::vector<int> all(100);
    std::iota(all.begin(), all.end(), 1);
    return all;
}
std::vector<int> hundred_to_one() {
    auto all = one_to_hundred();
    std::reverse(all.begin(), all.end());
    return all;
}

void turn_round(cuota::device_buffer<int>& x, cuota::stream const& s, cuota::any_resource const& memory) {
    auto const all = x.write(s);
    cuota::run_cub(s, memory, [&](void* scratch, std::size_t& bytes) {
        return support::reverse(scratch, bytes, all.span(), s);
    });
}

}  // namespace

TEST_CASE("scratch memory is freed in stream order without a wait", "[interop][cub]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::budget const budget{"scratch", 64_MiB};
    cuota::budgeted<cuota::async_memory> const memory{budget};
    cuota::device_buffer<int> x{one_to_hundred(), s, cuota::async_memory{}};
    auto const races = cuota::simulator::misuse().races;
    {
        support::gate const gate{s};
        turn_round(x, s, memory);
        CHECK_FALSE(cuota::stream_ref{s}.is_idle());  // the host has not waited
        CHECK(budget.held() == 0);
        cuota::device_buffer<int> const next{100, 7, s, memory};  // may reuse the same bytes
    }
    CHECK(x.to_vector(s) == hundred_to_one());
    CHECK(cuota::simulator::misuse().races == races);
}

TEST_CASE("another stream does not receive scratch memory that is still in use", "[interop][cub]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"scratch", 64_MiB}};
    cuota::device_buffer<int> x{one_to_hundred(), s, pool};
    cuota::device_buffer<int> y{one_to_hundred(), other, pool};
    auto const races = cuota::simulator::misuse().races;
    {
        support::gate const gate{s};
        turn_round(x, s, pool);
        turn_round(y, other, pool);
    }
    CHECK(x.to_vector(s) == hundred_to_one());
    CHECK(y.to_vector(other) == hundred_to_one());
    CHECK(cuota::simulator::misuse().races == races);
}

TEST_CASE("scratch memory is on the stream's device, even if another device is current", "[interop][cub]") {
    support::machine const machine{{.devices = 2}};
    cuota::device_scope const second{cuota::device{1}};
    cuota::stream const s;
    cuota::device_buffer<int> x{one_to_hundred(), s, cuota::async_memory{cuota::device{1}}};
    std::vector<int> current;
    {
        cuota::device_scope const first{cuota::device{0}};
        auto const all = x.write(s);
        cuota::run_cub(s, cuota::async_memory{cuota::device{1}}, [&](void* scratch, std::size_t& bytes) {
            current.push_back(cuota::device::current().ordinal());
            return support::reverse(scratch, bytes, all.span(), s);
        });
        CHECK(cuota::device::current().ordinal() == 0);
    }
    CHECK(current == std::vector<int>{1, 1});
    CHECK(x.to_vector(s) == hundred_to_one());
}

TEST_CASE("a two-phase call leaks nothing when any CUDA call fails", "[interop][cub]") {
    support::machine machine;
    bool const in_stream_order = GENERATE(true, false);
    auto const turn = [in_stream_order] {
        cuota::stream const s;
        cuota::any_resource const memory = in_stream_order ? cuota::any_resource{cuota::async_memory{}}
                                                           : cuota::any_resource{cuota::device_memory{}};
        cuota::device_buffer<int> x{one_to_hundred(), s, memory};
        turn_round(x, s, memory);
        auto const turned = x.to_vector(s);
        REQUIRE(turned == hundred_to_one());
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("in a child, run_cub refuses the parent's stream", "[interop][cub][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    cuota::stream const s;
    cuota::scoped_pool const pool{cuota::budget{"scratch", 64_MiB}};
    int const status = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        bool has_run = false;
        ask.refuses("run_cub", [&] {
            cuota::run_cub(s, pool, [&](void*, std::size_t& bytes) {
                has_run = bytes != 0;
                bytes = 100;
                return cudaSuccess;
            });
        });
        ask.expect("nothing has run", !has_run);
    });
    CHECK(status == 0);
}
