// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests that need the simulator: a release that cannot be recorded on its stream, and a slab that is freed only after all work on it.
#include <cuota/pool/detail/steps/step_server.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using cuota::detail::step_router;
using cuota::detail::step_server;

namespace simulator = cuota::simulator;

namespace {

struct served {
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::optional<step_server> server{std::in_place, pool};

    served() {
        cuota::planned_step step{{{{0, 1, 4_KiB}}}};
        cuota::detail::place_requests(step, {});
        server->take_slab(step, "slab");
        begin();
    }
    void begin() {
        server->with_router([](step_router& r) { r.begin_planned_step(); });
    }
    [[nodiscard]] std::size_t live() const {
        return server->with_router([](step_router const& r) { return r.stats().live; });
    }
};

}  // namespace

TEST_CASE("step_server waits for a free that cannot be recorded, and reports the error",
          "[pool][step_server]") {
    support::machine machine;
    served all;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
    std::size_t reported = 0;
    for (std::uint64_t nth = 1;; ++nth) {
        void* const p = all.server->allocate(native, 4_KiB, 256, {});
        support::write_words(native, p, 4_KiB, 7);
        simulator::fail_call(nullptr, nth, cudaErrorUnknown);
        auto const before = simulator::faults_injected();
        support::calls_since const host_waits{"cudaStreamSynchronize"};
        all.server->deallocate(native, p, 4_KiB, 256);
        bool const was_used = simulator::faults_injected() != before;
        simulator::clear_faults();
        auto const errors = machine.errors.take();
        std::size_t const told = errors.size();
        CHECK(all.live() == 0);
        if (told == 1 && errors.front().find("cudaThreadExchangeStreamCaptureMode") != std::string::npos) {
            CHECK(host_waits.count() == 0);  // the call is retried
            all.begin();
            continue;
        }
        if (!was_used) {
            CHECK(told == 0);
            CHECK(host_waits.count() == 0);
            break;
        }
        CHECK(told == 1);
        CHECK(host_waits.count() == 1);
        ++reported;
        all.begin();
        REQUIRE(reported < 20);
    }
    CHECK(reported > 0);
    REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
}

TEST_CASE("step_server frees its slab after the work on freed and on leaked blocks", "[pool][step_server]") {
    support::machine const machine;
    served all;
    cuota::stream const s;
    bool const is_given = GENERATE(true, false);
    void* const p = all.server->allocate(s, 4_KiB, 256, {});
    support::write_words(s, p, 4_KiB, 7);
    if (is_given) all.server->deallocate(s, p, 4_KiB, 256);
    support::calls_since const waits_for_releases{"cudaEventSynchronize"};
    support::calls_since const waits_for_all{"cudaDeviceSynchronize"};
    all.server.reset();
    CHECK(waits_for_releases.count() == (is_given ? 1 : 0));
    CHECK(waits_for_all.count() == (is_given ? 0 : 1));
    CHECK(all.pool.stats().live_blocks == 0);
}

TEST_CASE("step_server is unchanged by a request that the upstream refuses", "[pool][step_server]") {
    support::machine const machine;
    served all;
    cuota::stream const s;
    auto const before = all.pool.stats().requested;
    REQUIRE_THROWS_AS(all.server->allocate(s, 65_MiB, 256, {}), cuota::budget_exceeded);
    CHECK(all.pool.stats().requested == before);
    void* const p = all.server->allocate(s, 4_KiB, 256, {});
    CHECK(all.pool.stats().requested == before);
    all.server->deallocate(s, p, 4_KiB, 256);
}

TEST_CASE("destroying step_server waits for the device of its slab", "[pool][step_server]") {
    support::machine const machine{{2, 64_MiB}};
    simulator::set_schedule(simulator::schedule::late);
    std::atomic<bool> has_run = false;
    {
        std::optional<served> all;
        std::optional<cuota::stream> s;
        {
            cuota::device_scope const there{cuota::device{1}};
            all.emplace();
            s.emplace();
            (void)all->server->allocate(*s, 4_KiB, 256, {});  // never freed
            cuota::for_each_index(*s, 1, [&has_run](std::size_t) { has_run = true; });
        }
        REQUIRE(cuota::device::current().ordinal() == 0);
        REQUIRE_FALSE(has_run);

        all->server.reset();

        CHECK(has_run);
    }
    simulator::set_schedule(simulator::schedule::workers);
}
