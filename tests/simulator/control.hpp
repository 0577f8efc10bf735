// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuota/simulator.hpp>

#include <utility>

#include "simulator/conformance.hpp"

extern "C" {
cudaError_t cuota_simulator_launch(cudaStream_t stream, const char* name, void (*run)(void*),
                                   void (*drop)(void*), void* body);
void cuota_simulator_declare(cudaStream_t stream, const void* pointer, std::size_t bytes, int writes);
std::uint64_t cuota_simulator_borrow(cudaStream_t stream, const void* pointer, std::size_t bytes, int writes);
void cuota_simulator_return(std::uint64_t number);
void cuota_simulator_next_call(const char* file, unsigned line, const char* tag);
int cuota_simulator_in_kernel(void);
const char* cuota_simulator_fault(void);
}

/// Shared by the tests of the simulator's own controls.
namespace control {

using namespace conformance;
namespace sim = cuota::simulator;

/// A machine of the given shape for one test, which must not leak.
class machine {
public:
    explicit machine(sim::options shape = {}) { sim::reset(shape); }
    ~machine() {
        sim::clear_faults();
        CHECK(sim::live().total() == 0);
        sim::reset();
    }
    machine(machine const&) = delete;
    machine& operator=(machine const&) = delete;
};

/// Enqueues `f` as a simulated kernel.
template <class F>
cudaError_t launch(cudaStream_t s, const char* name, F f) {
    auto* const body = new F(std::move(f));
    auto const result = cuota_simulator_launch(
        s, name, [](void* b) { (*static_cast<F*>(b))(); }, [](void* b) { delete static_cast<F*>(b); }, body);
    if (result != cudaSuccess) delete body;
    return result;
}

inline std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return free;
}

inline constexpr std::size_t KiB = 1024;

}  // namespace control
