// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/cuda_mr.hpp>
#include <cuota/interop/cuda_mr_adaptor.hpp>

#include <type_traits>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "interop/their_memory.hpp"
#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::from_cuda_mr;
using cuota::memory_kind;
using cuota::to_cuda_mr;

namespace {

static_assert(cuota::any_cuda_mr<theirs::at_once> && !cuota::detail::cuda_mr_stream_ordered<theirs::at_once>);
static_assert(cuota::any_cuda_mr<theirs::in_order> &&
              cuota::detail::cuda_mr_stream_ordered<theirs::in_order>);
static_assert(!cuota::any_cuda_mr<int>);

using their_device_memory = cuota::cuda_mr_upstream<theirs::in_order>;
static_assert(cuota::labeled_resource<their_device_memory>);
static_assert(cuota::device_only_resource<their_device_memory>);
static_assert(sizeof(their_device_memory) == sizeof(void*));

using pinned_through_cccl =
    cuota::cuda_mr_upstream<cuota::cuda_mr<cuota::pinned_memory>, memory_kind::pinned>;
static_assert(cuota::host_only_resource<pinned_through_cccl>);

}  // namespace

TEST_CASE("a cuda_mr that is converted back has the properties of a resource", "[interop][cuda_mr][gpu]") {
    cuota::budget const account{"all", 64_MiB};
    SECTION("device memory") {
        support::behaves_as_a_resource(from_cuda_mr(to_cuda_mr(cuota::device_memory{})));
    }
    SECTION("async memory") {
        support::behaves_as_a_resource(from_cuda_mr(to_cuda_mr(cuota::async_memory{})));
    }
    SECTION("managed memory") {
        support::behaves_as_a_resource(
            from_cuda_mr<memory_kind::managed>(to_cuda_mr(cuota::managed_memory{})));
    }
    SECTION("pinned memory") {
        support::behaves_as_a_resource(from_cuda_mr<memory_kind::pinned>(to_cuda_mr(cuota::pinned_memory{})));
    }
    SECTION("of a budget") {
        support::behaves_as_a_resource(from_cuda_mr(to_cuda_mr(cuota::budgeted<>{account})));
    }
    SECTION("of a pool") {
        cuota::scoped_pool const pool{account};
        support::behaves_as_a_resource(from_cuda_mr(to_cuda_mr(pool)));
    }
    SECTION("any resource") {
        support::behaves_as_a_resource(from_cuda_mr(to_cuda_mr(cuota::any_resource{cuota::device_memory{}})));
    }
    CHECK(account.held() == 0);
}

TEST_CASE("a resource with CCCL's interface has the properties of a cuota resource",
          "[interop][cuda_mr][gpu]") {
    SECTION("stream-ordered") { support::behaves_as_a_resource(from_cuda_mr(theirs::in_order{})); }
    SECTION("synchronous only") { support::behaves_as_a_resource(from_cuda_mr(theirs::at_once{})); }
    SECTION("under a budget") {
        cuota::budget const account{"theirs", 64_MiB};
        support::behaves_as_a_resource(cuota::budgeted{account, from_cuda_mr(theirs::in_order{})});
        CHECK(account.held() == 0);
    }
    SECTION("under a pool") {
        cuota::scoped_pool const pool{from_cuda_mr(theirs::in_order{})};
        support::behaves_as_a_resource(pool.resource());
    }
    SECTION("as any resource") {
        support::behaves_as_a_resource(cuota::any_resource{from_cuda_mr(theirs::at_once{})});
    }
}

TEST_CASE("a budget over CCCL's memory charges multiples of the declared granularity",
          "[interop][cuda_mr][gpu]") {
    cuota::stream const s;
    cuota::budget const account{"theirs", 10_KiB};
    cuota::budgeted limited{account, from_cuda_mr(theirs::in_order{}, 4096)};
    void* const p = limited.allocate(s, 1);
    CHECK(account.held() == 4096);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)limited.allocate(s, 8193); });
    CHECK(refused.info().charged == 12'288);
    limited.deallocate(s, p, 1);
    CHECK(account.held() == 0);
    CHECK_THROWS_AS(from_cuda_mr(theirs::in_order{}, 1000), cuota::usage_error);
    CHECK_THROWS_AS(from_cuda_mr(theirs::in_order{}, 0), cuota::usage_error);
}

TEST_CASE("buffers can use CCCL's memory", "[interop][cuda_mr][gpu]") {
    cuota::stream const s;
    cuota::scoped_pool const pool{from_cuda_mr(theirs::in_order{})};
    cuota::device_buffer<int> const x{{1, 2, 3}, s, pool};
    cuota::device_buffer<int> const y{{4, 5}, s, from_cuda_mr(theirs::at_once{})};
    CHECK(x.to_vector(s) == std::vector{1, 2, 3});
    CHECK(y.to_vector(s) == std::vector{4, 5});
}

TEST_CASE("a resource that is converted to CCCL's and back keeps its labels and errors",
          "[interop][cuda_mr][gpu]") {
    cuota::budget const account{"small", 1_KiB};
    auto back = from_cuda_mr(to_cuda_mr(cuota::budgeted<>{account}, "through CCCL"));
    auto const anonymous = support::thrown<cuota::budget_exceeded>([&] { (void)back.allocate_sync(5000); });
    CHECK(anonymous.info().request.name == cuota::tag{"through CCCL"});
    auto const named = support::thrown<cuota::budget_exceeded>([&] {
        (void)back.allocate_sync(5000, 256, {"weights", {"train.cpp", 17}});
    });
    CHECK(named.info().request.name == cuota::tag{"weights"});
    CHECK(named.info().requested == 5000);
    CHECK(named.info().refusing_budget()->name == "small");
}
