// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Allocation calls of the runtime. They return null if memory is insufficient; other failures throw cuda_error. No work may still use
/// memory that is freed or unlocked. For resource/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::rt {

namespace detail {

// A reference: another argument of the same expression sets it.
void* granted(cudaError_t code, void* const& pointer, char const* call);

/// Larger requests are refused without a call: near 2^64 the driver reports an invalid value instead of insufficient memory.
inline constexpr std::size_t max_request = std::size_t{1} << 47;

}  // namespace detail

/// Allocates memory of the current device, aligned to 256 bytes.
[[nodiscard]] void* device_allocate(std::size_t bytes);
/// Frees device memory; cudaFree need not wait for work. Like every deallocation here, returns false if the memory was not freed, which is
/// reported.
bool device_free(void* p) noexcept;

/// Allocates from the current device's default pool, in stream order; freed by async_free (stream.hpp). Throws: also usage_error if this thread or a foreign capture captures
/// s.
[[nodiscard]] void* async_allocate(std::size_t bytes, stream_ref s);
/// Bytes of a default pool, which the driver does not report as free.
struct pool_levels {
    std::size_t reserved = 0;  ///< used, or cached for async_allocate
    std::size_t used = 0;      ///< also by pending frees

    /// Returns the unused bytes.
    [[nodiscard]] std::size_t idle() const noexcept { return reserved - (used < reserved ? used : reserved); }
};
/// Returns 0 for a device without pools.
[[nodiscard]] pool_levels in_default_pool(device where);
/// Releases unused memory of the device's default pool.
void trim_default_pool(device where);

/// Allocates page-locked host memory for every device.
[[nodiscard]] void* pinned_allocate(std::size_t bytes);
/// Frees memory of pinned_allocate.
bool pinned_free(void* p) noexcept;

/// Page-locks host memory for every device. Returns false if that many pages cannot be locked. On failure, nothing is locked.
///
/// Drivers may reject a registration of 512 GiB or more, so the pages are registered in parts that end at multiples of registered_part. A
/// copy must not cross parts (copy.hpp). Cost: a CUDA call for each part.
[[nodiscard]] bool lock_pages(void* p, std::size_t bytes);
/// Undoes lock_pages with the same arguments.
bool unlock_pages(void* p, std::size_t bytes) noexcept;

/// A power of two.
inline constexpr std::size_t registered_part = std::size_t{256} << 30;

/// Returns the bytes to the end of a part, at most `bytes`.
[[nodiscard]] inline std::size_t within_part(void const* at, std::size_t bytes) noexcept {
    std::size_t const left = registered_part - reinterpret_cast<std::uintptr_t>(at) % registered_part;
    return bytes < left ? bytes : left;
}

/// Allocates memory that migrates between host and device, for device_free.
[[nodiscard]] void* managed_allocate(std::size_t bytes);

/// Returns the device of device or managed memory, or nullopt.
[[nodiscard]] std::optional<device> device_of(void const* p);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/detail/async_frees.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::rt::detail {

CUOTA_INLINE void* granted(cudaError_t code, void* const& pointer, char const* call) {
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return nullptr;
    }
    check(code, call);
    return pointer;
}

}  // namespace cuota::inline v0::rt::detail

namespace cuota::inline v0::rt {

CUOTA_INLINE void* device_allocate(std::size_t bytes) {
    if (bytes > detail::max_request) return nullptr;
    relaxed_capture_mode const beside;
    void* p = nullptr;
    return detail::granted(cudaMalloc(&p, bytes), p, "cudaMalloc");
}

CUOTA_INLINE bool device_free(void* p) noexcept {
    relaxed_capture_mode const beside;
    return give_back("cudaFree", [p] { return cudaFree(p); });
}

CUOTA_INLINE void* async_allocate(std::size_t bytes, stream_ref s) {
    cuota::detail::on_device_of const here{s};
    check_not_capturing(s, "async_memory: cannot allocate",
                        "allocate before the capture, or use a scoped_pool");
    if (bytes > detail::max_request) return nullptr;
    void* p = nullptr;
    return detail::granted(cudaMallocAsync(&p, bytes, s.get()), p, "cudaMallocAsync");
}

CUOTA_INLINE bool async_free(void* p, stream_ref s) noexcept {
    if (!report_failure_of([s] { s.check_reachable(); })) {
        (void)drain(s);
        return device_free(p);
    }
    if (cuota::detail::capture_scope::here()) [[unlikely]]
        if (!drain(s)) return device_free(p);
    if (is_kept_for_foreign_graph(s)) return false;
    bool is_freed = false;
    report_failure_of([&] {
        cuota::detail::on_device_of const here{s};
        is_freed = give_back("cudaFreeAsync", [&] { return cudaFreeAsync(p, s.get()); });
        if (s.is_owned()) cuota::detail::async_frees::note(s.owned_state());
    });
    return is_freed;
}

namespace detail {

[[nodiscard]] CUOTA_INLINE cudaMemPool_t default_pool(device where) {
    cudaMemPool_t pool = nullptr;
    cudaError_t const code = cudaDeviceGetDefaultMemPool(&pool, where.ordinal());
    if (code == cudaErrorNotSupported) {
        (void)cudaGetLastError();
        return nullptr;
    }
    check(code, "cudaDeviceGetDefaultMemPool");
    return pool;
}

[[nodiscard]] CUOTA_INLINE std::size_t level_of(cudaMemPool_t pool, cudaMemPoolAttr which) {
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool, which, &bytes), "cudaMemPoolGetAttribute");
    return bytes;
}

}  // namespace detail

CUOTA_INLINE pool_levels in_default_pool(device where) {
    relaxed_capture_mode const beside;
    cudaMemPool_t const pool = detail::default_pool(where);
    if (!pool) return {};
    return {detail::level_of(pool, cudaMemPoolAttrReservedMemCurrent),
            detail::level_of(pool, cudaMemPoolAttrUsedMemCurrent)};
}

CUOTA_INLINE void trim_default_pool(device where) {
    relaxed_capture_mode const beside;
    if (cudaMemPool_t const pool = detail::default_pool(where))
        check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
}

CUOTA_INLINE void* pinned_allocate(std::size_t bytes) {
    if (bytes > detail::max_request) return nullptr;
    relaxed_capture_mode const beside;
    void* p = nullptr;
    return detail::granted(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), p, "cudaHostAlloc");
}

CUOTA_INLINE bool pinned_free(void* p) noexcept {
    relaxed_capture_mode const beside;
    return give_back("cudaFreeHost", [p] { return cudaFreeHost(p); });
}

CUOTA_INLINE bool lock_pages(void* p, std::size_t bytes) {
    if (bytes > detail::max_request) return false;
    relaxed_capture_mode const beside;
    auto* const first = static_cast<std::byte*>(p);
    std::size_t done = 0;
    try {
        while (done != bytes) {
            void* const at = first + done;
            std::size_t const part = within_part(at, bytes - done);
            if (!detail::granted(cudaHostRegister(at, part, cudaHostRegisterPortable), at,
                                 "cudaHostRegister"))
                break;
            done += part;
        }
    } catch (...) {
        unlock_pages(p, done);
        throw;
    }
    if (done != bytes) unlock_pages(p, done);
    return done == bytes;
}

CUOTA_INLINE bool unlock_pages(void* p, std::size_t bytes) noexcept {
    relaxed_capture_mode const beside;
    bool all = true;
    for (std::size_t done = 0; done != bytes;) {
        void* const at = static_cast<std::byte*>(p) + done;
        all = give_back("cudaHostUnregister", [at] { return cudaHostUnregister(at); }) && all;
        done += within_part(at, bytes - done);
    }
    return all;
}

CUOTA_INLINE void* managed_allocate(std::size_t bytes) {
    if (bytes > detail::max_request) return nullptr;
    relaxed_capture_mode const beside;
    void* p = nullptr;
    return detail::granted(cudaMallocManaged(&p, bytes, cudaMemAttachGlobal), p, "cudaMallocManaged");
}

CUOTA_INLINE std::optional<device> device_of(void const* p) {
    cudaPointerAttributes at{};
    check(cudaPointerGetAttributes(&at, p), "cudaPointerGetAttributes");
    if (at.type != cudaMemoryTypeDevice && at.type != cudaMemoryTypeManaged) return std::nullopt;
    return device{at.device};
}

}  // namespace cuota::inline v0::rt

namespace cuota::inline v0::detail {

CUOTA_INLINE bool wait_for_async_frees(device where) noexcept {
    bool were_any = false;
    report_failure_of([&] {
        for (intrusive_ptr<stream_state> const& s : async_frees::take(where)) {
            stream_ref const one{*s};
            bool is_over = false;
            report_failure_of([&] { is_over = wait_outside_captures(one); });
            if (is_over) were_any = true;
            else report_failure_of([&] { async_frees::note(*s); });
        }
    });
    return were_any;
}

}  // namespace cuota::inline v0::detail

#endif
