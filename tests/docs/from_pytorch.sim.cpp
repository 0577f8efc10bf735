// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/from_pytorch.md.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/export/chrome_trace.hpp>
#include <cuota/report/export/memory_viz.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/export/timeline.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/training/batches/find_batch_size.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/batches/training_footprint.hpp>
#include <cuota/training/batches/with_retry.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>
#include <cuota/training/distributed/pipeline.hpp>
#include <cuota/training/distributed/placement.hpp>
#include <cuota/training/distributed/thread_group.hpp>
#include <cuota/training/precision/loss_scaler.hpp>
#include <cuota/training/precision/master_weights.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
#include <cuota/training/precision/pruned.hpp>
#include <cuota/training/precision/quantized_moments.hpp>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;
using namespace std::chrono_literals;
using floats = cuota::device_buffer<float>;

constexpr std::size_t n = 100'000;

struct add_one {
    cuota::device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += 1; }
};
struct add_before {
    cuota::device_span<float const> in;
    cuota::device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = in[i] + 1; }
};

/// Stands for the network of the page's snippets, without computing; a sample takes 100 kB.
struct network {
    std::size_t begun = 0;
    std::size_t samples = 0;
    std::size_t steps = 0;
};

struct room {
    cuota::budget budget{"trainer", 16_MiB};
    cuota::budget pinned{"pinned", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream stream;
    cuota::stream copies;
    network net;
};

void take(std::size_t samples, cuota::stream_ref stream, cuota::resource_ref const& pool) {
    floats const activations{samples * 25'000, stream, pool, cuota::no_init, "activations"};
}

/// Layers of one kernel each, whose outputs are 400 kB.
std::vector<cuota::checkpoint_stage> layers_of(std::size_t count) {
    std::vector<cuota::checkpoint_stage> stages(count);
    for (auto& s : stages) {
        s.output_bytes = n * sizeof(float);
        s.forward = [](cuota::stage_context const& run) {
            cuota::for_each_index(run.stream(), n, add_before{run.input<float>(), run.output<float>()});
        };
        s.backward = [](cuota::stage_context const& run) {
            auto const to = run.input_gradient<float>();
            cuota::for_each_index(run.stream(), to.size(), add_before{run.result<float>(), to});
        };
    }
    return stages;
}

std::mutex printing;
void try_step(std::size_t rank, std::size_t batch) {  // one rank has less memory than the other
    cuota::budget const own{"rank", (rank == 0 ? 8_MiB : 5_MiB) + 64_KiB};
    cuota::stream const stream;
    floats const all{batch * 262'144, stream, cuota::budgeted<cuota::device_memory>{own}, cuota::no_init};
}

#include "from_pytorch/ranks.inc"

TEST_CASE("from PyTorch: batches are planned, searched, and cut", "[docs]") {
    room r;
    auto& [budget, pinned, pool, stream, copies, net] = r;
    auto const zero_gradients = [&](cuota::stream const&) { net.samples = 0; };
    auto const optimizer_step = [&](cuota::stream const&) { ++net.steps; };

    page::check_prints("from_pytorch/plan", [&] {
#include "from_pytorch/plan.inc"
    });
    page::check_prints("from_pytorch/search", [&] {
        auto const train_step = [](std::size_t batch, cuota::stream const& s, cuota::scoped_pool& from) {
            take(batch, s, from);
        };
#include "from_pytorch/search.inc"
    });
    {
        constexpr std::size_t batch = 300;
        auto const backward = [&](cuota::micro_batch part, cuota::stream const& s, cuota::scoped_pool& from) {
            take(part.count, s, from);
            net.samples += part.count;
        };
#include "from_pytorch/retry.inc"
        CHECK(how.refusals == 1);
        CHECK(net.samples == batch);
        CHECK(net.steps == 1);
    }
    {
        constexpr std::size_t batch = 100;
        float sum = 0;
        auto const backward = [&](cuota::micro_batch part, float weight) {
            net.samples += part.count;
            sum += weight;
        };
#include "from_pytorch/accumulate.inc"
        CHECK(net.samples == batch);
        CHECK(net.steps == 2);
        CHECK(sum == 1.0f);
    }
}

TEST_CASE("from PyTorch: activations are run again, or wait on the host", "[docs]") {
    room r;
    auto& [budget, pinned, pool, stream, copies, net_of_room] = r;
    auto const stages = layers_of(16);
    floats const batch{n, stream, pool, "input"};
    auto const input = batch.read(stream);
    std::uint64_t const step = 1;
    page::check_prints("from_pytorch/checkpoint", [&] {
#include "from_pytorch/checkpoint.inc"
    });
    auto const sizes = cuota::chain_of(stages, pool.resource().granularity());
    page::check_prints("from_pytorch/offload", [&] {
#include "from_pytorch/offload.inc"
    });
    {
        auto const update = [&](cuota::lease<float> const& all) {
            cuota::for_each_index(stream, n, add_one{all});
        };
#include "from_pytorch/mirrored_buffer.inc"
        CHECK(moments.read_host()[n - 1] == 2.0f);
    }
}

TEST_CASE("from PyTorch: 16 bits, 8 bits, and fewer numbers", "[docs]") {
    room r;
    auto& [budget, pinned, pool, stream, copies, net] = r;
    {
        std::size_t passes = 0;
        std::size_t steps = 0;
        auto const backward = [&](cuota::lease<cuota::half const> const&, cuota::lease<cuota::half> const&,
                                  float) { ++passes; };
        auto const optimizer_step = [&](cuota::lease<float> const&, cuota::lease<cuota::half const> const&) {
            ++steps;
        };
#include "from_pytorch/mixed.inc"
        CHECK(passes == 1);
        CHECK(steps == 1);
        CHECK(weights.is_in_sync());
    }
    {
        floats parameters{n, 1.0f, stream, pool};
        floats const gradients{n, 1.0f, stream, pool};
        page::check_prints("from_pytorch/adam", [&] {
#include "from_pytorch/adam.inc"
        });
        CHECK(parameters.to_vector(stream)[0] < 1.0f);
    }
    {
        std::vector<float> host(n, 0.25f);
        for (std::size_t i = 0; i < n; i += 10) host[i] = 2.0f;
        floats weights{host, stream, pool};
        page::check_prints("from_pytorch/pruned", [&] {
#include "from_pytorch/pruned.inc"
        });
        CHECK(weights.to_vector(stream)[0] == 2.0f);
        CHECK(weights.to_vector(stream)[1] == 0.0f);
    }
}

TEST_CASE("from PyTorch: layers on two devices", "[docs]") {
    cuota::budget const budget0{"first", 16_MiB};
    cuota::budget const budget1{"second", 16_MiB};
    cuota::stream const stream0;
    cuota::stream const stream1;
    cuota::scoped_pool pool0{budget0};
    cuota::scoped_pool pool1{budget1};
    std::uint64_t const step = 1;
    auto const stages = layers_of(6);
    std::vector<cuota::placed_layer> const layers(6, {"layer", 1_MiB, 400'128, 1.0});
    floats const input{n, stream0, pool0};
    auto const whole = input.read(stream0);
    std::vector<cuota::device_span<float const>> const parts_of_the_batch(4, whole.span());
    {
#include "from_pytorch/pipeline.inc"
        CHECK(where.devices_in_use() == 2);
        CHECK(net.peaks().size() == 2);
    }
    stream1.synchronize();
}

TEST_CASE("from PyTorch: ranks take the batch that fits all of them", "[docs]") {
    page::check_prints("from_pytorch/ranks", [] {
        cuota::thread_group const group{2, 60s};
        std::thread other{[&] { train_rank(group, 1); }};
        train_rank(group, 0);
        other.join();
    });
}

TEST_CASE("from PyTorch: a loader has what DataLoader's options ask for", "[docs]") {
    page::inside const here;
    here.write_npy("images.npy", 600, "32, 32", 32 * 32);
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::budget const pinned{"pinned", 16_MiB};
    cuota::stream const stream;
    std::size_t numbers = 0;
    auto const step = [&](cuota::device_span<float const> all, cuota::stream const&) {
        numbers += all.size();
    };
    page::check_prints("from_pytorch/loader", [&] {
#include "from_pytorch/loader.inc"
    });
    CHECK(numbers == 600 * 32 * 32);
}

TEST_CASE("from PyTorch: scopes, frames, steps and plans", "[docs]") {
    room r;
    auto& [budget, pinned, pool, stream, copies, net] = r;
    auto const fill = [&](cuota::lease<float> const& all) { cuota::for_each_index(stream, n, add_one{all}); };
    {
        auto const& forward = fill;
        auto const use = [](cuota::lease<float const> const&) {};
        auto const before = pool.stats().live_blocks;
#include "from_pytorch/scopes.inc"
        CHECK(pool.stats().live_blocks == before + 1);
        CHECK(table.is_device_valid());
    }
    {
        auto const& reduce = fill;
#include "from_pytorch/frame.inc"
        CHECK(pool.stats().live_blocks == 0);
    }
    {
        stream.synchronize();
#include "from_pytorch/trim.inc"
        CHECK(bytes != 0);
        CHECK(budget.held() == 0);
    }
    page::check_prints("from_pytorch/steps", [&] {
#include "from_pytorch/steps.inc"
    });
    page::check_prints("from_pytorch/step_plan", [&] {
        auto const train_step = [](cuota::stream const& s, cuota::any_resource const& from) {
            floats const a{n, s, from, "a"};
            floats const b{n, s, from, "b"};
        };
#include "from_pytorch/step_plan.inc"
    });
}

TEST_CASE("from PyTorch: a fraction of the device", "[docs]") {
#include "from_pytorch/fraction.inc"
    CHECK(budget.limit() != 0);
}

TEST_CASE("from PyTorch: what is there is shown, and what grows is named", "[docs]") {
    page::inside const here;
    room r;
    auto& [budget, pinned, pool, stream, copies, net] = r;
    floats const weights{n, stream, pool, "weights"};
    auto const summary = page::printed([&] {
#include "from_pytorch/summary.inc"
    });
    CHECK(summary.find("weights") != std::string::npos);
    CHECK(summary.find("peak 2 MiB\n") != std::string::npos);
    auto const said = page::printed([&, &from = pool, &on = stream] {
        auto const train = [&](cuota::budget const&) {
            for (int i = 0; i != 12; ++i) {
                auto const step = from.begin_step();
                take(10, on, step);
            }
        };
#include "from_pytorch/record.inc"
    });
    CHECK(said == "no findings\n");
    for (char const* file : {"train.html", "snapshot.pickle", "trace.json"})
        CHECK(std::filesystem::file_size(file) > 100);
    auto const imported = page::printed([&] {
#include "from_pytorch/import.inc"
    });
    CHECK(imported.find("PyTorch:0") != std::string::npos);
    CHECK(std::filesystem::file_size("theirs.html") > 100);
    page::check_prints("from_pytorch/growth", [&] {
#include "from_pytorch/growth.inc"
    });
}

TEST_CASE("from PyTorch: an alert, and a dry run", "[docs]") {
    cuota::budget budget{"trainer", 16_MiB};
    cuota::stream const stream;
    page::check_prints("from_pytorch/alert", [&] {
#include "from_pytorch/alert.inc"
        budget.charge(15_MiB, "activations");
        budget.refund(15_MiB);
    });
    auto const build_model = [](cuota::stream const& s, cuota::any_resource const& from) {
        floats const weights{1'000'000, s, from, cuota::no_init, "weights"};
        floats const workspace{500'000, s, from, cuota::no_init, "workspace"};
    };
    page::check_prints("from_pytorch/dry_run", [&] {
#include "from_pytorch/dry_run.inc"
    });
}

}  // namespace
