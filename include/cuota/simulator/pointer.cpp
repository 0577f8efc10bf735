// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"
#include "virtual_memory.hpp"

#include <cstring>

// The only driver function that is a symbol: programs link it by name.
namespace cuota::inline v0::simulator {
namespace {

template <class T>
CUresult give(void* out, T value) {
    std::memcpy(out, &value, sizeof value);
    return CUDA_SUCCESS;
}

CUresult ask(void* out, CUpointer_attribute which, allocation const& a, CUdeviceptr address) {
    bool const of_host = a.kind == memory_kind::pinned || a.kind == memory_kind::registered;
    auto const start = ~static_cast<CUdeviceptr>(a.disguise);
    switch (which) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return give(out, of_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give(out, address);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (a.kind == memory_kind::device) return CUDA_ERROR_INVALID_VALUE;
            return give(out, address);
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: return give(out, static_cast<unsigned long long>(a.number));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give(out, a.kind == memory_kind::managed);
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give(out, a.device);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return give(out, start);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return give(out, a.bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED: return give(out, true);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
            constexpr unsigned flags[] = {CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE,
                                          CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ,
                                          CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE};
            return give(out, flags[static_cast<int>(kernel_access(current_device(), a))]);
        }
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
            if (a.mapped) return give(out, a.mapped->memory->is_for_rdma);
            return give(out, a.kind == memory_kind::device && !a.from);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return give(out, reinterpret_cast<CUmemoryPool>(the_machine().pools.handle_of(a.from)));
#if CUDA_VERSION >= 12080
        // The simulated devices have no decompression engine.
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return give(out,
                        a.kind == memory_kind::device && !a.mapped && (!a.from || a.from->for_decompression));
#endif
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace
}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

extern "C" [[gnu::visibility("default")]] CUresult cuPointerGetAttribute(void* out, CUpointer_attribute which,
                                                                         CUdeviceptr address) {
    return driver_api(function::cuPointerGetAttribute, [&](guard&) {
        auto const a = find_memory(reinterpret_cast<void const*>(address));
        return out && a ? ask(out, which, *a, address) : CUDA_ERROR_INVALID_VALUE;
    });
}
