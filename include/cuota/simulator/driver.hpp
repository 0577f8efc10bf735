// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

#include <cuda.h>

// These macros would change the names in functions.hpp.
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuDevicePrimaryCtxRelease
#undef cuGetProcAddress
#undef cuStreamGetCtx

/// Driver functions that cudaGetDriverEntryPointByVersion returns.
namespace cuota::inline v0::simulator {

CUresult to_driver(cudaError_t error) noexcept;

/// Runs a driver function like `api`, but leaves the thread's last error unchanged.
template <class F>
CUresult driver_api(function f, F&& body) noexcept {
    sanitizer::quiet quiet;
    auto const admitted = admit(f);
    auto error = to_driver(admitted.error);
    if (!admitted.run) return error;
    try {
        guard lock{the_machine().mutex};
        make_context_for(f);
        auto const refused = to_driver(refused_by_captures(f));
        CUresult const result = refused == CUDA_SUCCESS ? body(lock) : refused;
        return error == CUDA_SUCCESS ? result : error;
    } catch (std::bad_alloc const&) { return CUDA_ERROR_OUT_OF_MEMORY; } catch (...) {
        return CUDA_ERROR_UNKNOWN;
    }
}

namespace driver {

CUresult mem_get_allocation_granularity(std::size_t*, CUmemAllocationProp const*,
                                        CUmemAllocationGranularity_flags);
CUresult mem_address_reserve(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
CUresult mem_address_free(CUdeviceptr, std::size_t);
CUresult mem_create(CUmemGenericAllocationHandle*, std::size_t, CUmemAllocationProp const*,
                    unsigned long long);
CUresult mem_release(CUmemGenericAllocationHandle);
CUresult mem_map(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult mem_unmap(CUdeviceptr, std::size_t);
CUresult mem_set_access(CUdeviceptr, std::size_t, CUmemAccessDesc const*, std::size_t);
CUresult mem_get_access(unsigned long long*, CUmemLocation const*, CUdeviceptr);
CUresult mem_retain_allocation_handle(CUmemGenericAllocationHandle*, void*);
CUresult mem_get_allocation_properties(CUmemAllocationProp*, CUmemGenericAllocationHandle);

/// With _ptsz, stream 0 is the calling thread's default stream.
CUresult memset_d8(CUdeviceptr, unsigned char, std::size_t, CUstream);
CUresult memset_d16(CUdeviceptr, unsigned short, std::size_t, CUstream);
CUresult memset_d32(CUdeviceptr, unsigned, std::size_t, CUstream);
CUresult memset_d8_ptsz(CUdeviceptr, unsigned char, std::size_t, CUstream);
CUresult memset_d16_ptsz(CUdeviceptr, unsigned short, std::size_t, CUstream);
CUresult memset_d32_ptsz(CUdeviceptr, unsigned, std::size_t, CUstream);

}  // namespace driver
}  // namespace cuota::inline v0::simulator
