// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// CUB, compiled by nvcc, allocates its scratch memory from a cuda_mr. The simulator cannot run its kernels: the test stops before.
#include "interop/cub_env.hpp"

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

namespace {

// CUB takes an earlier error of other code for its own, so such errors are off.
struct no_stale_errors {
    no_stale_errors() {
        cuota::simulator::unkindness wanted = before;
        wanted.stale_errors = false;
        cuota::simulator::set_unkindness(wanted);
    }
    ~no_stale_errors() { cuota::simulator::set_unkindness(before); }

    cuota::simulator::unkindness const before = cuota::simulator::current_unkindness();
};

}  // namespace

TEST_CASE("CUB hides a refusal of its scratch memory, and the budget stores it", "[interop][cub_env]") {
    support::machine const machine;
    no_stale_errors const here;
    cuota::stream const s;
    cuota::budget const account{"scratch", 0};
    cuota::scoped_pool const pool{account};
    CHECK(cub_sum(nullptr, nullptr, 1 << 20, s.get(), pool) == cudaErrorMemoryAllocation);
    auto const last = account.last_refusal();
    REQUIRE(last);
    CHECK(last->info().requested != 0);
    CHECK(last->info().request.name == cuota::tag{"cub"});
    CHECK(account.held() == 0);
}
