// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A chain of stages over integers. A read of a wrong value, at a wrong time or with a wrong seed changes the gradients, and correct
/// gradients are equal bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/samplers/permutation.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>

namespace support {

using word = std::uint32_t;
using words = cuota::device_span<word>;
using const_words = cuota::device_span<word const>;

/// Returns element i modulo the size of the span, or `none` if the span is empty.
[[nodiscard]] CUOTA_KERNEL inline word around(const_words of, std::size_t i, word none) {
    return of.size() == 0 ? none : of[i % of.size()];
}

struct fill_numbers {
    words to;
    word salt;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = static_cast<word>(i * 2654435761u) ^ salt; }
};
struct forward_numbers {
    const_words in, scratch;
    words out;
    std::uint64_t seed;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        auto const random = static_cast<word>(seed >> 7) * static_cast<word>(2 * i + 1);
        out[i] = around(in, i, 5) * 2246822519u + around(scratch, i, 3) + (random ^ (random >> 13));
    }
};
struct save_numbers {
    const_words in;
    words saved;
    std::uint64_t seed;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        saved[i] = around(in, i + 1, 7) ^ (static_cast<word>(seed >> 21) + static_cast<word>(i));
    }
};
struct back_numbers {
    const_words in, result, saved, scratch, gradient;
    words out;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        out[i] = around(in, i, 11) * 3 + (around(result, i, 13) ^ around(gradient, i, 17)) +
                 around(saved, i, 19) * 7 + around(scratch, i, 23);
    }
};
/// Adds to a parameter's gradient. Every input word changes the result.
struct add_numbers {
    const_words in, result, saved, scratch, gradient;
    words sums;
    std::size_t first;
    CUOTA_KERNEL void operator()(std::size_t p) const {
        word sum = sums[first + p];
        auto const add = [&](const_words from, word factor) {
            for (std::size_t i = 0; i != from.size(); ++i)
                sum += from[i] * (factor + static_cast<word>(p)) + static_cast<word>(i);
        };
        add(in, 31);
        add(result, 37);
        add(saved, 41);
        add(scratch, 43);
        add(gradient, 47);
        sums[first + p] = sum;
    }
};

struct clear_words {
    words to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = 0; }
};

/// Sizes of a stage's values, in words.
struct number_stage {
    std::size_t output = 0, saved = 0, forward_scratch = 0, backward_scratch = 0;
    std::optional<std::size_t> gradient{};  // of the output
};

/// Stages and their gradients, `parameters` per stage.
class number_chain {
public:
    static constexpr std::size_t parameters = 3;

    number_chain(std::vector<number_stage> shape, std::size_t input, cuota::stream_ref on,
                 cuota::any_resource const& memory = cuota::device_memory{})
        : shape_{std::move(shape)},
          on_{on},
          input_{input, on, memory, "chain input"},
          sums_{parameters * shape_.size(), on, memory, "sums"} {
        cuota::for_each_index(on, input, fill_numbers{input_.write(on), 99}, "fill");
        borrowed_input_.emplace(input_.read(on));
    }

    [[nodiscard]] std::vector<cuota::checkpoint_stage> stages() {
        std::vector<cuota::checkpoint_stage> all;
        for (number_stage const& s : shape_) {
            cuota::checkpoint_stage one;
            one.name = "number stage";
            one.output_bytes = s.output * sizeof(word);
            one.saved_bytes = s.saved * sizeof(word);
            one.forward_scratch = s.forward_scratch * sizeof(word);
            one.backward_scratch = s.backward_scratch * sizeof(word);
            if (s.gradient) one.gradient_bytes = *s.gradient * sizeof(word);
            one.forward = [this](cuota::stage_context const& run) { forward(run); };
            one.backward = [this](cuota::stage_context const& run) { backward(run); };
            all.push_back(std::move(one));
        }
        return all;
    }
    [[nodiscard]] const_words input() { return borrowed_input_->span(); }

    /// Returns the gradients, by parameter; waits for the stream.
    [[nodiscard]] std::vector<word> sums() { return sums_.to_vector(on_); }
    void clear() { cuota::for_each_index(on_, sums_.size(), clear_words{sums_.write(on_)}, "clear"); }

    std::size_t forwards = 0;    ///< number of forward runs of a stage
    std::size_t recomputed = 0;  ///< forward runs that were marked as recomputation
    std::size_t backwards = 0;
    std::size_t fail_at = 0;  ///< number of the call that throws; 0 for no call

private:
    void forward(cuota::stage_context const& run) {
        count_call();
        ++forwards;
        recomputed += run.is_recomputation();
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        auto const salt = static_cast<word>(run.stage());
        cuota::for_each_index(s, scratch.size(), fill_numbers{scratch, salt}, "fill");
        auto const out = run.output<word>();
        cuota::for_each_index(s, out.size(), forward_numbers{run.input<word>(), scratch, out, run.seed()},
                              "forward");
        auto const saved = run.saved<word>();
        cuota::for_each_index(s, saved.size(), save_numbers{run.input<word>(), saved, run.seed()}, "save");
    }
    void backward(cuota::stage_context const& run) {
        count_call();
        ++backwards;
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        auto const salt = static_cast<word>(run.stage() + 1000);
        cuota::for_each_index(s, scratch.size(), fill_numbers{scratch, salt}, "fill");
        auto const in = run.input<word>();
        auto const result = run.result<word>();
        auto const saved = run.saved<word>();
        auto const gradient = run.output_gradient<word>();
        auto const out = run.input_gradient<word>();
        cuota::for_each_index(s, out.size(), back_numbers{in, result, saved, scratch, gradient, out}, "back");
        cuota::for_each_index(
            s, parameters,
            add_numbers{in, result, saved, scratch, gradient, sums_.write(s), parameters * run.stage()},
            "add");
    }
    void count_call() {
        if (fail_at != 0 && --fail_at == 0) throw std::runtime_error{"a stage that fails"};
    }

    std::vector<number_stage> shape_;
    cuota::stream_ref on_;
    cuota::device_buffer<word> input_;
    cuota::device_buffer<word> sums_;
    std::optional<cuota::lease<word const>> borrowed_input_;  // a chain's input is never changed
};

[[nodiscard]] inline std::vector<number_stage> random_number_stages(std::size_t count, unsigned seed) {
    std::mt19937 random{seed};
    auto const size = [&](unsigned most) {
        return std::uniform_int_distribution<unsigned>{0, 4}(random) == 0
                   ? std::size_t{0}
                   : std::size_t{std::uniform_int_distribution<unsigned>{1, most}(random)};
    };
    std::vector<number_stage> all;
    for (std::size_t i = 0; i != count; ++i) {
        all.push_back({size(700) + 1, size(900), size(500), size(500)});
        if (i % 3 == 1) all.back().gradient = size(1400);
    }
    return all;
}

}  // namespace support
