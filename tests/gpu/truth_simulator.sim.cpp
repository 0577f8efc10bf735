// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/truth_simulator.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <cuota/simulator.hpp>

namespace truth {
namespace {

namespace sim = cuota::simulator;

class simulated_neighbour final : public neighbour {
public:
    explicit simulated_neighbour(std::size_t bytes) { sim::set_other_programs(0, bytes); }
    ~simulated_neighbour() override { sim::set_other_programs(0, 0); }
};

[[nodiscard]] std::string findings() {
    static std::uint64_t told = 0;
    std::uint64_t const found = sim::misuse().total();
    std::uint64_t const before = std::exchange(told, found);
    if (found == before) return {};
    std::string text = "the simulator found " + std::to_string(found - before) + " mistakes; the last: ";
    for (std::vector<std::string> const& lines : {sim::misuse_reports(), sim::race_reports()})
        if (!lines.empty()) text += lines.back();
    return text;
}

[[maybe_unused]] bool const is_set = [] {
    play_neighbour = [](std::size_t bytes) -> std::unique_ptr<neighbour> {
        return std::make_unique<simulated_neighbour>(bytes);
    };
    take_findings = findings;
    return true;
}();

}  // namespace
}  // namespace truth
