// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <sys/wait.h>

#include "simulator/control.hpp"
#include "support/sanitizer.hpp"
#include "support/this_program.hpp"

/// Runs this test program again on one of its tests, for tests that inspect a whole program from outside.
namespace control {

using support::under_address_sanitizer;
using support::under_thread_sanitizer;

struct outcome {
    int status = -1;
    std::string text;                    ///< standard output and error
    std::map<std::string, long> report;  ///< its lines of the form key=value
};

inline outcome run_again(std::string const& variables, std::string const& test) {
    auto const command =
        variables + ' ' + support::this_program() + ' ' + support::word_of_test(test) + " 2>&1";
    outcome result;
    auto* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char line[512];
    while (std::fgets(line, sizeof line, pipe)) {
        std::string const text{line};
        result.text += text;
        auto const equals = text.find('=');
        if (equals != 0 && equals != std::string::npos && text.find(' ') == std::string::npos)
            result.report[text.substr(0, equals)] = std::strtol(text.c_str() + equals + 1, nullptr, 10);
    }
    auto const status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

}  // namespace control
