// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/rmm.hpp>

#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/resource_ref.hpp>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::from_rmm;
using cuota::to_rmm;
using support::thrown;

namespace {

using pool_for_rmm = decltype(to_rmm(std::declval<cuota::scoped_pool const&>()));
static_assert(cuda::mr::resource_with<pool_for_rmm, cuda::mr::device_accessible>);
static_assert(std::is_constructible_v<rmm::device_async_resource_ref, pool_for_rmm&>);
using pinned_for_rmm = decltype(to_rmm(cuota::pinned_memory{}));
static_assert(std::is_constructible_v<rmm::host_device_async_resource_ref, pinned_for_rmm&>);

struct scene {
    cuota::stream s{};
    cuota::budget account{"rmm", 4_MiB};
    cuota::scoped_pool pool{account};
    cuda::stream_ref theirs() const { return cuda::stream_ref{s.get()}; }
};

std::vector<int> read(rmm::device_uvector<int> const& x, cuota::stream_ref s) {
    std::vector<int> host(x.size());
    cuota::rt::copy_to_host(host.data(), x.data(), host.size() * sizeof(int), s);
    s.synchronize();
    return host;
}

}  // namespace

TEST_CASE("RMM's containers can use a cuota pool", "[interop][rmm][gpu]") {
    scene on;
    {
        auto mr = to_rmm(on.pool, "RMM's");
        rmm::device_uvector<int> x{100, on.theirs(), mr};
        CHECK(on.pool.stats().requested == 400);
        for (int i = 0; i != 100; ++i) x.set_element(static_cast<std::size_t>(i), i, on.theirs());
        x.resize(5000, on.theirs());  // allocates, copies and frees
        CHECK(on.pool.stats().requested == 20'000);
        x.resize(3, on.theirs());
        x.shrink_to_fit(on.theirs());
        CHECK(read(x, on.s) == std::vector{0, 1, 2});

        rmm::device_buffer const from{x.data(), 12, on.theirs(), mr};
        rmm::device_buffer copied{from, on.theirs(), mr};
        rmm::device_buffer const moved{std::move(copied)};
        CHECK(on.pool.stats().requested == 36);
        std::vector<int> host(3);
        cuota::rt::copy_to_host(host.data(), moved.data(), 12, on.s);
        on.s.synchronize();
        CHECK(host == std::vector{0, 1, 2});
    }
    CHECK(on.pool.stats().requested == 0);
}

TEST_CASE("RMM's containers use a cuota pool that is the current device resource", "[interop][rmm][gpu]") {
    scene on;
    auto const before = rmm::mr::set_current_device_resource(to_rmm(on.pool));
    {
        rmm::device_uvector<int> const x{100, on.theirs()};
        CHECK(on.pool.stats().requested == 400);
    }
    rmm::mr::set_current_device_resource(before);
    CHECK(on.pool.stats().requested == 0);
}

TEST_CASE("a refusal becomes RMM's out_of_memory with cuota's text and the refusal nested",
          "[interop][rmm][gpu]") {
    scene on;
    auto const refused = thrown<cuota::rmm_out_of_memory>([&] {
        rmm::device_buffer const x{100_MiB, on.theirs(), to_rmm(on.pool, "activations")};
    });
    std::string const text = refused.what();
    CHECK(text.find("out_of_memory") != std::string::npos);
    CHECK(text.find("cuota::budget_exceeded: cannot allocate 100.0 MiB") != std::string::npos);
    CHECK(text.find("activations") != std::string::npos);
    CHECK(refused.refused().info().requested == 100_MiB);
    CHECK_THROWS_AS(std::rethrow_if_nested(refused), cuota::budget_exceeded);
    CHECK(on.account.last_refusal()->info().requested == 100_MiB);

    auto mr = to_rmm(on.pool);
    CHECK_THROWS_AS(mr.allocate_sync(100_MiB), rmm::out_of_memory);
    CHECK_THROWS_AS(mr.allocate_sync(100_MiB), rmm::bad_alloc);
    CHECK_THROWS_AS(mr.allocate_sync(100_MiB), std::bad_alloc);
}

TEST_CASE("RMM's adaptors can use a cuota budget", "[interop][rmm][gpu]") {
    scene on;
    auto const ours = to_rmm(cuota::budgeted<>{on.account});
    {
        rmm::mr::limiting_resource_adaptor limited{ours, 1_MiB};
        rmm::device_buffer const x{1000, on.theirs(), limited};
        CHECK(limited.get_allocated_bytes() == 1024);
        CHECK(on.account.held() == 1024);
        CHECK_THROWS_AS(rmm::device_buffer(2_MiB, on.theirs(), limited), rmm::out_of_memory);

        rmm::mr::pool_memory_resource pool{ours, 1_MiB};
        rmm::device_buffer const y{1000, on.theirs(), pool};
        CHECK(on.account.held() == 1024 + 1_MiB);
        CHECK_THROWS_AS(rmm::device_buffer(8_MiB, on.theirs(), pool), rmm::out_of_memory);
        CHECK(on.account.last_refusal()->info().requested == 8_MiB);  // RMM's pool does not pass this on
    }
    CHECK(on.account.held() == 0);
}

TEST_CASE("RMM's resources have the properties of a cuota resource", "[interop][rmm][gpu]") {
    SECTION("of the driver") { support::behaves_as_a_resource(from_rmm(rmm::mr::cuda_memory_resource{})); }
    SECTION("of the driver's pool") {
        support::behaves_as_a_resource(
            from_rmm(rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{}, 1_MiB, 64_MiB}));
    }
    SECTION("type-erased") {
        support::behaves_as_a_resource(
            from_rmm(cuda::mr::any_resource<cuda::mr::device_accessible>{rmm::mr::cuda_memory_resource{}}));
    }
    SECTION("under a cuota budget and pool") {
        cuota::budget const account{"theirs", 64_MiB};
        cuota::scoped_pool const pool{account, from_rmm(rmm::mr::cuda_memory_resource{})};
        support::behaves_as_a_resource(pool.resource());
    }
    SECTION("a cuota pool, converted and back") {
        cuota::scoped_pool const pool{cuota::budget{"own", 64_MiB}};
        support::behaves_as_a_resource(from_rmm(to_rmm(pool)));
    }
}

TEST_CASE("a refusal by RMM becomes cuota's refusal with RMM's text", "[interop][rmm][gpu]") {
    auto limited = from_rmm(rmm::mr::limiting_resource_adaptor{rmm::mr::cuda_memory_resource{}, 1_MiB});
    auto const refused =
        thrown<cuota::out_of_memory>([&] { (void)limited.allocate_sync(2_MiB, 256, {"weights"}); });
    CHECK(refused.info().requested == 2_MiB);
    CHECK(refused.info().request.name == cuota::tag{"weights"});
    CHECK(refused.info().cause.find("Exceeded memory limit") != std::string::npos);
}

TEST_CASE("a refusal by cuota passes through RMM unchanged", "[interop][rmm][gpu]") {
    cuota::budget const account{"small", 10_KiB};
    auto back = from_rmm(to_rmm(cuota::budgeted<>{account}));
    auto const refused =
        thrown<cuota::budget_exceeded>([&] { (void)back.allocate_sync(1_MiB, 256, {"weights"}); });
    CHECK(refused.info().request.name == cuota::tag{"weights"});
    CHECK(refused.info().refusing_budget()->name == "small");
}
