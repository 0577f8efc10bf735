// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of README.md. Those that need Thrust and CCCL are in README_cccl.sim.cpp; programs that it quotes are driven by
// tests/examples/readme.py.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <cuota/interop/cub.hpp>
#include <cuota/report/diagnosis.hpp>
#include <cuota/report/recorder.hpp>
#include <cuota/report/summary.hpp>
#include <cuota/report/timeline.hpp>
#include <cuota/training/chain_plan.hpp>
#include <cuota/training/checkpointed.hpp>
#include <cuota/training/measure_stages.hpp>
#include <cuota/training/thread_ranks.hpp>

#include "docs/page.hpp"
#include "interop/reversed_in_two_phases.hpp"

namespace {

using namespace cuota::literals;
using namespace std::chrono_literals;

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

namespace cub {

/// In CUB's place, which g++ does not compile. examples/one_budget.cpp has CUB itself, where nvcc compiles it.
struct DeviceScan {
    static cudaError_t InclusiveSum(void* scratch, std::size_t& bytes, int const*, int* to, int count,
                                    cudaStream_t stream) {
        return support::reverse(scratch, bytes, {to, static_cast<std::size_t>(count)}, stream);
    }
};

}  // namespace cub

TEST_CASE("README: CUB's scratch is the pool's", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr int n = 1000;
    cuota::device_buffer<int> out{std::vector<int>{1, 2, 3}, stream, pool};
    out.resize(n);
    {
        auto const lease = out.write(stream);
        int const* const from = nullptr;
        int* const to = lease.span().data();
#include "README/cub.inc"
    }
    CHECK(out.to_vector(stream)[n - 1] == 1);
    CHECK(pool.stats().peak_requested >= 2 * n * sizeof(int));
}

TEST_CASE("README: a graph's memory is its own", "[docs]") {
    cuota::budget const budget{"device", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    cuota::device_buffer<float> x{1000, 1.0f, stream, pool};
    auto const train_step = [&](cuota::stream const& s, cuota::scoped_pool& from) {
        cuota::device_buffer<float> scratch{1000, s, from};
        cuota::for_each_index(s, x.size(), twice{x.write(s)});
    };
#include "README/graph.inc"
    CHECK(x.to_vector(stream)[0] == 2.0f);
}

TEST_CASE("README: ranks share each step", "[docs]") {
    constexpr std::size_t gpus = 2;
    constexpr std::size_t rank = 0;
    cuota::memory_source const source{"numbers", std::vector<float>(512, 1.0f)};
#include "README/ranks.inc"
    CHECK(loader.epoch(0).next()->size() == 64);
}

TEST_CASE("README: a chain runs in the room that there is", "[docs]") {
    cuota::budget const budget{"device", 8_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr std::size_t n = 100'000;
    std::vector<cuota::checkpoint_stage> stages(8);
    for (auto& s : stages) {
        s.output_bytes = n * sizeof(float);
        s.forward = [](cuota::stage_run const& run) {
            cuota::for_each_index(run.stream(), n, twice{run.output<float>()});
        };
        s.backward = [](cuota::stage_run const& run) {
            auto const to = run.input_gradient<float>();
            cuota::for_each_index(run.stream(), to.size(), twice{to});
        };
    }
    cuota::device_buffer<float> const values{n, stream, cuota::device_memory{}, "input"};
    auto const lease = values.read(stream);
    cuota::device_span<float const> const input = lease;
    std::uint64_t const step = 1;
    using namespace cuota;
#include "README/chain.inc"
    CHECK(net.peak() <= 4_MiB);
}

TEST_CASE("README: a recording is shown and judged", "[docs]") {
    page::inside const here;
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::stream const stream;
    auto const train = [&](cuota::budget const& account) {
        cuota::scoped_pool pool{account, {.name = "network"}};
        cuota::device_buffer<float> const weights{1000, stream, pool, "weights"};
    };
    std::string const seen_on_screen = page::printed([&] {
#include "README/look.inc"
    });
    CHECK(seen_on_screen.find("trainer") != std::string::npos);
    CHECK(std::filesystem::file_size("train.html") > 1000);
}

}  // namespace
