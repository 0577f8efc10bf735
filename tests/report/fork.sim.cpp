// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Objects of every kind that a program may have when it forks: in the child they are destroyed, explicitly and by exit.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/pool_step.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/export/live_view.hpp>
#include <cuota/report/export/refusal_log.hpp>
#include <cuota/report/recording/recorded.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/traffic.hpp"

using namespace cuota::literals;

namespace {

struct owners {
    explicit owners(std::FILE* to) : out{to} {}

    std::FILE* out;
    cuota::budget account{"program", 256_MiB};
    cuota::scoped_pool pool{account};
    cuota::recorder recorder{account};
    cuota::live_view view{out,
                          [this] { return cuota::snapshot_of(account); },
                          {.plain = true, .interval = std::chrono::milliseconds{1}}};
    cuota::refusal_log log{out};
    cuota::stream home{};
    cuota::stream other{};
    cuota::device_buffer<float> weights{10'000, 1.0F, home, pool};
    cuota::device_buffer<float> plain{1'000, 1.0F, home, cuota::device_memory{}};
    std::optional<decltype(weights.read(other))> lease{weights.read(other)};
    cuota::mirrored_buffer<float> both{100, home, pool};
    cuota::pinned_buffer<float> pinned{100, account};
    cuota::staging_ring ring{2, 4096, account};
    std::optional<cuota::staging_ring::staging_slot> slot{ring.acquire()};
    cuota::pending_copy<float> coming{cuota::download(plain, home)};
    cuota::graph_exec graph = cuota::capture(home, [this] {
        cuota::device_buffer<float> const x{500, 0.0F, home, pool};
    });
    cuota::guarded<cuota::device_memory> guarded{};
    cuota::device_buffer<float> in_fences{100, 1.0F, home, guarded};
    cuota::measured<cuota::device_memory> measured{};
    cuota::device_buffer<float> counted{100, 1.0F, home, measured};
    cuota::recorded<cuota::device_memory> seen{cuota::device_memory{}, recorder};
    cuota::device_buffer<float> on_record{100, 1.0F, home, seen};
    cuota::step_plan plan{cuota::any_resource{pool}};
    std::optional<cuota::step_scope> planned{plan.begin()};
    cuota::device_buffer<float> in_plan{100, 1.0F, home, plan.resource()};
    cuota::pool_step step = pool.begin_step();
    cuota::batch_loader loader{cuota::memory_dataset{"m", std::vector<float>(400, 1.0F)},
                               {.batch_size = 4, .workers = 2}};
    std::optional<cuota::epoch_range> epoch{loader.epoch(0)};
    std::optional<cuota::batch> batch{epoch->next()};
};

// Allocates streams and buffers, and queries figures, in a loop.
class traffic : support::traffic {
public:
    explicit traffic(owners& of)
        : support::traffic{10, [&of](std::size_t) {
                               cuota::stream const s;
                               cuota::device_buffer<float> const x{50'000, s, of.pool, cuota::no_init};
                               (void)cuota::snapshot_of(of.account);
                           }} {}
};

}  // namespace

TEST_CASE("no object that exists at a fork calls CUDA or reports an error in the child", "[report][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    std::FILE* const out = std::tmpfile();
    REQUIRE(out);
    {
        owners all{out};
        traffic const beside{all};
        for (int i = 0; i != 5; ++i) {
            int const status = support::status_of_ends_in_child([&] { all.~owners(); });
            CHECK(status == 0);
        }
    }
    std::fclose(out);
}

TEST_CASE("in a child, requests to report objects of the parent throw usage_error", "[report][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    std::FILE* const out = std::tmpfile();
    REQUIRE(out);
    {
        owners all{out};
        cuota::memory_snapshot const seen = cuota::snapshot_of(all.account);
        traffic const beside{all};
        for (int i = 0; i != 5; ++i) {
            int const status = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
                ask.refuses("snapshot_of", [&] { (void)cuota::snapshot_of(all.account); });
                ask.refuses("recorder::read", [&] { (void)all.recorder.read(); });
                ask.refuses("recorder::mark", [&] { all.recorder.mark("a text that was never seen"); });
                ask.refuses("recorder::watch", [&] { all.recorder.watch(cuota::budget{"own", 1000}); });
                ask.refuses("recorded::allocate", [&] { (void)all.seen.allocate(all.home, 1000, 256); });
                ask.refuses("live_view::draw", [&] { all.view.draw(seen); });
                cuota::refusal const none{};
                ask.reports("refusal_log::write", [&] { all.log.write(none); });
                ask.reports("refusal_log::flush", [&] { all.log.flush(); });
                ask.expect("nothing was logged", all.log.count().lines == 0);
                cuota::budget own{"own", 1000};
                ask.expect("what it makes itself works", cuota::snapshot_of(own).budgets.size() == 1);
            });
            CHECK(status == 0);
        }
    }
    std::fclose(out);
}

TEST_CASE("a child that has every kind of static owner exits normally", "[report][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a child that has every kind of static owner exits normally")) return;
    static owners all{std::tmpfile()};
    int wrong = 0;
    {
        traffic const beside{all};
        for (int i = 0; i != 20; ++i) wrong += support::status_of_child([] { std::exit(0); }) != 0;
    }
    std::exit(wrong == 0 ? 0 : 1);
}
