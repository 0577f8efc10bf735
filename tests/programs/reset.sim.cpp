// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Foreign code that takes the device or a stream away under all kinds of owners: uses are errors with a type, ends are reported, accounts
// come to nothing, and a program may begin anew.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace {

using words = cuota::device_buffer<word>;

struct owners {
    explicit owners(cuota::budget const& to) : account{to} {
        for (word& w : both.overwrite_host()) w = 1;
        (void)both.read(s);
        graph.emplace(cuota::capture(s, [this] { words const scratch{100, s, pages}; }));
        graph->launch(s);
        epoch.emplace(loader.epoch(0));
        batch = epoch->next();
        (void)batch->view<std::uint32_t>(s);
    }

    cuota::budget account;
    cuota::stream s{};
    cuota::scoped_pool pages{account};
    cuota::scoped_pool segments{account, {.growth = cuota::pool_growth::segments}};
    words of_pages{1'000, 1u, s, pages};
    words of_segments{1'000, 1u, s, segments};
    words of_driver{1'000, 1u, s, cuota::budgeted<cuota::device_memory>{account}};
    cuota::mirrored_buffer<word> both{1'000, s, pages.resource()};
    cuota::pinned_buffer<word> pinned{1'000, account};
    cuota::staging_ring ring{2, 4_KiB, account};
    cuota::step_plan plan{pages.resource()};
    // One batch: its worker writes nothing to pinned memory when that has gone.
    cuota::batch_loader loader{support::numbered_source{4},
                               {.batch_size = 4, .device_budget = account, .pinned_budget = account}};
    std::optional<cuota::graph_exec> graph{};
    std::optional<cuota::epoch_range> epoch{};
    std::optional<cuota::batch> batch{};
};

// The text of an error of cuota's; empty when there was none.
template <class F>
std::string error_of(F f) {
    try {
        f();
        return {};
    } catch (cuota::cuda_error const& e) { return e.what(); } catch (cuota::usage_error const& e) {
        return e.what();
    } catch (cuota::out_of_memory const& e) { return e.what(); }
}

}  // namespace

TEST_CASE("after a device reset, every use of an owner is an error, and all bytes are refunded",
          "[programs][reset]") {
    support::machine machine;
    cuota::budget const account{"account", 64_MiB};
    {
        owners all{account};
        REQUIRE(cudaDeviceReset() == cudaSuccess);

        CHECK(!error_of([&] { (void)all.of_pages.to_vector(all.s); }).empty());
        CHECK(!error_of([&] { (void)all.of_driver.write(cuota::stream{}); }).empty());
        CHECK(!error_of([&] { all.graph->launch(all.s); }).empty());
        CHECK(!error_of([&] { all.pinned.download(all.of_segments, all.s); }).empty());
        CHECK(!error_of([&] { words const fresh{1'000, 1u, all.s, all.pages}; }).empty());
        CHECK(!error_of([&] { all.both.evict_to_host(all.s); }).empty());
        CHECK(!error_of([&] { (void)all.batch->view<std::uint32_t>(all.s); }).empty());
    }
    CHECK(!machine.errors.take().empty());
    CHECK(account.held() == 0);

    owners again{account};
    CHECK(support::all_are(again.of_pages.to_vector(again.s), 1u));
}

TEST_CASE("after foreign code has destroyed a stream, every use of it is an error, and bytes are refunded",
          "[programs][reset]") {
    support::machine machine;
    cuota::budget const account{"account", 64_MiB};
    {
        owners all{account};
        REQUIRE(cudaStreamDestroy(all.s.get()) == cudaSuccess);

        CHECK(!error_of([&] { (void)all.of_pages.to_vector(all.s); }).empty());
        CHECK(!error_of([&] { all.graph->launch(all.s); }).empty());
        cuota::stream const other;
        (void)error_of([&] { (void)all.of_segments.to_vector(other); });
        (void)error_of([&] {
            words const fresh{1'000, 7u, other, all.pages};
            CHECK(support::all_are(fresh.to_vector(other), 7u));
        });
    }
    CHECK(!machine.errors.take().empty());
    CHECK(account.held() == 0);
}
