// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The primary context of a device, created on first use: hundreds of megabytes on a GPU.
#pragma once

#include <cuota/core/config.hpp>

namespace cuota::inline v0::rt {

/// Returns whether the device's primary context exists; true if the driver does not report it. Throws: cuda_error. Threads: any. Cost: a
/// driver call.
[[nodiscard]] bool has_primary_context(int device);

/// Makes the device's primary context current for the calling thread. pop_primary_context restores the previous one without cudaSetDevice,
/// which would create a context there. Throws: cuda_error; nothing changes.
void push_primary_context(int device);

/// Reports errors.
void pop_primary_context() noexcept;

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/driver_call.hpp>

namespace cuota::inline v0::rt::driver {

/// Driver functions. From the first one that the driver lacks, all are null.
struct context_calls {
    CUresult (*device_get)(CUdevice*, int);        ///< cuDeviceGet
    CUresult (*state)(CUdevice, unsigned*, int*);  ///< cuDevicePrimaryCtxGetState
    CUresult (*retain)(CUcontext*, CUdevice);      ///< cuDevicePrimaryCtxRetain
    CUresult (*release)(CUdevice);                 ///< cuDevicePrimaryCtxRelease
    CUresult (*push)(CUcontext);                   ///< cuCtxPushCurrent
    CUresult (*pop)(CUcontext*);                   ///< cuCtxPopCurrent
    bool is_complete;
};

/// Looks the functions up once. Threads: any. Throws: cuda_error.
[[nodiscard]] context_calls const& calls_for_contexts();

CUOTA_INLINE context_calls const& calls_for_contexts() {
    static context_calls const found = [] {
        context_calls calls{};
        calls.is_complete = find_call(calls.device_get, "cuDeviceGet", 2000) &&
                            find_call(calls.state, "cuDevicePrimaryCtxGetState", 7000) &&
                            find_call(calls.retain, "cuDevicePrimaryCtxRetain", 7000) &&
                            find_call(calls.release, "cuDevicePrimaryCtxRelease", 11000) &&
                            find_call(calls.push, "cuCtxPushCurrent", 4000) &&
                            find_call(calls.pop, "cuCtxPopCurrent", 4000);
        return calls;
    }();
    return found;
}

}  // namespace cuota::inline v0::rt::driver

namespace cuota::inline v0::rt {

CUOTA_INLINE bool has_primary_context(int device) {
    driver::context_calls const& native = driver::calls_for_contexts();
    if (!native.is_complete) return true;
    CUdevice handle = 0;
    CUresult const code = native.device_get(&handle, device);
    if (code == CUDA_ERROR_NOT_INITIALIZED) return false;  // no context exists
    driver::check(code, "cuDeviceGet");
    unsigned flags = 0;
    int is_active = 0;
    driver::check(native.state(handle, &flags, &is_active), "cuDevicePrimaryCtxGetState");
    return is_active != 0;
}

CUOTA_INLINE void push_primary_context(int device) {
    relaxed_capture_mode const beside;
    check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
    driver::context_calls const& native = driver::calls_for_contexts();
    CUdevice handle = 0;
    driver::check(native.device_get(&handle, device), "cuDeviceGet");
    CUcontext context = nullptr;
    driver::check(native.retain(&context, handle), "cuDevicePrimaryCtxRetain");
    CUresult const code = native.push(context);
    // The runtime keeps the context of cudaInitDevice.
    driver::give_back("cuDevicePrimaryCtxRelease", [&] { return native.release(handle); });
    driver::check(code, "cuCtxPushCurrent");
}

CUOTA_INLINE void pop_primary_context() noexcept {
    CUcontext context = nullptr;
    driver::give_back("cuCtxPopCurrent", [&] { return driver::calls_for_contexts().pop(&context); });
}

}  // namespace cuota::inline v0::rt

#endif
