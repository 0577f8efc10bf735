// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A step that allocates memory: it is recorded once, captured into a graph with the planned addresses, and launched repeatedly.
///
/// Launches give the same values at the same addresses as separate steps, and allocate nothing. Expected output:
///
///     49 launches: the same values; 2 of 2 requests from the slab, 0 bytes more held
#include <cstddef>
#include <cstdio>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/runtime/graph.hpp>

using namespace cuota::literals;

struct scale {
    cuota::device_span<float const> from;
    cuota::device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i] * 1.01F + 0.5F; }
};

struct subtract {
    cuota::device_span<float const> gradient;
    cuota::device_span<float> weights;
    CUOTA_KERNEL void operator()(std::size_t i) const { weights[i] -= 0.125F * gradient[i]; }
};

/// Allocates the memory of the step, computes, and frees it.
void train_step(cuota::device_buffer<float>& weights, cuota::step_plan& plan, cuota::stream const& stream) {
    auto const step = plan.begin();
    cuota::device_buffer<float> activations{weights.size(), stream, plan.resource(), cuota::no_init,
                                            "activations"};
    cuota::for_each_index(stream, weights.size(), scale{weights.read(stream), activations.write(stream)});
    cuota::device_buffer<float> gradient{weights.size(), stream, plan.resource(), cuota::no_init, "gradient"};
    cuota::for_each_index(stream, weights.size(), scale{activations.read(stream), gradient.write(stream)});
    cuota::for_each_index(stream, weights.size(), subtract{gradient.read(stream), weights.write(stream)});
}

int main() try {
    constexpr std::size_t count = 100'000;
    constexpr int steps = 50;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream stream;

    cuota::device_buffer<float> weights{count, 1.0F, stream, pool, "weights"};
    cuota::device_buffer<float> replayed = weights.clone(stream, "weights");

    cuota::step_plan eager{pool};
    for (int i = 0; i != steps; ++i) train_step(weights, eager, stream);

    cuota::step_plan plan{pool};
    train_step(replayed, plan, stream);  // first run: the requests are recorded
    cuota::graph_exec step = cuota::capture(stream, [&] { train_step(replayed, plan, stream); });
    std::size_t const held = budget.held();
    for (int i = 1; i != steps; ++i) step.launch(stream);

    bool const same = weights.to_vector(stream) == replayed.to_vector(stream);
    auto const stats = plan.stats();
    std::printf("%d launches: %s; %zu of %zu requests from the slab, %zu bytes more held\n", steps - 1,
                same ? "the same values" : "OTHER VALUES", stats.served, stats.requests,
                budget.held() - held);
    return same && budget.held() == held && stats.served == stats.requests ? 0 : 1;
} catch (std::exception const& error) {
    std::puts(error.what());
    return 1;
}
