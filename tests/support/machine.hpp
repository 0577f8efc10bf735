// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"

namespace support {

/// Returns the default shape of a test's machine. A pool reserves addresses for a whole device, and an emulator keeps records of reserved
/// pages until its process ends: with devices of 8 GiB, a test that makes a few hundred pools would take 18 GiB of the host.
[[nodiscard]] inline cuota::simulator::options usual_machine() {
    cuota::simulator::options shape;
    if (*CUOTA_EMULATOR) shape.capacity = std::size_t{1} << 30;
    return shape;
}

/// Resets the simulator for one test. The destructor checks that no object is alive that was not before, and that every reported error was
/// read.
class machine {
public:
    explicit machine(cuota::simulator::options shape = usual_machine()) : shape_{std::move(shape)} {
        reset();
        alive_before_ = cuota::simulator::live().total();  // left by a test that failed
    }
    machine(machine const&) = delete;
    machine& operator=(machine const&) = delete;
    ~machine() {
        cuota::simulator::clear_faults();
        finish_all_work();
        std::string left;
        if (cuota::simulator::live().total() != alive_before_)
            for (std::string const& line : cuota::simulator::leaks()) left += "alive: " + line + '\n';
        for (std::string const& text : errors.take()) left += "reported: " + text + '\n';
        INFO(left);
        CHECK(left.empty());
        CHECK(cuota::simulator::live().total() == alive_before_);
    }

    /// Resets the simulator in the same shape, for example after a device has failed.
    void reset() const { cuota::simulator::reset(shape_); }

    captured_errors errors;

private:
    // Waits for the work of destroyed streams. A kernel that ran on between two tests would end the program: faults of protected memory are
    // then handled by Catch2, not by the simulator.
    static void finish_all_work() {
        int before = 0;
        int devices = 0;
        if (cudaGetDevice(&before) == cudaSuccess && cudaGetDeviceCount(&devices) == cudaSuccess) {
            for (int d = 0; d != devices; ++d)
                if (cudaSetDevice(d) == cudaSuccess) (void)cudaDeviceSynchronize();
            (void)cudaSetDevice(before);
        }
        (void)cudaGetLastError();
    }

    cuota::simulator::options const shape_;
    std::size_t alive_before_;
};

}  // namespace support
