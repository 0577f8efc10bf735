// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/pipeline_1f1b.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

using cuota::max_in_flight;
using cuota::pipeline_1f1b;
using cuota::pipeline_op;
using cuota::pipeline_schedule;

namespace {

// Returns the makespan if every act takes one unit of time and each device runs its acts in order.
[[nodiscard]] std::size_t makespan_of(pipeline_schedule const& order) {
    std::map<std::size_t, std::size_t> free_at;
    std::map<std::tuple<std::size_t, std::size_t, bool>, std::size_t> over_at;
    std::size_t end = 0;
    std::size_t const last =
        order.empty() ? 0 : std::max_element(order.begin(), order.end(), [](pipeline_op a, pipeline_op b) {
                                return a.device < b.device;
                            })->device;
    for (pipeline_op const a : order) {
        std::size_t start = free_at[a.device];
        if (!a.is_backward && a.device != 0)
            start = std::max(start, over_at.at({a.device - 1, a.micro_batch, false}));
        if (a.is_backward && a.device != last)
            start = std::max(start, over_at.at({a.device + 1, a.micro_batch, true}));
        free_at[a.device] = over_at[{a.device, a.micro_batch, a.is_backward}] = start + 1;
        end = std::max(end, start + 1);
    }
    return end;
}

}  // namespace

TEST_CASE("1F1B runs each micro-batch forward and backward once on each device, after its inputs",
          "[training][pipeline_1f1b]") {
    std::size_t wrong = 0;
    for (std::size_t devices = 1; devices != 9; ++devices)
        for (std::size_t parts = 1; parts != 20; ++parts) {
            std::set<std::tuple<std::size_t, std::size_t, bool>> done;
            for (pipeline_op const a : pipeline_1f1b(devices, parts)) {
                bool is_right = a.device < devices && a.micro_batch < parts;
                if (!a.is_backward)
                    is_right =
                        is_right && (a.device == 0 || done.count({a.device - 1, a.micro_batch, false}));
                else
                    is_right = is_right && done.count({a.device, a.micro_batch, false}) &&
                               (a.device + 1 == devices || done.count({a.device + 1, a.micro_batch, true}));
                if (a.micro_batch != 0)
                    is_right = is_right && done.count({a.device, a.micro_batch - 1, a.is_backward});
                is_right = done.insert({a.device, a.micro_batch, a.is_backward}).second && is_right;
                wrong += !is_right;
            }
            wrong += done.size() != 2 * devices * parts;
        }
    CHECK(wrong == 0);
}

TEST_CASE("1F1B keeps exactly min(M, D - d) micro-batches on device d", "[training][pipeline_1f1b]") {
    std::size_t wrong = 0;
    for (std::size_t devices = 1; devices != 9; ++devices)
        for (std::size_t parts = 1; parts != 20; ++parts) {
            std::vector<std::size_t> live(devices), most(devices);
            for (pipeline_op const a : pipeline_1f1b(devices, parts)) {
                live[a.device] += a.is_backward ? std::size_t{0} - 1 : 1;
                most[a.device] = std::max(most[a.device], live[a.device]);
            }
            for (std::size_t d = 0; d != devices; ++d) {
                wrong += most[d] != (parts < devices - d ? parts : devices - d) || live[d] != 0;
                wrong += max_in_flight(devices, parts, d) != most[d];
            }
        }
    CHECK(wrong == 0);
    CHECK(max_in_flight(2, 5, 2) == 0);
}

TEST_CASE("1F1B has the shortest possible duration", "[training][pipeline_1f1b]") {
    for (std::size_t devices = 1; devices != 9; ++devices)
        for (std::size_t parts = 1; parts != 20; ++parts)
            CHECK(makespan_of(pipeline_1f1b(devices, parts)) == 2 * (parts + devices - 1));
}

TEST_CASE("two devices and three micro-batches run in the expected order", "[training][pipeline_1f1b]") {
    pipeline_schedule const order = pipeline_1f1b(2, 3);
    auto const of_device = [&](std::size_t d) {
        std::vector<pipeline_op> mine;
        for (pipeline_op const a : order)
            if (a.device == d) mine.push_back(a);
        return mine;
    };
    CHECK(of_device(0) ==
          std::vector<pipeline_op>{
              {0, 0, false}, {0, 1, false}, {0, 0, true}, {0, 2, false}, {0, 1, true}, {0, 2, true}});
    CHECK(of_device(1) ==
          std::vector<pipeline_op>{
              {1, 0, false}, {1, 0, true}, {1, 1, false}, {1, 1, true}, {1, 2, false}, {1, 2, true}});
}

TEST_CASE("a pipeline without devices or micro-batches is refused", "[training][pipeline_1f1b]") {
    CHECK_THROWS_AS((void)pipeline_1f1b(0, 1), cuota::usage_error);
    CHECK_THROWS_AS((void)pipeline_1f1b(1, 0), cuota::usage_error);
}
