// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/compressed_stages.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::checkpointed;
using cuota::device_span;

namespace {

/// Computes out = in * w + noise of index and stage, through scratch, which must keep the values stored there.
struct affine_forward {
    device_span<float const> in;
    device_span<float> out, scratch;
    float w;
    std::size_t stage;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        scratch[i] = in[i] * w;
        out[i] = scratch[i] + 0.001f * static_cast<float>((i + 1) * (2 * stage + 2654435761u) % 1000);
    }
};
/// Computes the gradients of the sum of squares of the last output, backward through such stages.
struct affine_backward {
    device_span<float const> in, out, gradient;
    device_span<float> next, sums;
    std::size_t at;
    float w;
    CUOTA_KERNEL void operator()(std::size_t) const {
        float sum = 0;
        for (std::size_t i = 0; i != in.size(); ++i) {
            float const g = gradient.size() == 0 ? 2 * out[i] : gradient[i];
            sum += g * in[i];
            if (next.size() != 0) next[i] = g * w;
        }
        sums[at] += sum;
    }
};

/// Stages over `count` floats with one weight each, whose gradients go to `sums`.
class affine_chain {
public:
    affine_chain(std::size_t stages, std::size_t count, cuota::stream_ref s)
        : stream_{s},
          count_{count},
          input_{count, 0.5f, s, cuota::device_memory{}},
          sums_{stages, s, cuota::device_memory{}} {}

    [[nodiscard]] std::vector<cuota::checkpoint_stage> stages() {
        std::vector<cuota::checkpoint_stage> all(sums_.size());
        for (std::size_t i = 0; i != all.size(); ++i) {
            float const w = 0.9f + 0.002f * static_cast<float>(i);
            all[i].name = "affine";
            all[i].output_bytes = all[i].forward_scratch = count_ * sizeof(float);
            all[i].forward = [this, w](cuota::stage_context const& run) {
                cuota::for_each_index(run.stream(), count_,
                                      affine_forward{run.input<float>(), run.output<float>(),
                                                     run.scratch<float>(), w, run.stage()});
            };
            all[i].backward = [this, w](cuota::stage_context const& run) {
                cuota::for_each_index(
                    run.stream(), 1,
                    affine_backward{run.input<float>(), run.result<float>(), run.output_gradient<float>(),
                                    run.input_gradient<float>(), sums_.write(run.stream()), run.stage(), w});
            };
        }
        return all;
    }
    [[nodiscard]] std::vector<float> gradients(std::vector<cuota::checkpoint_stage> const& stages,
                                               cuota::chain_schedule const& plan,
                                               cuota::any_resource memory = cuota::device_memory{}) {
        checkpointed net{stages, plan, stream_, std::move(memory)};
        {
            auto const in = input_.read(stream_);
            net.run(in.span(), 3);
        }
        std::vector<float> found = sums_.to_vector(stream_);
        sums_.copy_from(std::vector<float>(found.size(), 0.0f), stream_);
        return found;
    }

private:
    cuota::stream_ref stream_;
    std::size_t count_;
    cuota::device_buffer<float> input_;
    cuota::device_buffer<float> sums_;
};

struct whole_numbers {
    device_span<float> out;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        out[i] = i % 256 == 0 ? 127.0f : static_cast<float>(i % 100) - 50.0f;
    }
};
struct take_over {
    device_span<float const> from;
    device_span<float> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i]; }
};

[[nodiscard]] std::size_t store_all_peak(std::vector<cuota::checkpoint_stage> const& stages) {
    cuota::chain const sizes = cuota::chain_of(stages, cuota::device_memory::granularity());
    return simulate(sizes, cuota::store_all_plan(sizes)).peak;
}

}  // namespace

TEST_CASE("compressed outputs yield nearly the same gradients with less than half of the peak",
          "[training][compressed_stages][gpu]") {
    cuota::stream const stream;
    affine_chain net{40, 2000, stream};
    auto const plain = net.stages();
    auto const packed = compressed_stages(plain);
    cuota::chain const sizes = cuota::chain_of(packed, cuota::device_memory::granularity());
    cuota::budget const account{"device", cuota::unlimited};

    auto const exact = net.gradients(plain, cuota::store_all_plan(sizes));
    auto const found =
        net.gradients(packed, cuota::store_all_plan(sizes), cuota::budgeted<cuota::device_memory>{account});

    CHECK(account.info().peak == simulate(sizes, cuota::store_all_plan(sizes)).peak);
    CHECK(account.info().peak * 2 < store_all_peak(plain));
    bool differs = false;
    for (std::size_t i = 0; i != exact.size(); ++i) {
        // 40 roundings by at most 1/254 each, which mostly cancel.
        CHECK(std::abs(found[i] - exact[i]) <= 0.02f * std::abs(exact[i]));
        differs = differs || found[i] != exact[i];
    }
    CHECK(differs);
}

TEST_CASE("compressed stages have the same gradients under every plan",
          "[training][compressed_stages][gpu]") {
    cuota::stream const stream;
    affine_chain net{9, 777, stream};
    auto const packed = compressed_stages(net.stages());
    cuota::chain const sizes = cuota::chain_of(packed, cuota::device_memory::granularity());
    auto const kept = net.gradients(packed, cuota::store_all_plan(sizes));
    std::size_t const least = cuota::min_chain_bytes(sizes);
    std::size_t const most = store_all_peak(packed);
    for (std::size_t i = 0; i <= 4; ++i)
        CHECK(net.gradients(packed, cuota::chain_plan(sizes, least + (most - least) * i / 4)) == kept);
}

TEST_CASE("an output that can be represented exactly is compressed without loss",
          "[training][compressed_stages][gpu]") {
    cuota::stream const stream;
    std::size_t const n = 300;  // more than one block, not a multiple of one
    cuota::device_buffer<float> forward_saw{n, stream, cuota::device_memory{}},
        backward_saw{n, stream, cuota::device_memory{}}, result_saw{n, stream, cuota::device_memory{}};
    std::vector<cuota::checkpoint_stage> stages(2);
    stages[0].output_bytes = n * sizeof(float);
    stages[0].forward = [](cuota::stage_context const& run) {
        cuota::for_each_index(run.stream(), n, whole_numbers{run.output<float>()});
    };
    stages[0].backward = [&](cuota::stage_context const& run) {
        cuota::for_each_index(run.stream(), n,
                              take_over{run.result<float>(), result_saw.write(run.stream())});
    };
    stages[1].forward = [&](cuota::stage_context const& run) {
        cuota::for_each_index(run.stream(), n,
                              take_over{run.input<float>(), forward_saw.write(run.stream())});
    };
    stages[1].backward = [&](cuota::stage_context const& run) {
        cuota::for_each_index(run.stream(), n,
                              take_over{run.input<float>(), backward_saw.write(run.stream())});
        CHECK(run.input_gradient<float>().size() == n);
    };
    auto const packed = compressed_stages(stages);
    CHECK(packed[0].output_bytes == n + 2 * sizeof(float));
    CHECK(packed[0].gradient() == n * sizeof(float));
    checkpointed net{packed, cuota::store_all_plan(cuota::chain_of(packed, 1)), stream,
                     cuota::device_memory{}};
    net.run(device_span<float const>{}, 1);
    auto const seen = forward_saw.to_vector(stream);
    for (std::size_t i = 0; i != n; ++i)
        CHECK(seen[i] == (i % 256 == 0 ? 127.0f : static_cast<float>(i % 100) - 50.0f));
    CHECK(backward_saw.to_vector(stream) == seen);
    CHECK(result_saw.to_vector(stream) == seen);
}

TEST_CASE("outputs that are not floats are refused, and missing functions stay missing",
          "[training][compressed_stages]") {
    std::vector<cuota::checkpoint_stage> stages(3);
    stages[1].output_bytes = 6;
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)compressed_stages(stages); });
    CHECK(support::has(refused.what(), "the output of stage 1 (6 bytes)"));
    stages[1].output_bytes = 8;
    stages[2].output_bytes = 6;  // the last stage's output is not compressed
    auto const packed = compressed_stages(stages);
    CHECK(packed[2].output_bytes == 6);
    CHECK_FALSE(packed[1].forward);
    CHECK_FALSE(packed[1].backward);
}
