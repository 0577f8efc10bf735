// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pipelines over integers with a budget per device, and the same step on one device without a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/distributed/pipeline.hpp>

#include "support/number_chain.hpp"

namespace support {

using cuota::checkpoint_stage;
using cuota::stage_context;

using budgeted_lane = cuota::budgeted<cuota::device_memory>;

// Sums gradients such that the result depends on the order of the additions.
struct fold_numbers {
    const_words in, result, saved, scratch, gradient;
    words sums;
    CUOTA_KERNEL void operator()(std::size_t p) const {
        word sum = sums[p];
        const_words const all[] = {in, result, saved, scratch, gradient};
        for (const_words const from : all)
            for (std::size_t i = 0; i != from.size(); ++i)
                sum = sum * 31 + from[i] * static_cast<word>(2 * p + 1) + static_cast<word>(i);
        sums[p] = sum;
    }
};

// Makes one stream for each device of a pipeline. On a machine with fewer devices, several streams share a device.
[[nodiscard]] inline std::vector<cuota::stream> streams_of_devices(std::size_t devices) {
    std::vector<cuota::stream> all;
    auto const there_are = static_cast<std::size_t>(cuota::device::count());
    for (std::size_t d = 0; d != devices; ++d) {
        cuota::device_scope const here{cuota::device{static_cast<int>(d % there_are)}};
        all.emplace_back();
    }
    return all;
}

class spread_numbers {
public:
    static constexpr std::size_t parameters = 2;

    spread_numbers(std::vector<number_stage> shape, std::vector<std::size_t> const& first,
                   std::vector<cuota::stream> const& streams, std::size_t parts)
        : shape_{std::move(shape)} {
        for (std::size_t i = 0; i != shape_.size(); ++i) {
            while (device_ + 1 < first.size() && first[device_ + 1] <= i) ++device_;
            homes_.push_back(streams[device_]);
            cuota::device_memory const memory{streams[device_].device()};
            sums_.push_back({parameters, streams[device_], memory, "sums"});
        }
        for (std::size_t m = 0; m != parts; ++m) {
            inputs_.push_back({200 + 10 * m, streams[0], cuota::device_memory{cuota::device{0}}, "part"});
            cuota::for_each_index(streams[0], inputs_[m].size(),
                                  fill_numbers{inputs_[m].write(streams[0]), static_cast<word>(m)}, "fill");
        }
        for (auto const& input : inputs_) borrowed_.push_back(input.read(streams[0]));
    }

    [[nodiscard]] std::vector<checkpoint_stage> stages() {
        std::vector<checkpoint_stage> all;
        for (number_stage const& s : shape_) {
            checkpoint_stage one;
            one.name = "spread stage";
            one.output_bytes = s.output * sizeof(word);
            one.saved_bytes = s.saved * sizeof(word);
            one.forward_scratch = s.forward_scratch * sizeof(word);
            one.backward_scratch = s.backward_scratch * sizeof(word);
            one.forward = [this](stage_context const& run) { forward(run); };
            one.backward = [this](stage_context const& run) { backward(run); };
            all.push_back(std::move(one));
        }
        return all;
    }
    [[nodiscard]] std::vector<const_words> inputs() const {
        std::vector<const_words> all;
        for (auto const& lease : borrowed_) all.push_back(lease.span());
        return all;
    }
    [[nodiscard]] std::vector<word> sums() const {
        std::vector<word> all;
        for (std::size_t i = 0; i != sums_.size(); ++i)
            for (word const one : sums_[i].to_vector(homes_[i])) all.push_back(one);
        return all;
    }
    void clear() {
        for (std::size_t i = 0; i != sums_.size(); ++i)
            sums_[i].copy_from(std::vector<word>(parameters), homes_[i]);
    }

    std::size_t fail_at = 0;  ///< number of the stage call that throws; 0 for no call
    std::size_t calls = 0;
    bool was_elsewhere = false;  ///< true if a stage ran while the current device was not its stream's

private:
    void forward(stage_context const& run) {
        count_call(run);
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        cuota::for_each_index(s, scratch.size(), fill_numbers{scratch, 5}, "fill");
        auto const out = run.output<word>();
        cuota::for_each_index(s, out.size(), forward_numbers{run.input<word>(), scratch, out, run.seed()},
                              "forward");
        auto const saved = run.saved<word>();
        cuota::for_each_index(s, saved.size(), save_numbers{run.input<word>(), saved, run.seed()}, "save");
    }
    void backward(stage_context const& run) {
        count_call(run);
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        cuota::for_each_index(s, scratch.size(), fill_numbers{scratch, 6}, "fill");
        auto const in = run.input<word>();
        auto const result = run.result<word>();
        auto const saved = run.saved<word>();
        auto const gradient = run.output_gradient<word>();
        auto const out = run.input_gradient<word>();
        cuota::for_each_index(s, out.size(), back_numbers{in, result, saved, scratch, gradient, out}, "back");
        cuota::for_each_index(s, parameters,
                              fold_numbers{in, result, saved, scratch, gradient, sums_[run.stage()].write(s)},
                              "fold");
    }
    void count_call(stage_context const& run) {
        was_elsewhere = was_elsewhere || !(cuota::device::current() == run.stream().device());
        ++calls;
        if (fail_at != 0 && --fail_at == 0) throw std::runtime_error{"a stage that fails"};
    }

    std::vector<number_stage> shape_;
    std::size_t device_ = 0;
    std::vector<cuota::stream_ref> homes_;
    std::vector<cuota::device_buffer<word>> sums_;
    std::vector<cuota::device_buffer<word>> inputs_;
    std::vector<cuota::lease<word const>> borrowed_;
};

/// Computes the sums on one device, without an executor: forward and backward of each micro-batch in turn, with all activations stored.
[[nodiscard]] inline std::vector<word> sums_of_one_device(std::vector<number_stage> const& shape,
                                                          std::size_t parts, std::uint64_t seed) {
    std::vector<cuota::stream> const one = streams_of_devices(1);
    cuota::stream_ref const s = one[0];
    spread_numbers net{shape, {0}, one, parts};
    auto const stages = net.stages();
    using bytes = cuota::device_buffer<std::byte>;
    auto const make = [&](std::size_t n) { return bytes{n, s, cuota::device_memory{}}; };
    std::vector<const_words> const inputs = net.inputs();
    for (std::size_t m = 0; m != parts; ++m) {
        std::vector<bytes> outputs, saved;
        bytes gradient = make(0);
        auto const range = [&](bytes& b) {
            auto const lease = b.write(s);
            return stage_context::values::range{lease.span().data(), b.bytes()};
        };
        auto const input = [&](std::size_t i) {
            if (i != 0) return range(outputs[i - 1]);
            auto* const at = const_cast<word*>(inputs[m].data());
            return stage_context::values::range{reinterpret_cast<std::byte*>(at), inputs[m].bytes()};
        };
        for (std::size_t i = 0; i != stages.size(); ++i) {
            outputs.push_back(make(stages[i].output_bytes));
            saved.push_back(make(stages[i].saved_bytes));
            bytes scratch = make(stages[i].forward_scratch);
            stage_context::values v;
            v.input = input(i);
            v.output = range(outputs[i]);
            v.saved = range(saved[i]);
            v.scratch = range(scratch);
            stages[i].forward({s, {{}, i, m, cuota::detail::stage_seed(seed, i, m), false, true, false}, v});
        }
        for (std::size_t i = stages.size(); i-- != 0;) {
            bytes next = make(i == 0 ? 0 : stages[i - 1].output_bytes);
            bytes scratch = make(stages[i].backward_scratch);
            stage_context::values v;
            v.input = input(i);
            v.output = range(outputs[i]);
            v.saved = range(saved[i]);
            v.scratch = range(scratch);
            v.output_gradient = range(gradient);
            v.input_gradient = range(next);
            stages[i].backward({s, {{}, i, m, cuota::detail::stage_seed(seed, i, m), true, true, false}, v});
            gradient = std::move(next);
        }
    }
    return net.sums();
}

struct pipeline_case {
    pipeline_case(std::size_t devices, std::size_t micro_batches, unsigned seed)
        : parts{micro_batches}, streams{streams_of_devices(devices)} {
        std::mt19937 random{seed};
        std::size_t stages = 0;
        for (std::size_t d = 0; d != devices; ++d) {
            first.push_back(stages);
            stages += 1 + random() % 3;
        }
        shape = random_number_stages(stages, seed);
        for (std::size_t d = 0; d != devices; ++d) budgets.emplace_back("lane", cuota::unlimited);
        net = std::make_unique<spread_numbers>(shape, first, streams, parts);
    }
    [[nodiscard]] std::vector<cuota::pipeline_device> devices(std::vector<cuota::budget> const& of) const {
        std::vector<cuota::pipeline_device> all;
        for (std::size_t d = 0; d != streams.size(); ++d)
            all.push_back({streams[d], budgeted_lane{of[d], cuota::device_memory{streams[d].device()}}});
        return all;
    }
    [[nodiscard]] std::vector<cuota::pipeline_device> devices() const { return devices(budgets); }

    std::size_t parts;
    std::vector<cuota::stream> streams;
    std::vector<std::size_t> first{};
    std::vector<number_stage> shape{};
    std::vector<cuota::budget> budgets{};
    std::unique_ptr<spread_numbers> net{};
};

[[nodiscard]] inline std::vector<std::size_t> peaks_of(std::vector<cuota::budget> const& budgets) {
    std::vector<std::size_t> all;
    for (cuota::budget const& b : budgets) all.push_back(b.peak());
    return all;
}

}  // namespace support
