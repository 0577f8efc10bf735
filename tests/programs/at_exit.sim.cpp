// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Static and thread_local owners, which end after the statics that they were made of: those that are left work, and all comes back.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/numbered_source.hpp"
#include "support/sanitizer.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

using words = cuota::device_buffer<word>;

std::atomic<int> cuda_errors = 0;  // reported
thread_local std::optional<words> of_thread;

struct add {
    cuota::device_span<word> to;
    word by;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += by; }
};

void end_unless(bool right, int status) {
    if (!right) std::_Exit(status);
}

// Calls f at its end.
template <class F>
struct at_end {
    F f;
    ~at_end() { f(); }
};
template <class F>
at_end(F) -> at_end<F>;

// Statics in the order in which they begin; they end in the reverse order, and then the process, with status 0 when all was right.
[[noreturn]] void run() {
    cuota::set_error_sink([](std::exception const& e) {
        if (dynamic_cast<cuota::cuda_error const*>(&e)) ++cuda_errors;
    });
    static std::optional<cuota::budget> account{std::in_place, "statics", 64_MiB};
    static at_end const last{[] {
        end_unless(cuda_errors == 0, 2);
        end_unless(account->held() == 0, 3);
        end_unless(simulator::live().device_bytes == 0 && simulator::live().pinned_bytes == 0, 4);
        end_unless(simulator::misuse().total() == 0, 5);
        std::_Exit(0);
    }};
    static std::optional<words> buffer;
    static std::optional<cuota::mirrored_buffer<word>> both;
    static std::optional<cuota::graph_exec> graph;
    static std::optional<cuota::batch> batch;
    static std::optional<cuota::epoch_range> epoch;
    // Its destructor runs after those of the stream, the pool and the loader.
    static at_end const late{[] {
        try {
            account->charge(1_GiB, "too much");
            std::_Exit(6);
        } catch (cuota::budget_exceeded const& refused) {
            end_unless(std::string{refused.what()}.find("statics") != std::string::npos, 7);
        }
        cuota::scoped_pool pool{*account};
        cuota::stream const s;
        words const fresh{1'000, 3u, s, pool, "fresh"};
        graph->launch(s);
        end_unless(support::all_are(buffer->to_vector(s), 2u), 8);
        end_unless(support::all_are(fresh.to_vector(s), 3u), 9);
        end_unless(both->read_host()[0] == 5, 10);
        auto const seen = batch->view<std::uint64_t>(s, 1);
        std::vector<std::uint64_t> host(seen.size());
        cuota::rt::copy_to_host(host.data(), seen.data(), seen.bytes(), s);
        s.synchronize();
        end_unless(host[1] == 3 * batch->samples()[1], 11);
    }};
    static std::optional<cuota::stream> stream{std::in_place};
    static std::optional<cuota::scoped_pool> pool{std::in_place, *account};
    static std::optional<cuota::batch_loader> loader;
    static std::optional<cuota::pinned_buffer<word>> pinned{std::in_place, 1'000, *account};
    static cuota::staging_ring const ring{2, 4_KiB, *account};
    static std::optional<cuota::step_plan> plan{std::in_place, pool->resource()};
    static std::optional<cuota::recorder> recorder{std::in_place, *account};

    buffer.emplace(1'000, 1u, *stream, *pool, cuota::tag{"static"});
    both.emplace(500, *stream, pool->resource());
    std::ranges::fill(both->overwrite_host(), 1u);
    cuota::for_each_index(*stream, both->size(), add{both->write(*stream), 4});
    graph.emplace(cuota::capture(*stream, [] {
        words scratch{1'000, 1u, *stream, *pool, "scratch"};
        cuota::for_each_index(*stream, scratch.size(), add{scratch.write(*stream), 1});
        cuota::for_each_index(*stream, buffer->size(), add{buffer->write(*stream), 1});
    }));
    loader.emplace(
        support::numbered_source{100},
        cuota::loader_options{.batch_size = 10, .device_budget = *account, .pinned_budget = *account});
    epoch.emplace(loader->epoch(0));
    batch = epoch->next();
    for (int i = 0; i != 2; ++i) {
        auto const step = plan->begin();
        words const in_step{100, *stream, plan->resource()};
    }
    of_thread.emplace(1'000, 2u, *stream, *pool, cuota::tag{"of the main thread"});
    std::thread{[] { of_thread.emplace(1'000, 2u, *stream, *pool, cuota::tag{"of a thread"}); }}.join();
    std::exit(1);  // `last` says otherwise
}

}  // namespace

TEST_CASE("static owners may be destroyed after everything that they were created from",
          "[programs][at_exit]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (support::is_alone("static owners may be destroyed after*")) run();
}
