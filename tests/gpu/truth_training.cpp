// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The part of gpu_truth about training: checkpointing and offloading do not change the result bitwise.
#include <bit>
#include <cmath>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "../../examples/deep_network.hpp"
#include "gpu/truth.hpp"

namespace truth {
namespace {

using cuota::device_span;
using namespace cuota::literals;

struct make_pixels {
    device_span<std::uint8_t> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = static_cast<std::uint8_t>(word_of(21, i)); }
};
struct make_labels {
    device_span<std::int32_t> to;
    std::uint32_t classes;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        to[i] = static_cast<std::int32_t>(word_of(22, i) % classes);
    }
};

struct outcome {
    std::vector<double> losses{};
    std::vector<float> weights{};
    std::size_t peak = 0;  ///< bytes of activations
};

[[nodiscard]] train::deep_shape shape() {
    return {.batch = on_a_gpu<std::size_t>(256, 16),
            .inputs = on_a_gpu<std::size_t>(256, 32),
            .width = on_a_gpu<std::size_t>(256, 16),
            .layers = on_a_gpu<std::size_t>(24, 12),
            .classes = 10,
            .dropout = 0.1F};
}

/// Stages of equal time, and a link that transfers a record in the time of two stages.
[[nodiscard]] cuota::chain timed_chain(train::deep_shape const& s) {
    cuota::chain c =
        chain_of(train::deep_network<float>::sizes(s, s.batch), cuota::pool_resource::granularity());
    for (cuota::chain_stage& stage : c.stages) stage.forward_time = stage.backward_time = 1;
    c.offload_time_per_byte = c.fetch_time_per_byte =
        2.0 / static_cast<double>(c.stages.front().output_bytes);
    return c;
}

[[nodiscard]] outcome train_by(cuota::chain_schedule const& schedule, std::size_t peak) {
    train::deep_shape const s = shape();
    std::size_t const steps = on_a_gpu<std::size_t>(12, 4);
    cuota::stream const stream;
    cuota::budget const budget{"training", 512_MiB};
    cuota::budget const host{"host", 512_MiB};
    outcome of;
    {
        cuota::scoped_pool pool{budget, {.name = "network"}};
        cuota::scoped_pool activations{budget, {.name = "activations"}};
        cuota::device_buffer<std::uint8_t> pixels{steps * s.batch * s.inputs, stream, pool, "pixels"};
        cuota::device_buffer<std::int32_t> labels{steps * s.batch, stream, pool, "labels"};
        cuota::for_each_index(stream, pixels.size(), make_pixels{pixels.write(stream)}, "make_pixels");
        cuota::for_each_index(stream, labels.size(),
                              make_labels{labels.write(stream), static_cast<std::uint32_t>(s.classes)},
                              "make_labels");
        train::deep_network<float> network{s, cuota::element_type::u8, 5, stream, pool};
        cuota::checkpointed chain{network.stages(s.batch), schedule, stream, activations,
                                  cuota::budgeted{host, cuota::pinned_memory{}}};
        auto const all_pixels = pixels.read(stream);
        auto const all_labels = labels.read(stream);
        for (std::size_t step = 0; step != steps; ++step) {
            network.set_labels(all_labels.span().subspan(step * s.batch, s.batch));
            network.set_part({0, s.batch, s.batch});
            chain.run(all_pixels.span().subspan(step * s.batch * s.inputs, s.batch * s.inputs), step);
            of.losses.push_back(network.take_totals().loss);
            network.step(0.001F);
        }
        of.weights = network.parameters().to_vector(stream);
        of.peak = activations.stats().peak_requested;
        expect(of.peak <= peak, "the activations took " + std::to_string(of.peak) + " bytes, planned were " +
                                    std::to_string(peak));
    }
    expect_equal("device bytes held at the end", budget.held(), 0U);
    expect_equal("pinned bytes held at the end", host.held(), 0U);
    return of;
}

void expect_same(outcome const& got, outcome const& naive, std::string const& how) {
    for (std::size_t i = 0; i != naive.losses.size(); ++i)
        if (std::bit_cast<std::uint64_t>(got.losses[i]) != std::bit_cast<std::uint64_t>(naive.losses[i]))
            throw failed{
                how + ": " +
                text("the loss of step %zu is %.17g, naive's is %.17g", i, got.losses[i], naive.losses[i])};
    expect_equal(how + ": number of weights", got.weights.size(), naive.weights.size());
    for (std::size_t i = 0; i != naive.weights.size(); ++i)
        if (std::bit_cast<std::uint32_t>(got.weights[i]) != std::bit_cast<std::uint32_t>(naive.weights[i]))
            throw failed{how + ": " +
                         text("weight %zu is %.9g, naive's is %.9g", i, static_cast<double>(got.weights[i]),
                              static_cast<double>(naive.weights[i]))};
}

}  // namespace

std::string exact_training() {
    cuota::chain const c = timed_chain(shape());
    auto const all = store_all_plan(c);
    std::size_t const naive_peak = simulate(c, all).peak;

    auto const checkpoints = chain_plan(c, naive_peak / 2);
    auto const checkpointed_run = simulate(c, checkpoints);
    expect(checkpointed_run.recomputed != 0, "half of the memory is enough without recomputing");
    auto const offloads = offload_plan(c, naive_peak / 2);
    auto const offloaded_run = simulate(c, offloads);
    expect(offloaded_run.offloaded_bytes != 0, "half of the memory is enough without the host");

    outcome const naive = train_by(all, naive_peak);
    for (double const loss : naive.losses)
        expect(std::isfinite(loss) && loss > 0, "a loss of the naive run is no loss");
    expect(naive.losses.front() != naive.losses.back(), "the naive run learns nothing");
    outcome const checkpointed = train_by(checkpoints, checkpointed_run.peak);
    expect_same(checkpointed, naive, "checkpointed");
    outcome const offloaded = train_by(offloads, offloaded_run.peak);
    expect_same(offloaded, naive, "offloaded");
    return text("%zu losses and %zu weights are the same bits: naive in %zu bytes, checkpointed in %zu (%zu "
                "stages run again), "
                "offloaded in %zu (%zu sent to the host)",
                naive.losses.size(), naive.weights.size(), naive.peak, checkpointed.peak,
                checkpointed_run.recomputed, offloaded.peak, offloaded_run.offloaded_bytes);
}

}  // namespace truth
