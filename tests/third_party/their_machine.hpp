// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator/control.hpp"

namespace control {

/// A machine for third-party code. CUB's allocator checks calls and launches by CUDA's last error and relies on cudaFree to wait, so both
/// behave as in CUDA.
class their_machine : public machine {
public:
    explicit their_machine(sim::options shape = {}) : machine{std::move(shape)} {
        auto how = sim::current_unkindness();
        how.stale_errors = how.free_at_once = false;
        sim::set_unkindness(how);
        (void)cudaGetLastError();
    }
};

}  // namespace control
