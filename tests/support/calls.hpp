// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What an operation asked of the simulated runtime.
#pragma once

#include <cstdint>

#include <cuota/simulator/simulator.hpp>

namespace support {

/// Calls of a CUDA function since this was made; of all functions when none is named.
class calls_since {
public:
    explicit calls_since(char const* function = nullptr) : function_{function}, before_{now()} {}
    [[nodiscard]] std::uint64_t count() const { return now() - before_; }

private:
    [[nodiscard]] std::uint64_t now() const {
        return function_ ? cuota::simulator::calls(function_) : cuota::simulator::calls();
    }
    char const* function_;
    std::uint64_t before_;
};

}  // namespace support
