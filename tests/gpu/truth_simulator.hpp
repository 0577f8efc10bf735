// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Functions of the simulated runtime for gpu_truth, set by truth_simulator.sim.cpp, which a CUDA build leaves out. Null on a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace truth {

/// Another program that holds memory of the device until this object is destroyed.
class neighbour {
public:
    neighbour() = default;
    neighbour(neighbour const&) = delete;
    neighbour& operator=(neighbour const&) = delete;
    virtual ~neighbour() = default;
};

/// Simulates another program that holds `bytes` bytes. A real second process would have a simulated device of its own.
inline std::unique_ptr<neighbour> (*play_neighbour)(std::size_t bytes) = nullptr;

/// Returns the races and violations that the simulator has found since the last call; empty if none.
inline std::string (*take_findings)() = nullptr;

}  // namespace truth
