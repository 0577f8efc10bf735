// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/batches/training_footprint.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/half.hpp>
#include <cuota/guard/budgeted.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::element_type;
using cuota::optimizer_kind;
using cuota::state_storage;
using cuota::training_footprint;
using cuota::training_layer;
using cuota::training_options;

namespace {

// Rounds up by adding units of the granularity one by one, without the library's arithmetic.
[[nodiscard]] std::size_t in_granules(std::size_t bytes, std::size_t granularity) {
    std::size_t sum = 0;
    while (sum < bytes) sum += granularity;
    return sum;
}

[[nodiscard]] std::size_t bytes_of_type(element_type type) {
    return type == element_type::f64 ? 8 : type == element_type::f32 ? 4 : 2;
}

// Returns the sizes in bytes of all buffers that training needs, one by one.
[[nodiscard]] std::vector<std::size_t> training_buffers(std::vector<training_layer> const& layers,
                                                        training_options const& how, std::size_t batch) {
    std::vector<std::size_t> all;
    bool learns_before = false;
    for (training_layer const& l : layers) {
        bool const is_narrow = bytes_of_type(l.type) == 2;
        all.push_back(l.parameters * bytes_of_type(l.type));
        if (!l.is_frozen) {
            learns_before = true;
            all.push_back(l.parameters * (is_narrow && how.float_gradients ? 4 : bytes_of_type(l.type)));
            if (is_narrow && how.master_weights && how.optimizer != optimizer_kind::none)
                all.push_back(l.parameters * 4);
            bool const is_adam =
                how.optimizer == optimizer_kind::adam || how.optimizer == optimizer_kind::adamw;
            for (int i = 0; i != (is_adam ? 2 : how.optimizer == optimizer_kind::sgd_momentum ? 1 : 0); ++i) {
                if (how.state == state_storage::floats)
                    all.push_back(l.parameters * (is_narrow ? 4 : bytes_of_type(l.type)));
                else {
                    all.push_back(l.parameters);
                    std::size_t blocks = 0;
                    while (blocks * how.quantized_block < l.parameters) ++blocks;
                    all.push_back(blocks * 4);
                }
            }
        }
        if (learns_before) all.push_back(l.activations * batch * bytes_of_type(l.type));
    }
    all.push_back(how.workspace_bytes);
    all.push_back(how.context_bytes);
    return all;
}

[[nodiscard]] std::vector<training_layer> any_layers(std::mt19937& random) {
    std::vector<training_layer> layers(random() % 5);
    for (training_layer& l : layers) {
        l.name = random() % 2 ? cuota::tag{"fc"} : cuota::tag{};
        l.parameters = random() % 3000;
        l.activations = random() % 700;
        element_type const types[] = {element_type::f16, element_type::bf16, element_type::f32,
                                      element_type::f64};
        l.type = types[random() % 4];
        l.is_frozen = random() % 3 == 0;
    }
    return layers;
}

[[nodiscard]] training_options any_training(std::mt19937& random) {
    training_options how;
    how.optimizer = static_cast<optimizer_kind>(random() % 5);
    how.state = random() % 2 ? state_storage::floats : state_storage::quantized;
    how.quantized_block = std::size_t{1} << random() % 10;
    how.master_weights = random() % 3 != 0;
    how.float_gradients = random() % 2 != 0;
    how.workspace_bytes = random() % 2000;
    how.context_bytes = random() % 2000;
    how.granularity = std::size_t{1} << random() % 11;
    return how;
}

}  // namespace

TEST_CASE("the footprint of training is the sum of its buffers", "[training][training_footprint]") {
    std::mt19937 random{5};
    std::size_t wrong = 0;
    for (int round = 0; round != 3000; ++round) {
        std::vector<training_layer> const layers = any_layers(random);
        training_options const how = any_training(random);
        std::size_t const batch = random() % 9;
        std::size_t sum = 0;
        for (std::size_t const bytes : training_buffers(layers, how, batch))
            sum += in_granules(bytes, how.granularity);
        wrong += training_footprint(layers, how).bytes(batch) != sum;
    }
    CHECK(wrong == 0);
}

TEST_CASE("the bytes of a million weights equal the published figures", "[training][training_footprint]") {
    auto bytes = [](element_type type, training_options how) {
        how.granularity = 1;
        return static_cast<double>(training_footprint({{"net", 1'024'000, 0, type}}, how).bytes()) /
               1'024'000;
    };
    CHECK(bytes(element_type::f32, {.optimizer = optimizer_kind::sgd}) == 8);
    CHECK(bytes(element_type::f32, {.optimizer = optimizer_kind::none}) == 8);
    CHECK(bytes(element_type::f32, {.optimizer = optimizer_kind::sgd_momentum}) == 12);
    CHECK(bytes(element_type::f32, {.optimizer = optimizer_kind::adam}) == 16);
    CHECK(bytes(element_type::f16, {.optimizer = optimizer_kind::adam}) == 16);  // as counted by ZeRO
    CHECK(bytes(element_type::bf16, {.optimizer = optimizer_kind::adamw}) == 16);
    CHECK(bytes(element_type::bf16, {.optimizer = optimizer_kind::adamw, .master_weights = false}) == 12);
    CHECK(bytes(element_type::bf16, {.optimizer = optimizer_kind::adamw, .float_gradients = true}) == 18);
    CHECK(bytes(element_type::bf16, {.optimizer = optimizer_kind::none}) == 4);
    CHECK(bytes(element_type::f64, {.optimizer = optimizer_kind::adam}) == 32);
    // Two codes, and two floats per 256 codes.
    CHECK(bytes(element_type::f32, {.optimizer = optimizer_kind::adam, .state = state_storage::quantized}) ==
          10 + 8.0 / 256);
}

TEST_CASE("an incomplete block has a scale as well", "[training][training_footprint]") {
    training_options const how{
        .optimizer = optimizer_kind::sgd_momentum, .state = state_storage::quantized, .granularity = 1};
    CHECK(training_footprint({{"net", 256}}, how).bytes() == 256 * 9 + 4);
    CHECK(training_footprint({{"net", 257}}, how).bytes() == 257 * 9 + 8);
    CHECK(training_footprint({{"net", 1}}, how).bytes() == 9 + 4);
}

TEST_CASE("frozen layers have no gradients or state, and those at the start keep nothing for backward",
          "[training][training_footprint]") {
    std::vector<training_layer> layers{{"stem", 1000, 30}, {"body", 500, 20}, {"head", 100, 10}};
    training_options const how{.granularity = 1};
    CHECK(training_footprint(layers, how).bytes(1) == 1600 * 16 + 60 * 4);
    layers[0].is_frozen = true;
    CHECK(training_footprint(layers, how).bytes(1) == 1000 * 4 + 600 * 16 + 30 * 4);
    layers[1].is_frozen = true;
    CHECK(training_footprint(layers, how).bytes(1) == 1500 * 4 + 100 * 16 + 10 * 4);
    layers[0].is_frozen = false;  // backward runs through the body to the stem
    CHECK(training_footprint(layers, how).bytes(1) == 500 * 4 + 1100 * 16 + 60 * 4);
    for (training_layer& l : layers) l.is_frozen = true;
    CHECK(!training_footprint(layers, how).depends_on_batch());
    CHECK(training_footprint(layers, how).bytes() == 1600 * 4);
}

TEST_CASE("a network whose size overflows has an unlimited footprint", "[training][training_footprint]") {
    std::size_t const most = cuota::unlimited;
    CHECK(training_footprint({{"net", most}}).bytes() == cuota::unlimited);
    CHECK(training_footprint({{"net", most / 8}, {"more", most / 8}}).bytes() == cuota::unlimited);
    CHECK(training_footprint({{"net", 1, most / 8}}).bytes(9) == cuota::unlimited);
    CHECK(training_footprint({{"net", 1}}, {.workspace_bytes = most}).bytes() == cuota::unlimited);
    cuota::budget const endless{"endless", cuota::unlimited};
    CHECK_THROWS_AS(training_footprint({{"net", most}}).check(endless), cuota::budget_exceeded);
    CHECK(training_footprint({}).bytes() == 0);
}

TEST_CASE("a training plan lists its lines, computes its largest batch, and refuses a larger one",
          "[training][training_footprint]") {
    cuota::budget const gpu{"gpu", 1_MiB};
    auto const plan = training_footprint({{"conv", 1024, 2048}, {{}, 10'240, 1024, element_type::f16}},
                                         {.workspace_bytes = 4096});
    CHECK(plan.text(2) ==
          "footprint at a batch of 2: 200.0 KiB\n"
          "  layer 1 optimizer state   80.0 KiB     40.0 %   2 x 10'240 floats\n"
          "  layer 1 master weights    40.0 KiB     20.0 %   10'240 floats\n"
          "  layer 1 weights           20.0 KiB     10.0 %   10'240 elements of 2 B\n"
          "  layer 1 gradients         20.0 KiB     10.0 %   10'240 elements of 2 B\n"
          "  conv activations          16.0 KiB      8.0 %   2'048 floats per sample\n"
          "  conv optimizer state      8.0 KiB       4.0 %   2 x 1'024 floats\n"
          "  conv weights              4.0 KiB       2.0 %   1'024 floats\n"
          "  conv gradients            4.0 KiB       2.0 %   1'024 floats\n"
          "  layer 1 activations       4.0 KiB       2.0 %   1'024 elements of 2 B per sample\n"
          "  workspace                 4.0 KiB       2.0 %   4'096 bytes");
    auto const fit = plan.largest_batch(gpu);
    CHECK(fit.batch == 84);
    CHECK_NOTHROW(plan.check(gpu, fit.batch));
    CHECK_THROWS_AS(plan.check(gpu, fit.batch + 1), cuota::budget_exceeded);
}

TEST_CASE("the buffers of a training plan use exactly its bytes of a budget",
          "[training][training_footprint]") {
    std::vector<training_layer> const layers{{"stem", 3001, 257, element_type::f16, true},
                                             {"body", 10'007, 513, element_type::bf16},
                                             {"tail", 1, 3, element_type::bf16, true},
                                             {"head", 777, 1025}};
    for (state_storage const state : {state_storage::floats, state_storage::quantized}) {
        training_options const how{
            .optimizer = optimizer_kind::adamw, .state = state, .workspace_bytes = 5000};
        std::size_t const batch = 7;
        cuota::budget gpu{"gpu", 8_MiB};
        cuota::budgeted const memory{gpu, cuota::device_memory{}};
        cuota::stream const s;
        {
            using cuota::bfloat16;
            using cuota::device_buffer;
            cuota::device_buffer<cuota::half> const stem{3001, s, memory};
            device_buffer<bfloat16> const body{10'007, s, memory}, body_gradient{10'007, s, memory};
            device_buffer<float> const body_master{10'007, s, memory};
            device_buffer<bfloat16> const body_kept{513 * batch, s, memory};
            device_buffer<bfloat16> const tail{1, s, memory}, tail_kept{3 * batch, s, memory};
            device_buffer<float> const head{777, s, memory}, head_gradient{777, s, memory};
            device_buffer<float> const head_kept{1025 * batch, s, memory};
            device_buffer<std::byte> const workspace{5000, s, memory};
            std::vector<device_buffer<float>> moments;
            std::vector<device_buffer<std::uint8_t>> codes;
            for (unsigned const n : {10'007u, 777u})
                for (int i = 0; i != 2; ++i)
                    if (state == state_storage::floats) moments.emplace_back(n, s, memory);
                    else {
                        codes.emplace_back(n, s, memory);
                        moments.emplace_back((n + 255) / 256, s, memory);
                    }
        }
        CHECK(gpu.peak() == training_footprint(layers, how).bytes(batch));
        CHECK(gpu.held() == 0);
    }
}

TEST_CASE("invalid layers and options of a training plan are misuse", "[training][training_footprint]") {
    using support::thrown;
    auto const integers = thrown<cuota::usage_error>([] {
        (void)training_footprint({{"net", 1, 1, element_type::f32}, {"ids", 1, 1, element_type::i64}});
    });
    CHECK(std::string{integers.what()}.find("layer 1: parameters of type i64") != std::string::npos);
    CHECK_THROWS_AS((void)training_footprint({}, {.quantized_block = 0}), cuota::usage_error);
    CHECK_THROWS_AS((void)training_footprint({}, {.granularity = 3}), cuota::usage_error);
}

TEST_CASE("the bytes of the context are a line of the plan for a whole device",
          "[training][training_footprint]") {
    std::size_t const with = training_footprint({{"net", 128}}, {.context_bytes = 300_MiB}).bytes();
    CHECK(with == 300_MiB + 4 * 512);
}
