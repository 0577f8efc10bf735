// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>

#include "model/interleavings.hpp"
#include "support/catch.hpp"

namespace model {

/// Totals of the explorations of several programs.
struct tally {
    std::size_t programs = 0;
    std::size_t states = 0;
    double executions = 0;

    /// Explores an S of a program, with a thread for each part, and requires that all states were explored and no check failed.
    template <class S, class Program, class... Args>
    void explore(options const& how, Program const& run, Args const&... args) {
        result const found = model::explore<S>(how, static_cast<int>(run.size()), run, args...);
        INFO(found.failure);
        REQUIRE(found.failure.empty());
        REQUIRE(found.complete);
        REQUIRE(found.cycles == 0);
        ++programs;
        states += found.states;
        executions += found.executions;
    }
};

inline void tell(tally const& sum) {
    std::printf("explored %zu programs, %zu states, %.3g executions\n", sum.programs, sum.states,
                sum.executions);
}

}  // namespace model
