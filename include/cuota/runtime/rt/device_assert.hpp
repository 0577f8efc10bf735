// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records of why kernels on a GPU stopped (device-side assertions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/out_of_bounds.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::rt {

/// The first misuse that a kernel detected, in page-locked host memory, because the trap that stops the kernel destroys the device's
/// context. Tag and call site are addresses in the host.
struct alignas(4096) device_assert_record {
    static constexpr unsigned none = 0,  ///< values of `state`
        being_written = 1,               ///< must not be read
        written = 2;                     ///< complete

    unsigned state = none;                ///< accessed atomically
    char unit[16] = {};                   ///< such as "floats", at most 15 characters
    cuota::detail::out_of_bounds what{};  ///< requested values and extents
    tag name{};                           ///< of the buffer
    source_location leased{};             ///< call site of the lease
};

/// Returns the record of the process.
CUOTA_PROCESS_STATE [[nodiscard]] device_assert_record& first_device_assert() noexcept;

namespace detail {

/// Makes `record` writable for kernels of all devices at its own address. Returns null, with nothing locked, on failure.
[[nodiscard]] device_assert_record* open_to_kernels(device_assert_record& record) noexcept;

CUOTA_HOST_DEVICE inline bool claim(unsigned& state) noexcept {
#if defined(__CUDA_ARCH__)
    return atomicCAS(&state, device_assert_record::none, device_assert_record::being_written) ==
           device_assert_record::none;
#else
    unsigned expected = device_assert_record::none;
    return __atomic_compare_exchange_n(&state, &expected, device_assert_record::being_written, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
#endif
}

CUOTA_HOST_DEVICE inline void publish(unsigned& state) noexcept {
#if defined(__CUDA_ARCH__)
    __threadfence_system();
    *static_cast<unsigned volatile*>(&state) = device_assert_record::written;
    __threadfence_system();
#else
    __atomic_store_n(&state, device_assert_record::written, __ATOMIC_RELEASE);
#endif
}

}  // namespace detail

/// Returns the record for kernels; null on the simulator, where kernels throw, and if CUDA refuses. Cost: the first call locks a page.
/// Threads: any.
CUOTA_PROCESS_STATE [[nodiscard]] device_assert_record* device_assert_buffer() noexcept;

/// Writes the first misuse. Threads: any, of host and devices.
CUOTA_HOST_DEVICE inline void record_device_assert(device_assert_record& in,
                                                   cuota::detail::out_of_bounds const& what, char const* unit,
                                                   tag name, source_location leased) noexcept {
    if (!detail::claim(in.state)) return;
    in.what = what;
    in.name = name;
    in.leased = leased;
    for (std::size_t i = 0; i + 1 != sizeof in.unit && unit[i] != '\0'; ++i) in.unit[i] = unit[i];
    detail::publish(in.state);
}

/// Formats the misuse, or returns "". Throws: std::bad_alloc.
[[nodiscard]] std::string text_of(device_assert_record const& noted);

/// Returns the recorded misuse if a stopped kernel leaves the error `code`, or "". Throws: std::bad_alloc.
[[nodiscard]] std::string device_assert_text(cudaError_t code);

#if defined(__CUDACC__)
/// Stops all work on the device. Without a record, prints the misuse.
__device__ __noinline__ inline void fail_device_assert(device_assert_record* notebook,
                                                       cuota::detail::out_of_bounds const& what,
                                                       char const* unit, tag name, source_location leased) {
#if defined(__CUDA_ARCH__)
    if (notebook) {
        record_device_assert(*notebook, what, unit, name, leased);
        // A trap may stop other threads, so wait until the first one has written.
        unsigned const volatile& state = notebook->state;
        for (int i = 0; i != 1'000'000 && state != device_assert_record::written; ++i) {}
    } else {
        using n = unsigned long long;
        printf("cuota::usage_error: (%llu, %llu, %llu, %llu) of %s is outside a view of %llu, %llu\n",
               n{what.requested[0]}, n{what.requested[1]}, n{what.requested[2]}, n{what.requested[3]}, unit,
               n{what.has[0]}, n{what.has[1]});
    }
    __trap();
#endif
}
#endif

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::rt {

CUOTA_INLINE_STATE device_assert_record& first_device_assert() noexcept {
    static constinit device_assert_record first{};
    return first;
}

}  // namespace cuota::inline v0::rt

namespace cuota::inline v0::rt::detail {

CUOTA_INLINE device_assert_record* open_to_kernels(device_assert_record& record) noexcept {
    auto const succeeds = [](cudaError_t code) {
        if (code != cudaSuccess) (void)cudaGetLastError();  // clears our own error
        return code == cudaSuccess;
    };
    // Locking pages would invalidate captures.
    auto mode = cudaStreamCaptureModeRelaxed;
    bool const is_relaxed = succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
    unsigned const shared = cudaHostRegisterPortable | cudaHostRegisterMapped;
    bool const is_locked = succeeds(cudaHostRegister(&record, sizeof record, shared));
    void* seen = nullptr;
    bool const is_open =
        is_locked && succeeds(cudaHostGetDevicePointer(&seen, &record, 0)) && seen == &record;
    if (is_locked && !is_open) (void)succeeds(cudaHostUnregister(&record));
    if (is_relaxed) (void)succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
    return is_open ? &record : nullptr;
}

}  // namespace cuota::inline v0::rt::detail

namespace cuota::inline v0::rt {

CUOTA_INLINE_STATE device_assert_record* device_assert_buffer() noexcept {
    if (is_simulated()) return nullptr;
    static device_assert_record* const open = detail::open_to_kernels(first_device_assert());
    return open;
}

CUOTA_INLINE std::string text_of(device_assert_record const& noted) {
    if (__atomic_load_n(&noted.state, __ATOMIC_ACQUIRE) != device_assert_record::written) return {};
    return cuota::detail::message("cuota::usage_error: {}{}",
                                  {cuota::detail::bounds_text(noted.what, noted.unit),
                                   cuota::detail::lease_text(noted.name, noted.leased)});
}

CUOTA_INLINE std::string device_assert_text(cudaError_t code) {
    bool const is_left_by_a_trap =
        code == cudaErrorLaunchFailure || code == cudaErrorIllegalInstruction || code == cudaErrorAssert;
    return is_left_by_a_trap ? text_of(first_device_assert()) : std::string{};
}

}  // namespace cuota::inline v0::rt

#endif
