// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// An error sink that uses the pool whose failure it receives.

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/frame.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/simulator.hpp>

#include "support/asking_sink.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

namespace simulator = cuota::simulator;
using namespace cuota::literals;

namespace {

auto questions(cuota::scoped_pool& pool, cuota::budget& account) {
    return [&pool, &account] {
        (void)pool.stats();
        (void)pool.largest_free();
        (void)pool.stats_by_tag();
        try {
            if (account.try_charge(1)) account.refund(1);
            cuota::stream s;
            pool.deallocate(s, pool.allocate(s, 100'000), 100'000);
            (void)pool.trim(1_MiB);
        } catch (std::exception const&) {  // the device fails
        }
    };
}

// A native stream of other code; the library does not own it.
class native_stream {
public:
    native_stream() {
        cuota::rt::check(cudaStreamCreateWithFlags(&s_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    native_stream(native_stream const&) = delete;
    native_stream& operator=(native_stream const&) = delete;
    ~native_stream() {
        if (cudaStreamDestroy(s_) != cudaSuccess) (void)cudaStreamDestroy(s_);
        (void)cudaGetLastError();
    }
    operator cuota::stream_ref() const noexcept { return cuota::stream_ref{s_}; }

private:
    cudaStream_t s_ = nullptr;
};

void take_and_give(cuota::scoped_pool& pool, cuota::stream_ref s, std::size_t bytes) {
    pool.deallocate(s, pool.allocate(s, bytes), bytes);
}

}  // namespace

TEST_CASE("an error sink may use the pool, whichever of its CUDA calls has failed", "[pool][sink]") {
    support::machine sim;
    auto const seen = support::survives_every_failure(sim, [] {
        cuota::budget account{"b", 64_MiB};
        cuota::scoped_pool pool{account};
        support::asking_sink const sink{questions(pool, account)};
        native_stream const native;
        {
            cuota::stream const keep;
            std::optional<cuota::stream> brief{std::in_place};
            take_and_give(pool, *brief, 400'000);
            take_and_give(pool, keep, 400'000);
            brief.reset();
            cuota::stream const t;  // takes over the order's slot of brief
            take_and_give(pool, t, 400'000);
            take_and_give(pool, native, 400'000);
            (void)pool.stats();
            {
                cuota::frame f = pool.frame();
                (void)f.allocate(t, 5'000);
                (void)f.allocate(keep, 5'000);
            }
            take_and_give(pool, t, 3_MiB);
        }
        pool.trim();
    });
    CHECK(seen.reported > 0);
}

// Planned steps make CUDA calls in a section of the plan's biased lock; their errors reach the sink after it.
TEST_CASE("an error sink may use a step_plan, its pool and its budget, whichever CUDA call has failed",
          "[pool][sink]") {
    support::machine sim;
    auto const seen = support::survives_every_failure(sim, [] {
        cuota::budget account{"b", 64_MiB};
        cuota::scoped_pool pool{account};
        cuota::step_plan plan{pool};
        cuota::step_resource memory = plan.resource();
        support::asking_sink const sink{[&] {
            (void)plan.stats();
            questions(pool, account)();
            try {
                memory.deallocate_sync(memory.allocate_sync(100'000), 100'000);
            } catch (std::exception const&) {  // the device fails
            }
        }};
        cuota::stream const a;
        cuota::stream const b;
        native_stream const native;
        auto const step = [&] {
            auto const scope = plan.begin();
            for (cuota::stream_ref const s :
                 {cuota::stream_ref{a}, cuota::stream_ref{b}, cuota::stream_ref{native}})
                memory.deallocate(s, memory.allocate(s, 400'000), 400'000);
        };
        step();
        plan.prepare();
        step();
        step();
        plan.rerecord();
        step();
    });
    CHECK(seen.reported > 0);
}

TEST_CASE("an error sink may use the pool when a block is freed on a lost device", "[pool][sink]") {
    support::machine sim;
    {
        cuota::budget account{"b", 64_MiB};
        cuota::scoped_pool pool{account};
        cudaStream_t native = nullptr;
        REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
        void* const p = pool.allocate(cuota::stream_ref{native}, 400'000);
        support::asking_sink const sink{questions(pool, account)};
        simulator::lose_device(0);
        pool.deallocate(cuota::stream_ref{native}, p, 400'000);
        CHECK(!sim.errors.take().empty());
        (void)cudaStreamDestroy(native);
        (void)cudaGetLastError();
    }
    (void)sim.errors.take();
    sim.reset();
    (void)cudaGetLastError();
}

TEST_CASE("an error sink may exit a program that has a static pool", "[pool][sink]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("an error sink may exit a program that has a static pool", 7)) return;
    static cuota::budget account{"b", 64_MiB};
    static cuota::scoped_pool pool{account};
    cuota::set_error_sink([](std::exception const&) { std::exit(7); });
    cuota::stream const keep;
    std::optional<cuota::stream> brief{std::in_place};
    take_and_give(pool, *brief, 400'000);
    take_and_give(pool, keep, 400'000);
    brief->synchronize();
    keep.synchronize();
    brief.reset();
    simulator::fail_call("cudaEventDestroy", 1);
    cuota::stream const t;  // takes over the slot, with an event that cannot be destroyed
    take_and_give(pool, t, 400'000);
    std::exit(1);  // the sink was not called
}

TEST_CASE("a budget alert that a trim triggers may allocate from the pool", "[pool][sink]") {
    support::machine const sim;
    cuota::budget source{"source", 8_MiB};
    cuota::budget account{"pool", 4_MiB};
    cuota::scoped_pool pool{
        account, cuota::any_resource{cuota::budgeted{source, cuota::device_memory{}}}, {}};
    cuota::stream const s;
    void* kept = nullptr;
    int refused = 0;
    cuota::budget_alert const all_clear{source,
                                        {cuota::alert_threshold{std::size_t{2_MiB}}},
                                        std::size_t{1},
                                        [&](cuota::alert_event const& e) {
                                            if (e.rising || kept) return;
                                            try {
                                                kept = pool.allocate(s, 3_MiB);
                                            } catch (cuota::out_of_memory const&) { ++refused; }
                                        },
                                        {.falling = true}};
    take_and_give(pool, s, 3_MiB);
    s.synchronize();
    pool.trim();
    CHECK((kept != nullptr || refused != 0));
    if (kept) pool.deallocate(s, kept, 3_MiB);
    take_and_give(pool, s, 3_MiB);  // the pool still works
    s.synchronize();
}
