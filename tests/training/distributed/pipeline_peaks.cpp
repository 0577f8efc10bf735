// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/pipeline_peaks.hpp>

#include <random>
#include <vector>

#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/catch.hpp"

using cuota::chain;
using cuota::chain_stage;
using cuota::pipeline_peaks;

namespace {

[[nodiscard]] chain_stage piped_stage(std::size_t output, std::size_t saved, std::size_t forward = 0,
                                      std::size_t backward = 0) {
    chain_stage s;
    s.output_bytes = output;
    s.saved_bytes = saved;
    s.forward_scratch = forward;
    s.backward_scratch = backward;
    return s;
}

}  // namespace

TEST_CASE("a pipeline of one device has the peak of a chain that keeps everything",
          "[training][pipeline_peaks]") {
    std::mt19937 random{3};
    for (int round = 0; round != 300; ++round) {
        chain c;
        for (std::size_t left = 1 + random() % 6; left != 0; --left)
            c.stages.push_back(piped_stage(random() % 50, random() % 50, random() % 90, random() % 90));
        std::size_t const expected = simulate(c, cuota::store_all_plan(c)).peak;
        CHECK(pipeline_peaks(c, {0}, 1) == std::vector<std::size_t>{expected});
        CHECK(pipeline_peaks(c, {0}, 5) == std::vector<std::size_t>{expected});
    }
}

TEST_CASE("the peaks of two devices equal the sums by hand", "[training][pipeline_peaks]") {
    chain c;
    c.stages = {piped_stage(10, 1), piped_stage(20, 2), piped_stage(5, 3, 100)};
    // One micro-batch. First device: two records (11 + 22), the copy of a gradient (20), the gradient of the first output (10). Second
    // device: a copy (20), a record (8), scratch (100).
    CHECK(pipeline_peaks(c, {0, 2}, 1) == std::vector<std::size_t>{63, 128});
    // More micro-batches: the first device keeps two (66), with the same gradients. When the second runs the next micro-batch forward, the
    // gradient of the previous one (20) has been fetched, because the first device was idle.
    CHECK(pipeline_peaks(c, {0, 2}, 2)[0] == 96);
    CHECK(pipeline_peaks(c, {0, 2}, 7)[0] == 96);
    CHECK(pipeline_peaks(c, {0, 2}, 7)[1] == pipeline_peaks(c, {0, 2}, 2)[1]);
    CHECK(pipeline_peaks(c, {0, 2}, 2)[1] == 128);
}

TEST_CASE("more micro-batches than devices do not increase the peaks of a pipeline",
          "[training][pipeline_peaks]") {
    std::mt19937 random{4};
    for (int round = 0; round != 300; ++round) {
        chain c;
        std::vector<std::size_t> first;
        for (std::size_t d = 0; d != 1 + static_cast<std::size_t>(round) % 4; ++d) {
            first.push_back(c.stages.size());
            for (std::size_t left = 1 + random() % 3; left != 0; --left)
                c.stages.push_back(piped_stage(random() % 50, random() % 50, random() % 90, random() % 90));
        }
        auto const many = pipeline_peaks(c, first, 2 * first.size() + 3);
        CHECK(pipeline_peaks(c, first, 1000) == many);
        auto const one = pipeline_peaks(c, first, 1);
        for (std::size_t d = 0; d != first.size(); ++d) CHECK(one[d] <= many[d]);
    }
}

TEST_CASE("invalid cuts and sizes that overflow are refused", "[training][pipeline_peaks]") {
    chain c;
    c.stages = {piped_stage(1, 1), piped_stage(1, 1), piped_stage(1, 1)};
    using cuts = std::vector<std::size_t>;
    for (cuts const& wrong : {cuts{}, cuts{1}, cuts{0, 0}, cuts{0, 2, 1}, cuts{0, 3}})
        CHECK_THROWS_AS((void)pipeline_peaks(c, wrong, 1), cuota::usage_error);
    CHECK_THROWS_AS((void)pipeline_peaks(c, {0, 1}, 0), cuota::usage_error);
    CHECK_THROWS_AS((void)pipeline_peaks({}, {0}, 1), cuota::usage_error);
    c.stages[1].saved_bytes = cuota::unlimited / 4;
    CHECK_NOTHROW((void)pipeline_peaks(c, {0, 1}, 2));
    CHECK_THROWS_AS((void)pipeline_peaks(c, {0, 1}, 9), cuota::usage_error);
    c.stages[1].saved_bytes = c.stages[2].saved_bytes = cuota::unlimited / 2 + 1;  // their sum wraps around
    CHECK_THROWS_AS((void)pipeline_peaks(c, {0, 1}, 1), cuota::usage_error);
}
