// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <stdexcept>

// Faults by probability, by size, and of a whole device. Counted faults are in control.cpp.
namespace cuota::inline v0::simulator {

cudaError_t drawn(function f) {
    constexpr double two_to_53 = 9007199254740992.0;
    cudaError_t hit = cudaSuccess;
    for (auto& fault : the_machine().random_faults) {
        if (fault.only ? *fault.only != f : false) continue;
        // Drawn even when the call fails anyway, so that plans do not affect each other.
        bool const strikes = static_cast<double>(fault.draw() >> 11) / two_to_53 < fault.probability;
        if (strikes && hit == cudaSuccess) hit = fault.code == cudaSuccess ? default_code(f) : fault.code;
    }
    return hit;
}

bool too_large(std::size_t bytes) {
    auto& m = the_machine();
    if (bytes <= m.largest_allocation) return false;
    ++m.injected;
    return true;
}

void fail_randomly(char const* name, double probability, std::uint64_t seed, cudaError_t code) {
    sanitizer::quiet quiet;
    if (!(probability >= 0 && probability <= 1))
        throw std::invalid_argument{"the probability must be from 0 to 1"};
    std::optional<function> only;
    if (name) {
        only = function_named(name);
        if (!only || trait_of(*only) == trait::about)
            throw std::invalid_argument{std::string{name} + " cannot fail"};
    }
    auto& m = the_machine();
    guard lock{m.mutex};
    m.random_faults.push_back({only, probability, code, std::mt19937_64{seed}});
    m.has_plans = true;
}

void fail_larger_than(std::size_t bytes) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    the_machine().largest_allocation = bytes;
}

void lose_device(int index) {
    sanitizer::quiet quiet;
    device* d = nullptr;
    {
        guard lock{the_machine().mutex};
        d = find_device(index);
    }
    if (!d) throw std::invalid_argument{"simulated device " + std::to_string(index) + " does not exist"};
    fail_device(*d, cudaErrorDevicesUnavailable, "the device was lost");
}

}  // namespace cuota::inline v0::simulator
