// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <string_view>

namespace cuota::inline v0::simulator {
namespace {

struct error_text {
    CUresult code;
    char const* name;
    char const* text;
};

#define E(code, text)                                                                                        \
    { code, #code, text }
constexpr error_text texts[] = {
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    E(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    E(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    E(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    E(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    E(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    E(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef E

error_text const* find(CUresult code) {
    for (auto const& e : texts)
        if (e.code == code) return &e;
    return nullptr;
}

CUresult answer(char const** out, CUresult code, char const* error_text::*which, function f) {
    sanitizer::quiet quiet;
    admit(f);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    auto const* const e = find(code);
    *out = e ? e->*which : nullptr;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace driver {
namespace {

CUresult get_error_name(CUresult code, char const** out) {
    return answer(out, code, &error_text::name, function::cuGetErrorName);
}

CUresult get_error_string(CUresult code, char const** out) {
    return answer(out, code, &error_text::text, function::cuGetErrorString);
}

CUresult init(unsigned flags) {
    return driver_api(function::cuInit, [&](guard&) {
        if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
        return the_machine().devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
    });
}

CUresult driver_get_version(int* out) {
    return driver_api(function::cuDriverGetVersion, [&](guard&) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = CUDART_VERSION;
        return CUDA_SUCCESS;
    });
}

CUresult device_get(CUdevice* out, int index) {
    return driver_api(function::cuDeviceGet, [&](guard&) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        if (!find_device(index)) return CUDA_ERROR_INVALID_DEVICE;
        *out = index;
        return CUDA_SUCCESS;
    });
}

CUresult device_get_count(int* out) {
    return driver_api(function::cuDeviceGetCount, [&](guard&) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = the_machine().devices;
        return CUDA_SUCCESS;
    });
}

/// Driver and runtime number attributes alike. Unknown ones are zero.
CUresult device_get_attribute(int* out, CUdevice_attribute which, CUdevice index) {
    return driver_api(function::cuDeviceGetAttribute, [&](guard&) {
        if (!out || which < 1 || which >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
        auto const* const d = find_device(index);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        if (which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) *out = 1;
        else if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
            *out = the_machine().maps_for_rdma;
        else *out = attribute_of(*d, static_cast<cudaDeviceAttr>(which));
        return CUDA_SUCCESS;
    });
}

/// Retains are not counted: only cudaDeviceReset and `reset` destroy contexts.
CUcontext context_of(device& d) { return reinterpret_cast<CUcontext>(&d); }

device* device_of(CUcontext context) {
    for (auto const& d : the_machine().all_devices)
        if (context_of(*d) == context) return find_device(d->index);
    return nullptr;
}

CUresult ctx_push_current(CUcontext context) {
    return driver_api(function::cuCtxPushCurrent, [&](guard&) {
        auto const* const d = device_of(context);
        if (!d || !d->has_context) return CUDA_ERROR_INVALID_CONTEXT;
        if (caller.contexts == thread_info::most_contexts) return CUDA_ERROR_INVALID_VALUE;
        caller.context_of[caller.contexts++] = d->index;
        return CUDA_SUCCESS;
    });
}

CUresult ctx_pop_current(CUcontext* out) {
    return driver_api(function::cuCtxPopCurrent, [&](guard&) {
        if (caller.contexts == 0) return CUDA_ERROR_INVALID_CONTEXT;
        auto* const d = find_device(caller.context_of[--caller.contexts]);
        if (out) *out = d ? context_of(*d) : nullptr;
        return CUDA_SUCCESS;
    });
}

CUresult device_primary_ctx_get_state(CUdevice index, unsigned* flags, int* active) {
    return driver_api(function::cuDevicePrimaryCtxGetState, [&](guard&) {
        if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
        auto const* const d = find_device(index);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        *flags = 0;
        *active = d->has_context;
        return CUDA_SUCCESS;
    });
}

CUresult device_primary_ctx_retain(CUcontext* out, CUdevice index) {
    return driver_api(function::cuDevicePrimaryCtxRetain, [&](guard&) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        auto* const d = find_device(index);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        make_context(*d);
        *out = context_of(*d);
        return CUDA_SUCCESS;
    });
}

CUresult device_primary_ctx_release(CUdevice index) {
    return driver_api(function::cuDevicePrimaryCtxRelease, [&](guard&) {
        auto const* const d = find_device(index);
        if (!d) return CUDA_ERROR_INVALID_DEVICE;
        return d->has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    });
}

CUresult stream_get_ctx(CUstream handle, CUcontext* out) {
    return driver_api(function::cuStreamGetCtx, [&](guard&) {
        auto const s = find_stream(handle);
        if (!s) return to_driver(bad_handle());
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = context_of(s->owner);
        return CUDA_SUCCESS;
    });
}

CUresult ctx_get_device(CUdevice* out) {
    return driver_api(function::cuCtxGetDevice, [&](guard&) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = current_device().index;
        return CUDA_SUCCESS;
    });
}

CUresult get_proc_address(char const*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

}  // namespace
}  // namespace driver

namespace {

struct entry_point {
    std::string_view name;
    unsigned since;
    void* address;
    /// Form for which stream 0 is the thread's own stream.
    void* of_own_stream = nullptr;
};

template <class F>
void* address_of(F* f) {
    return reinterpret_cast<void*>(f);
}

entry_point const* find_entry_point(std::string_view name) {
    static entry_point const all[] = {
        {"cuInit", 2000, address_of(driver::init)},
        {"cuDriverGetVersion", 2020, address_of(driver::driver_get_version)},
        {"cuDeviceGet", 2000, address_of(driver::device_get)},
        {"cuDeviceGetCount", 2000, address_of(driver::device_get_count)},
        {"cuDeviceGetAttribute", 2000, address_of(driver::device_get_attribute)},
        {"cuGetProcAddress", 12000, address_of(driver::get_proc_address)},
        {"cuStreamGetCtx", 9020, address_of(driver::stream_get_ctx)},
        {"cuCtxGetDevice", 2000, address_of(driver::ctx_get_device)},
        {"cuCtxPushCurrent", 4000, address_of(driver::ctx_push_current)},
        {"cuCtxPopCurrent", 4000, address_of(driver::ctx_pop_current)},
        {"cuDevicePrimaryCtxGetState", 7000, address_of(driver::device_primary_ctx_get_state)},
        {"cuDevicePrimaryCtxRetain", 7000, address_of(driver::device_primary_ctx_retain)},
        {"cuDevicePrimaryCtxRelease", 11000, address_of(driver::device_primary_ctx_release)},
        {"cuGetErrorName", 6000, address_of(driver::get_error_name)},
        {"cuGetErrorString", 6000, address_of(driver::get_error_string)},
        {"cuPointerGetAttribute", 4000, address_of(&cuPointerGetAttribute)},
        {"cuMemGetAllocationGranularity", 10020, address_of(driver::mem_get_allocation_granularity)},
        {"cuMemAddressReserve", 10020, address_of(driver::mem_address_reserve)},
        {"cuMemAddressFree", 10020, address_of(driver::mem_address_free)},
        {"cuMemCreate", 10020, address_of(driver::mem_create)},
        {"cuMemRelease", 10020, address_of(driver::mem_release)},
        {"cuMemMap", 10020, address_of(driver::mem_map)},
        {"cuMemUnmap", 10020, address_of(driver::mem_unmap)},
        {"cuMemSetAccess", 10020, address_of(driver::mem_set_access)},
        {"cuMemGetAccess", 10020, address_of(driver::mem_get_access)},
        {"cuMemRetainAllocationHandle", 11000, address_of(driver::mem_retain_allocation_handle)},
        {"cuMemGetAllocationPropertiesFromHandle", 10020, address_of(driver::mem_get_allocation_properties)},
        {"cuMemsetD8Async", 3020, address_of(driver::memset_d8), address_of(driver::memset_d8_ptsz)},
        {"cuMemsetD16Async", 3020, address_of(driver::memset_d16), address_of(driver::memset_d16_ptsz)},
        {"cuMemsetD32Async", 3020, address_of(driver::memset_d32), address_of(driver::memset_d32_ptsz)},
    };
    for (auto const& e : all)
        if (e.name == name) return &e;
    return nullptr;
}

constexpr unsigned own_streams_since = 7000;

/// `by_default` is the meaning of cudaEnableDefault, which depends on how the caller was compiled.
cudaError_t look_up(char const* symbol, void** out, unsigned version, unsigned long long flags,
                    cudaDriverEntryPointQueryResult* status, unsigned long long by_default) {
    if (!symbol || !out || version > CUDART_VERSION || flags > cudaEnablePerThreadDefaultStream)
        return cudaErrorInvalidValue;
    auto const* const e = find_entry_point(symbol);
    bool const is_own =
        (flags == cudaEnableDefault ? by_default : flags) == cudaEnablePerThreadDefaultStream && e &&
        e->of_own_stream;
    bool const old_enough = e && (is_own ? own_streams_since : e->since) <= version;
    *out = !old_enough ? nullptr : is_own ? e->of_own_stream : e->address;
    if (status)
        *status = old_enough ? cudaDriverEntryPointSuccess
                  : e        ? cudaDriverEntryPointVersionNotSufficent
                             : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t entry(function f, char const* symbol, void** out, unsigned version, unsigned long long flags,
                  cudaDriverEntryPointQueryResult* status, unsigned long long by_default) {
    return api(f, [&](guard&) { return look_up(symbol, out, version, flags, status, by_default); });
}

}  // namespace

CUresult to_driver(cudaError_t error) noexcept {
    auto const same = static_cast<CUresult>(error);
    return find(same) ? same : CUDA_ERROR_UNKNOWN;
}

namespace driver {
namespace {

CUresult get_proc_address(char const* symbol, void** out, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
    return driver_api(function::cuGetProcAddress, [&](guard&) {
        if (version < 0) return CUDA_ERROR_INVALID_VALUE;
        cudaDriverEntryPointQueryResult found{};
        auto const code =
            look_up(symbol, out, static_cast<unsigned>(version), flags, &found, cudaEnableLegacyStream);
        if (status) *status = static_cast<CUdriverProcAddressQueryResult>(found);
        return to_driver(code);
    });
}

}  // namespace
}  // namespace driver

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** out, unsigned int version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
    return entry(function::cudaGetDriverEntryPointByVersion, symbol, out, version, flags, status,
                 cudaEnableLegacyStream);
}

// Deprecated, but called by code from before 12.5.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
cudaError_t cudaGetDriverEntryPoint(char const* symbol, void** out, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
    return entry(function::cudaGetDriverEntryPoint, symbol, out, CUDART_VERSION, flags, status,
                 cudaEnableLegacyStream);
}
#pragma GCC diagnostic pop

extern "C" {
[[gnu::visibility("default")]] cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    char const* symbol, void** out, unsigned int version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
    return entry(function::cudaGetDriverEntryPointByVersion, symbol, out, version, flags, status,
                 cudaEnablePerThreadDefaultStream);
}

[[gnu::visibility("default")]] cudaError_t cudaGetDriverEntryPoint_ptsz(
    char const* symbol, void** out, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    return entry(function::cudaGetDriverEntryPoint, symbol, out, CUDART_VERSION, flags, status,
                 cudaEnablePerThreadDefaultStream);
}
}
