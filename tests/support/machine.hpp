// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A new simulated machine for one test.
#pragma once

#include <cstddef>
#include <string>

#include <cuota/simulator/simulator.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"

namespace support {

/// Resets the simulator. At its end nothing more may be alive than before, and no reported error left unlooked at.
class machine {
public:
    explicit machine(cuota::simulator::options shape = {}) {
        cuota::simulator::reset(shape);
        alive_before_ = cuota::simulator::live().total();  // of a test that failed
    }
    machine(machine const&) = delete;
    machine& operator=(machine const&) = delete;
    ~machine() {
        cuota::simulator::clear_faults();
        std::string left;
        if (cuota::simulator::live().total() != alive_before_)
            for (std::string const& line : cuota::simulator::leaks()) left += "alive: " + line + '\n';
        for (std::string const& text : errors.take()) left += "reported: " + text + '\n';
        INFO(left);
        CHECK(left.empty());
        CHECK(cuota::simulator::live().total() == alive_before_);
    }

    captured_errors errors;

private:
    std::size_t alive_before_;
};

}  // namespace support
