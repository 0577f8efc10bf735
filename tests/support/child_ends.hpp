// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The behaviour of a parent's owners in its child, where CUDA calls are counted.
#pragma once

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

#include <unistd.h>

#include <cuota/core/error_sink.hpp>
#include <cuota/simulator.hpp>

#include "support/child.hpp"

namespace support {

/// Returns the exit status of a child in which `end` destroys owners of its parent: 0 if it made no CUDA call and no report.
template <class End>
[[nodiscard]] int status_of_ends_in_child(End end) {
    return status_of_child([&] {
        static std::atomic<int> reports = 0;
        cuota::set_error_sink([](std::exception const& e) {
            std::fprintf(stderr, "in the child: %s\n", e.what());
            ++reports;
        });
        auto const calls = cuota::simulator::calls();
        end();
        ::_exit(reports != 0 ? 2 : cuota::simulator::calls() != calls ? 3 : 0);
    });
}

/// Checks requests that a child makes of its parent's owners: each must be refused because the process was forked.
class requests_in_child {
public:
    /// Checks that f throws the misuse.
    template <class F>
    void refuses(char const* what, F f) {
        if (is_refused_in_child(f)) return;
        std::fprintf(stderr, "in the child: %s was not refused\n", what);
        ++wrong_;
    }
    /// Checks that f, which is noexcept, reports the misuse to the error sink.
    template <class F>
    void reports(char const* what, F f) {
        static std::atomic<int> told = 0;
        told = 0;
        auto const before = cuota::set_error_sink([](std::exception const& e) {
            told += std::string{e.what()}.find("after fork()") != std::string::npos;
        });
        f();
        (void)cuota::set_error_sink(before);
        if (told == 1) return;
        std::fprintf(stderr, "in the child: %s was reported %d times\n", what, told.load());
        ++wrong_;
    }
    /// Checks another condition.
    void expect(char const* what, bool holds) {
        if (holds) return;
        std::fprintf(stderr, "in the child it is not so: %s\n", what);
        ++wrong_;
    }
    [[nodiscard]] int wrong() const noexcept { return wrong_; }

private:
    int wrong_ = 0;
};

/// Returns the exit status of a child in which `ask(requests)` makes requests: 0 if all were refused.
template <class Ask>
[[nodiscard]] int status_of_requests_in_child(Ask ask) {
    return status_of_child([&] {
        requests_in_child all;
        ask(all);
        ::_exit(all.wrong());
    });
}

}  // namespace support
