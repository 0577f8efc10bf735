// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <algorithm>
#include <climits>

// Queries about kernels. All have 32 registers and no static shared memory.
namespace cuota::inline v0::simulator {
namespace {

constexpr int registers_per_thread = 32, warp = 32;
constexpr int shared_by_default = 48 << 10, most_shared = 227 << 10, reserved_shared = 1 << 10;

std::map<void const*, int>& dynamic_shared() {
    static auto* const all = new std::map<void const*, int>;
    return *all;
}

}  // namespace

int dynamic_shared_of(void const* kernel) {
    auto const found = dynamic_shared().find(kernel);
    return found == dynamic_shared().end() ? shared_by_default : found->second;
}

namespace {

int blocks_at_once(device const& d, int threads, std::size_t shared) {
    auto const has = [&d](cudaDeviceAttr which) { return attribute_of(d, which); };
    if (threads > has(cudaDevAttrMaxThreadsPerBlock)) return 0;
    int const rounded = (threads + warp - 1) / warp * warp;
    auto const per_block = shared + reserved_shared;
    auto const by_shared =
        static_cast<std::size_t>(has(cudaDevAttrMaxSharedMemoryPerMultiprocessor)) / per_block;
    return std::min({has(cudaDevAttrMaxThreadsPerMultiProcessor) / rounded,
                     has(cudaDevAttrMaxRegistersPerMultiprocessor) / (rounded * registers_per_thread),
                     has(cudaDevAttrMaxBlocksPerMultiprocessor),
                     static_cast<int>(std::min<std::size_t>(by_shared, INT_MAX))});
}

cudaError_t occupancy(function f, int* out, void const* kernel, int threads, std::size_t shared,
                      unsigned flags) {
    return api(f, [&](guard&) {
        if (!kernel) return cudaErrorInvalidDeviceFunction;
        if (!out || threads <= 0 || (flags & ~unsigned{cudaOccupancyDisableCachingOverride}) != 0)
            return cudaErrorInvalidValue;
        bool const fits = shared <= static_cast<std::size_t>(dynamic_shared_of(kernel));
        *out = fits ? blocks_at_once(current_device(), threads, shared) : 0;
        return cudaSuccess;
    });
}

}  // namespace
}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void const* kernel, int threads,
                                                          size_t shared) {
    return occupancy(function::cudaOccupancyMaxActiveBlocksPerMultiprocessor, out, kernel, threads, shared,
                     cudaOccupancyDefault);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, void const* kernel, int threads,
                                                                   size_t shared, unsigned int flags) {
    return occupancy(function::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, out, kernel, threads,
                     shared, flags);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, void const* kernel) {
    return api(function::cudaFuncGetAttributes, [&](guard&) {
        if (!kernel) return cudaErrorInvalidDeviceFunction;
        if (!out) return cudaErrorInvalidValue;
        auto const& d = current_device();
        *out = {};
        out->maxThreadsPerBlock = attribute_of(d, cudaDevAttrMaxThreadsPerBlock);
        out->numRegs = registers_per_thread;
        out->ptxVersion = out->binaryVersion = 10 * attribute_of(d, cudaDevAttrComputeCapabilityMajor) +
                                               attribute_of(d, cudaDevAttrComputeCapabilityMinor);
        out->maxDynamicSharedSizeBytes = dynamic_shared_of(kernel);
        out->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
        return cudaSuccess;
    });
}

// The simulator has no device code.
cudaError_t cudaFuncGetParamInfo(void const* kernel, std::size_t, std::size_t* offset, std::size_t*) {
    return api(function::cudaFuncGetParamInfo, [&](guard&) {
        if (!kernel) return cudaErrorInvalidDeviceFunction;
        return offset ? cudaErrorNotSupported : cudaErrorInvalidValue;
    });
}

cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute which, int value) {
    return api(function::cudaFuncSetAttribute, [&](guard&) {
        if (!kernel) return cudaErrorInvalidDeviceFunction;
        switch (which) {
            case cudaFuncAttributeMaxDynamicSharedMemorySize:
                if (value < 0 || value > most_shared) return cudaErrorInvalidValue;
                dynamic_shared()[kernel] = value;
                return cudaSuccess;
            case cudaFuncAttributePreferredSharedMemoryCarveout:  // a hint
                return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
            default: return cudaErrorNotSupported;
        }
    });
}
