// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/dry_run.hpp>

#include <random>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::any_resource;
using cuota::budget;
using cuota::device_buffer;
using cuota::dry_run;
using cuota::no_init;
using cuota::usage_report;

namespace {

// Allocates and frees uninitialized buffers on two streams at random.
void churn(any_resource memory, unsigned seed) {
    std::mt19937 random{seed};
    cuota::stream const streams[2];
    std::vector<device_buffer<char>> live;
    for (int step = 0; step != 300; ++step) {
        if (live.empty() || random() % 5 < 3) {
            std::size_t const bytes = random() % 20'000;
            live.emplace_back(bytes, streams[random() % 2], memory, no_init,
                              random() % 2 ? cuota::tag{"weights"} : cuota::tag{"scratch"},
                              cuota::source_location{});
        } else {
            std::swap(live[random() % live.size()], live.back());
            live.pop_back();
        }
    }
}

}  // namespace

TEST_CASE("a dry run makes no CUDA call and allocates nothing on the device", "[guard][dry_run]") {
    support::machine const sim{{1, 64_MiB}};
    support::calls_since const calls;
    usage_report const seen = dry_run([](auto& memory) {
        void* const p = memory.allocate_sync(1_GiB, 256, {"weights"});
        void* const q = memory.allocate(cudaStreamPerThread, 1_GiB);
        memory.deallocate(cudaStreamPerThread, q, 1_GiB);
        memory.deallocate_sync(p, 1_GiB);
    });
    CHECK(seen.peak == 2_GiB);
    budget b{"b", 1_GiB};
    CHECK(!seen.footprint().fits(b));
    CHECK_THROWS_AS(seen.footprint().check(b), cuota::budget_exceeded);
    CHECK(cuota::largest_batch_that_fits(b, 1, 8, [](std::size_t n, auto& memory) {
              memory.deallocate_sync(memory.allocate_sync(n * 300_MiB), n * 300_MiB);
          }).batch == 3);
    CHECK(calls.count() == 0);
}

TEST_CASE("a dry run has the same report as a run on the device", "[guard][dry_run]") {
    support::machine const sim{{1, 64_MiB}};
    for (unsigned seed = 0; seed != 5; ++seed) {
        INFO("seed " << seed);
        usage_report const dry = dry_run([&](any_resource memory) { churn(memory, seed); });
        usage_report const real =
            cuota::dry_run_on(cuota::device_memory{}, [&](any_resource memory) { churn(memory, seed); });
        CHECK(dry.text() == real.text());
        CHECK(dry.peak == real.peak);
        CHECK(dry.footprint().text(0) == real.footprint().text(0));
        usage_report const async =
            cuota::dry_run_on(cuota::async_memory{}, [&](any_resource memory) { churn(memory, seed); });
        CHECK(async.text() == real.text());
    }
}

TEST_CASE("a pool allocates the same segments in a dry run as on the device", "[guard][dry_run]") {
    support::machine const sim{{1, 64_MiB}};
    auto const in_a_pool = [](any_resource memory) {
        cuota::scoped_pool pool{memory};
        cuota::stream const stream;
        for (std::size_t i = 1; i != 50; ++i) {
            device_buffer<char> const a{i * 1000, stream, pool, no_init};
            device_buffer<char> const b{50'000 - i * 999, stream, pool, no_init};
        }
    };
    usage_report const dry = dry_run(in_a_pool);
    usage_report const real = cuota::dry_run_on(cuota::device_memory{}, in_a_pool);
    CHECK(dry.text() == real.text());
    CHECK(dry.live.empty());
}

TEST_CASE("filling dry_run_memory throws a cuda_error, and the stream stays usable", "[guard][dry_run]") {
    support::machine const sim{{1, 64_MiB}};
    cuota::stream const stream;
    CHECK_THROWS_AS(dry_run([&](any_resource memory) {
                        device_buffer<float> const zeros{1000, stream, memory};
                    }),
                    cuota::cuda_error);
    CHECK_NOTHROW(stream.synchronize());
}

TEST_CASE("a dry run on a device that is too small throws its refusal and leaks nothing",
          "[guard][dry_run]") {
    support::machine const sim{{1, 1_MiB}};
    cuota::stream const stream;
    auto const refused = support::thrown<cuota::out_of_memory>([&] {
        (void)cuota::dry_run_on(cuota::device_memory{}, [&](any_resource memory) {
            device_buffer<char> const a{512_KiB, stream, memory};
            device_buffer<char> const b{1_MiB, stream, memory, "activations"};
        });
    });
    CHECK(refused.info().request.name == cuota::tag{"activations"});
    CHECK(cuota::simulator::live().device_bytes == 0);
}

TEST_CASE("a dry run on the device reports the failure of any CUDA call and leaks nothing",
          "[guard][dry_run]") {
    support::machine sim{{1, 64_MiB}};
    cuota::stream const stream;
    auto const seen = support::survives_every_failure(sim, [&] {
        usage_report const r = cuota::dry_run_on(cuota::device_memory{}, [&](any_resource memory) {
            device_buffer<int> const a{1000, 7, stream, memory, "weights"};
            device_buffer<int> const b = a.clone(stream);
        });
        if (r.peak != 8192) FAIL("a peak of " << r.peak);
    });
    CHECK(seen.thrown > 0);
    CHECK(seen.silent == 0);
}
