// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include <cuota/simulator.hpp>

namespace support {

/// Counts calls of one CUDA function since construction, or of all functions if none is named.
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
