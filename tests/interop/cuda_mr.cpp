// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/cuda_mr.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::cuda_mr;
using cuota::memory_kind;
using support::thrown;

namespace {

// CCCL's names of its concepts, by version.
#if CCCL_VERSION < 3001000
template <class R, class... P>
concept in_order_with = cuda::mr::async_resource_with<R, P...>;
template <class R, class... P>
concept at_once_with = cuda::mr::resource_with<R, P...>;
template <class... P>
using in_order_ref = cuda::mr::async_resource_ref<P...>;
#else
template <class R, class... P>
concept in_order_with = cuda::mr::resource_with<R, P...>;
template <class R, class... P>
concept at_once_with = cuda::mr::synchronous_resource_with<R, P...>;
template <class... P>
using in_order_ref = cuda::mr::resource_ref<P...>;
#endif
using on_device = cuda::mr::device_accessible;
using on_host = cuda::mr::host_accessible;

template <class R>
concept is_device_only =
    in_order_with<R, on_device> && at_once_with<R, on_device> && !cuda::has_property<R, on_host>;
template <class R>
concept is_of_both = in_order_with<R, on_device, on_host> && at_once_with<R, on_device, on_host>;

static_assert(is_device_only<cuda_mr<cuota::device_memory>>);
static_assert(is_device_only<cuda_mr<cuota::budgeted<>>>);
static_assert(is_device_only<cuda_mr<cuota::pool_resource>>);
static_assert(is_device_only<cuda_mr<cuota::any_resource>>);
static_assert(is_of_both<cuda_mr<cuota::pinned_memory>>);
static_assert(is_of_both<cuda_mr<cuota::managed_memory>>);
static_assert(is_of_both<cuda_mr<cuota::any_resource, memory_kind::managed>>);
static_assert(is_device_only<cuda_mr<cuota::pool_resource> const>);  // a handle allocates when const

static_assert(sizeof(cuda_mr<cuota::any_resource>) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<cuda_mr<cuota::any_resource>>);
static_assert(noexcept(std::declval<cuda_mr<cuota::device_memory>&>().deallocate(
    std::declval<cuda::stream_ref>(), nullptr, std::size_t{1})));
static_assert(noexcept(std::declval<cuda_mr<cuota::device_memory>&>().deallocate_sync(nullptr,
                                                                                      std::size_t{1})));
static_assert(noexcept(std::declval<cuda_mr<cuota::device_memory>&>().deallocate(nullptr, std::size_t{1})));
static_assert(noexcept(std::declval<cuda_mr<cuota::device_memory>&>().deallocate_async(
    nullptr, std::size_t{1}, std::size_t{1}, std::declval<cuda::stream_ref>())));

#if CCCL_VERSION >= 3002000
static_assert(
    std::is_same_v<cuda_mr<cuota::device_memory>::default_queries, cuda::mr::properties_list<on_device>>);
static_assert(std::is_same_v<cuda_mr<cuota::pinned_memory>::default_queries,
                             cuda::mr::properties_list<on_device, on_host>>);
#endif

struct scene {
    cuota::stream s{};
    cuota::budget account{"cccl", 1_MiB};
    cuota::scoped_pool pool{account};
    cuda::stream_ref theirs() const { return cuda::stream_ref{s.get()}; }
};

}  // namespace

TEST_CASE("allocations of CCCL through a cuda_mr come from the pool", "[interop][cuda_mr][gpu]") {
    scene on;
    auto mr = cuota::to_cuda_mr(on.pool);
    void* const p = mr.allocate(on.theirs(), 1000);  // without an alignment, as CUB of CCCL 3.1 to 3.3 does
    CHECK(on.pool.stats().requested == 1000);
    mr.deallocate(on.theirs(), p, 1000);
    CHECK(on.pool.stats().requested == 0);

    void* const q = mr.allocate_sync(2000, 16);
    void* const r = mr.allocate(3000, 32);
    void* const t = mr.allocate_async(4000, 64, on.theirs());
    CHECK(on.pool.stats().requested == 9000);
    on.s.synchronize();
    mr.deallocate_sync(q, 2000, 16);
    mr.deallocate(r, 3000, 32);
    mr.deallocate_async(t, 4000, 64, on.theirs());
    CHECK(on.pool.stats().requested == 0);

    CHECK(mr.allocate(on.theirs(), 0) == nullptr);
    mr.deallocate(on.theirs(), nullptr, 0);
}

TEST_CASE("a CCCL reference to a cuda_mr allocates and frees", "[interop][cuda_mr][gpu]") {
    scene on;
    auto mr = cuota::to_cuda_mr(on.pool);
    in_order_ref<on_device> ref{mr};
#if CCCL_VERSION < 3001000
    void* const p = ref.allocate_async(1000, 8, on.theirs());
    CHECK(on.pool.stats().requested == 1000);
    ref.deallocate_async(p, 1000, 8, on.theirs());
#else
    void* const p = ref.allocate(on.theirs(), 1000, 8);
    CHECK(on.pool.stats().requested == 1000);
    ref.deallocate(on.theirs(), p, 1000, 8);
#endif
    CHECK(on.pool.stats().requested == 0);
}

#if CCCL_VERSION >= 3002000
TEST_CASE("CCCL's any_resource holds a cuda_mr, also after a move", "[interop][cuda_mr][gpu]") {
    scene on;
    auto mr = cuota::to_cuda_mr(on.pool);
    cuda::mr::any_resource<on_device> first{mr};
    cuda::mr::any_resource<on_device> second{first};
    void* const p = first.allocate(on.theirs(), 500, 8);
    second.deallocate(on.theirs(), p, 500, 8);
    CHECK(on.pool.stats().requested == 0);
    CHECK(first == second);
}
#endif

#if CCCL_VERSION >= 3001000
TEST_CASE("a CCCL environment with a cuda_mr returns it as its memory resource", "[interop][cuda_mr][gpu]") {
    scene on;
    auto const mr = cuota::to_cuda_mr(on.pool);
    cuda::std::execution::env<cuda::stream_ref, cuda_mr<cuota::pool_resource>> const env{on.theirs(), mr};
    CHECK(cuda::mr::get_memory_resource(env) == mr);
    CHECK(cuda::get_stream(env) == on.theirs());
}
#endif

TEST_CASE("a moved-from cuda_mr is unchanged", "[interop][cuda_mr][gpu]") {
    scene on;
    auto mr = cuota::to_cuda_mr(on.pool);
    auto other = std::move(mr);
    void* const p = mr.allocate(on.theirs(), 100);
    other.deallocate(on.theirs(), p, 100);
    CHECK(mr == other);
    CHECK(on.pool.stats().requested == 0);
}

TEST_CASE("cuda_mr objects are equal if their resources are", "[interop][cuda_mr][gpu]") {
    scene on;
    cuota::scoped_pool const another{cuota::device_memory{}};
    auto const mr = cuota::to_cuda_mr(on.pool, "a name");
    CHECK(mr == cuota::to_cuda_mr(on.pool, "another name"));
    CHECK(mr != cuota::to_cuda_mr(another, "a name"));
    CHECK(mr.memory() == on.pool.resource());
}

TEST_CASE("a cuda_mr fulfils an alignment or refuses it", "[interop][cuda_mr][gpu]") {
    scene on;
    auto const mr = cuota::to_cuda_mr(on.pool);
    void* const p = mr.allocate(on.theirs(), 100, 512);  // a pool supports larger alignments
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 0);
    mr.deallocate(on.theirs(), p, 100, 512);
    CHECK_THROWS_AS(mr.allocate_sync(100, 24), cuota::usage_error);
    auto const direct = cuota::to_cuda_mr(cuota::device_memory{});  // the driver guarantees 256 bytes only
    CHECK_THROWS_AS(direct.allocate(on.theirs(), 100, 512), cuota::usage_error);
    CHECK_THROWS_AS(direct.allocate_sync(100, 512), cuota::usage_error);
    CHECK(on.pool.stats().requested == 0);
}

TEST_CASE("a declared memory kind that differs from the resource's is refused", "[interop][cuda_mr][gpu]") {
    cuota::any_resource const pinned{cuota::pinned_memory{}};
    auto const refused = thrown<cuota::usage_error>([&] { (void)cuota::to_cuda_mr(pinned); });
    CHECK(std::string{refused.what()}.find(
              "declared as device memory, but the resource provides pinned memory") != std::string::npos);
    CHECK(refused.where().line != 0);
    auto const mr = cuota::to_cuda_mr<memory_kind::pinned>(pinned);
    void* const p = mr.allocate_sync(8);
    *static_cast<int*>(p) = 7;
    mr.deallocate_sync(p, 8);
    CHECK_THROWS_AS(cuota::to_cuda_mr<memory_kind::managed>(pinned), cuota::usage_error);
}

TEST_CASE("a refusal passes through unchanged, with the name and call site of its cuda_mr",
          "[interop][cuda_mr][gpu]") {
    cuota::budget const account{"small", 10_KiB};
    auto const mr = cuota::to_cuda_mr(cuota::budgeted<>{account}, "scratch");
    unsigned const line = __LINE__ - 1;
    void* const p = mr.allocate_sync(5000);
    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)mr.allocate_sync(1_MiB); });
    CHECK(refused.info().requested == 1_MiB);
    CHECK(refused.info().request.name == cuota::tag{"scratch"});
    CHECK(refused.info().request.where.line == line);
    REQUIRE(refused.info().holders.size() == 1);
    CHECK(refused.info().holders[0].name == cuota::tag{"scratch"});
    mr.deallocate_sync(p, 5000);
    CHECK(account.held() == 0);
}

TEST_CASE("a refusal that a caller hides is the budget's last refusal", "[interop][cuda_mr][gpu]") {
    scene on;
    auto mr = cuota::to_cuda_mr(on.pool, "cub");
    cudaError_t told = cudaSuccess;
    try {  // as cub::detail::temporary_storage::allocate
        (void)mr.allocate(on.theirs(), 5_MiB);
    } catch (...) { told = cudaErrorMemoryAllocation; }
    CHECK(told == cudaErrorMemoryAllocation);
    auto const last = on.account.last_refusal();
    REQUIRE(last);
    CHECK(last->info().requested == 5_MiB);
    CHECK(last->info().request.name == cuota::tag{"cub"});
}
