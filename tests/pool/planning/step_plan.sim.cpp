// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests that need the simulator: which calls are made, what happens when they fail, and what a missing wait would cause.
#include <cuota/pool/planning/step_plan.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/step_program.hpp"

using namespace cuota::literals;
using support::calls_since;

namespace simulator = cuota::simulator;

namespace {

/// Changes a step at random: other sizes, other streams, releases left out, or an early end.
std::vector<support::step_action> deviate(std::vector<support::step_action> step, std::mt19937_64& random,
                                          std::size_t streams) {
    std::size_t const changes = support::pick(random, 0, 3);
    for (std::size_t i = 0; i != changes; ++i) {
        auto& a = step[support::pick(random, 0, step.size() - 1)];
        switch (support::pick(random, 0, 4)) {
            case 0:
                if (a.takes) a.number += 512;
                break;
            case 1: a.stream = support::pick(random, 0, streams - 1); break;
            case 2:
                if (!a.takes) step.erase(step.begin() + (&a - step.data()));  // the block outlives the step
                break;
            case 3: step.resize(support::pick(random, 1, step.size())); break;
            default: break;
        }
    }
    return step;
}

/// Runs 60 steps, of which about half deviate from the recorded one.
cuota::step_plan_stats run_program(std::uint64_t seed, std::size_t streams) {
    std::mt19937_64 random{seed};
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<cuota::stream> lanes(streams);
    void* const wrong = pool.allocate(lanes[0], 4);
    cuota::rt::fill_bytes(wrong, 0, 4, lanes[0]);
    lanes[0].synchronize();
    cuota::step_plan plan{pool};
    support::step_program program{plan, lanes, static_cast<support::word*>(wrong)};
    auto const step = support::random_step(random, 30, streams);
    for (int i = 0; i != 60; ++i) {
        if (i == 40) plan.rerecord();
        auto const scope = plan.begin();
        if (i != 0 && random() % 4 == 0) program.take(1'000'000 + static_cast<std::size_t>(i), 1024, 0);
        program.run(i == 0 || random() % 2 == 0 ? step : deviate(step, random, streams));
        program.give_all_but(i == 0 ? 0 : support::pick(random, 0, 3));
    }
    program.give_all_but(0);
    cuota::device::current().synchronize();
    CHECK(support::words(lanes[0], wrong, 4)[0] == 0);
    pool.deallocate(lanes[0], wrong, 4);
    auto const stats = plan.stats();
    CHECK(stats.live == 0);
    CHECK(stats.steps == 60);
    return stats;
}

}  // namespace

TEST_CASE("random programs on a step_plan never share bytes and have no races", "[pool][step_plan]") {
    std::size_t const streams = GENERATE(1U, 2U, 5U);
    cuota::step_plan_stats all;
    for (std::uint64_t seed = 1; seed != 4; ++seed) {
        support::machine const machine;
        INFO("seed " << seed << ", " << streams << " streams");
        auto const stats = run_program(seed, streams);
        CHECK(simulator::misuse().races == 0);
        CHECK((streams == 1) == (stats.stream_waits == 0));
        CHECK(stats.served > 300);
        for (auto const count :
             {&cuota::step_plan_stats::served, &cuota::step_plan_stats::missed_busy,
              &cuota::step_plan_stats::missed_size, &cuota::step_plan_stats::missed_beyond_plan,
              &cuota::step_plan_stats::skipped})
            all.*count += stats.*count;
    }
    INFO(all.served << ' ' << all.missed_busy << ' ' << all.missed_size << ' ' << all.missed_beyond_plan
                    << ' ' << all.skipped);
    CHECK(all.missed_busy > 20);
    CHECK(all.missed_size > 5);
    CHECK(all.missed_beyond_plan > 0);
    CHECK(all.skipped > 20);
}

namespace {

/// Allocates and frees 40 blocks, of which two are live at once.
void work(cuota::step_plan& plan, cuota::stream_ref s) {
    auto const scope = plan.begin();
    cuota::step_resource memory = plan.resource();
    void* before = memory.allocate(s, 4_KiB);
    for (std::size_t i = 1; i != 40; ++i) {
        void* const p = memory.allocate(s, 4_KiB * (i + 1));
        memory.deallocate(s, before, 4_KiB * i);
        before = p;
    }
    memory.deallocate(s, before, 4_KiB * 40);
}

}  // namespace

TEST_CASE("a planned step makes no CUDA call on one stream", "[pool][step_plan]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const stream;
    cuota::step_plan plan{pool};
    work(plan, stream);
    work(plan, stream);
    calls_since const calls;
    for (int i = 0; i != 5; ++i) work(plan, stream);
    CHECK(calls.count() == 0);
    CHECK(plan.stats().served == 6 * 40);
    CHECK(plan.stats().peak == 4_KiB * 79);
}

TEST_CASE("bytes that pass to another stream wait for their previous user, within a step and across steps",
          "[pool][step_plan]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const a;
    cuota::stream const b;
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    bool const on_other = GENERATE(false, true);  // the second stream frees the first stream's block
    {
        auto const scope = plan.begin();
        for (cuota::stream const* s : {&a, &b}) memory.deallocate(*s, memory.allocate(*s, 1_MiB), 1_MiB);
    }
    plan.prepare();
    void* first = nullptr;
    {
        auto const scope = plan.begin();
        first = memory.allocate(a, 1_MiB);
        support::gate gate{a};
        support::write_words(a, first, 1_MiB, 1);
        if (on_other) b.wait(cuota::event{a});
        calls_since const host_waits{"cudaEventSynchronize"};
        memory.deallocate(on_other ? b : a, first, 1_MiB);
        void* const second = memory.allocate(b, 1_MiB);
        REQUIRE(second == first);
        support::write_words(b, second, 1_MiB, 2);
        support::let_ready_work_run();
        CHECK_FALSE(b.is_idle());
        CHECK(host_waits.count() == 0);
        CHECK(plan.stats().stream_waits == (on_other ? 0 : 1));
        gate.open();
        CHECK(support::all_are(support::words(b, second, 1_MiB), 2));
        memory.deallocate(b, second, 1_MiB);
    }
    // Bytes that b has used at the end of a step belong to a at the beginning of the next.
    support::gate gate{b};
    support::write_words(b, first, 1_MiB, 3);
    auto const waits = plan.stats().stream_waits;
    {
        auto const scope = plan.begin();
        void* const p = memory.allocate(a, 1_MiB);
        REQUIRE(p == first);
        CHECK(plan.stats().stream_waits == waits + 1);
        support::write_words(a, p, 1_MiB, 4);
        support::let_ready_work_run();
        CHECK_FALSE(a.is_idle());
        gate.open();
        CHECK(support::all_are(support::words(a, p, 1_MiB), 4));
        memory.deallocate(a, p, 1_MiB);
    }
}

TEST_CASE("two steps in flight on delayed streams do not share bytes", "[pool][step_plan]") {
    support::machine const machine;
    simulator::set_schedule(simulator::schedule::late, 3);
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<cuota::stream> const streams(2);
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    std::vector<void*> sums;
    for (int i = 0; i != 4; ++i) sums.push_back(pool.allocate(streams[0], 4_KiB));
    for (std::size_t i = 0; i != 4; ++i) {
        auto const scope = plan.begin();
        void* const x = memory.allocate(streams[i % 2], 4_KiB);
        support::write_words(streams[i % 2], x, 4_KiB, static_cast<support::word>(10 + i));
        cuota::rt::copy_on_device(sums[i], x, 4_KiB, streams[i % 2]);
        memory.deallocate(streams[i % 2], x, 4_KiB);
    }
    CHECK(plan.stats().served == 3);
    for (std::size_t i = 0; i != 4; ++i) {
        CHECK(support::all_are(support::words(streams[i % 2], sums[i], 4_KiB),
                               static_cast<support::word>(10 + i)));
        pool.deallocate(streams[0], sums[i], 4_KiB);
    }
}

TEST_CASE("a step_plan survives the failure of any CUDA call, and leaks nothing", "[pool][step_plan]") {
    support::machine machine;
    auto const failures = support::survives_every_failure(machine, [] {
        cuota::budget const budget{"trainer", 64_MiB};
        cuota::scoped_pool pool{budget, cuota::async_memory{}};
        cuota::stream const a;
        cuota::stream const b;
        {
            cuota::step_plan plan{pool};
            cuota::step_resource memory = plan.resource();
            for (int i = 0; i != 4; ++i) {
                auto const scope = plan.begin();
                for (cuota::stream const* s : {&a, &b})
                    memory.deallocate(*s, memory.allocate(*s, 1_MiB), 1_MiB);
                if (i == 2) memory.deallocate(b, memory.allocate(a, 3_MiB), 3_MiB);
            }
            CHECK(plan.stats().live == 0);
        }
        CHECK(pool.stats().requested == 0);
    });
    CHECK(failures.thrown > 5);
}

TEST_CASE("a request whose wait fails leaves a step_plan unchanged", "[pool][step_plan]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const a;
    cuota::stream const b;
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    for (int i = 0; i != 2; ++i) {
        auto const scope = plan.begin();
        memory.deallocate(a, memory.allocate(a, 1_MiB), 1_MiB);
        if (i == 1) {
            simulator::fail_call("cudaStreamWaitEvent", 1, cudaErrorUnknown);
            REQUIRE_THROWS_AS(memory.allocate(b, 2_MiB), cuota::cuda_error);
            simulator::clear_faults();
            CHECK(plan.stats().served == 1);
            CHECK(plan.stats().live == 0);
        }
        void* const p = memory.allocate(b, 2_MiB);
        memory.deallocate(b, p, 2_MiB);
    }
    CHECK(plan.stats().served == 2);
    CHECK(plan.stats().fallbacks() == 0);
}

TEST_CASE("a planned block freed on a native stream can be reused after that stream was destroyed",
          "[pool][step_plan]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const next;
    cuota::step_plan plan{pool};
    cuota::step_resource memory = plan.resource();
    for (int i = 0; i != 3; ++i) {
        auto const scope = plan.begin();
        cudaStream_t native = nullptr;
        REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
        void* const p = memory.allocate(native, 1_MiB);
        support::write_words(native, p, 1_MiB, 1);
        memory.deallocate(native, p, 1_MiB);
        REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
        void* const q = memory.allocate(next, 1_MiB);
        support::write_words(next, q, 1_MiB, 2);
        CHECK(support::all_are(support::words(next, q, 1_MiB), 2));
        memory.deallocate(next, q, 1_MiB);
    }
    CHECK(plan.stats().served == 4);
}

TEST_CASE("threads may share a step, and their blocks do not overlap", "[pool][step_plan]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::step_plan plan{pool};
    for (int i = 0; i != 10; ++i) {
        auto const scope = plan.begin();
        std::vector<std::thread> threads;
        std::vector<char> right(3, 1);
        for (std::size_t t = 0; t != right.size(); ++t)
            threads.emplace_back([&, t] {
                cuota::stream const own;
                cuota::step_resource memory = plan.resource();
                for (std::size_t j = 0; j != 10; ++j) {
                    std::size_t const bytes = 1_KiB * (1 + (j + t) % 5);
                    void* const p = memory.allocate(own, bytes);
                    auto const value = static_cast<support::word>(100 * t + j);
                    support::write_words(own, p, bytes, value);
                    if (!support::all_are(support::words(own, p, bytes), value)) right[t] = 0;
                    memory.deallocate(own, p, bytes);
                }
            });
        for (std::thread& t : threads) t.join();
        CHECK(right == std::vector<char>(3, 1));
    }
    auto const stats = plan.stats();
    CHECK(stats.recorded == 30);
    CHECK(stats.served + stats.fallbacks() == 270);
    CHECK(stats.live == 0);
}
