// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on cudaMallocAsync and cudaFreeAsync.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/detail/driver_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0 {

/// Resource on the driver's stream-ordered pool of one device: the current one for `async_memory{}`, else `async_memory{device{1}}`.
///
/// Units:   bytes, counted in multiples of 512.
/// Order:   allocated and freed in stream order.
/// Threads: any.
/// Throws:  out_of_memory with the driver's figures; usage_error for an alignment above 256 or a stream of another device; cuda_error.
/// Cost:    a few us on a GPU.
/// Example: tests/resource/async_memory.cpp
class async_memory final : public detail::driver_memory<memory_kind::device, true> {
public:
    using driver_memory::driver_memory;

    /// Allocates in order of s. Throws: also usage_error if this thread is capturing s.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in order of s.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

    /// Allocates memory that is valid on every stream; waits for the per-thread stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory on which all work has finished, by cudaFree, which does not wait for pool memory.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

private:
    // The driver would silently allocate on the stream's device.
    void check_device_of(stream_ref s, label const& who) const;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<async_memory> && device_accessible_resource<async_memory> &&
              !host_accessible_resource<async_memory>);

CUOTA_INLINE void* async_memory::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                          label const& who) {
    return take(bytes, alignment, who, "cudaMallocAsync", [&] {
        check_device_of(s, who);
        rt::set_call_site(who.where, who.name);
        return rt::async_allocate(bytes, s);
    });
}

CUOTA_INLINE void async_memory::deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t) noexcept {
    give(p, bytes, [s](void* q) { return rt::async_free(q, s); });
}

CUOTA_INLINE void* async_memory::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    device_scope const here{device()};
    void* const p = allocate(cudaStreamPerThread, bytes, alignment, who);
    try {
        if (p) stream_ref{cudaStreamPerThread}.synchronize();
    } catch (...) {
        deallocate(cudaStreamPerThread, p, bytes, alignment);
        throw;
    }
    return p;
}

CUOTA_INLINE void async_memory::deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
    give(p, bytes, rt::device_free);
}

CUOTA_INLINE void async_memory::check_device_of(stream_ref s, label const& who) const {
    if (cuota::device const other = s.device(); other != device())
        detail::throw_usage_error(who.where,
                                  "async_memory: the resource belongs to device {}, the stream to device {}",
                                  {device().ordinal(), other.ordinal()});
}

}  // namespace cuota::inline v0

#endif
