// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cudaMallocAsync and cudaFreeAsync as a resource.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/driver_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Memory of one device from the driver's own stream-ordered pool.
/// `async_memory{}` is of the current device, `async_memory{device{1}}` of that one; `device()` tells. A `resource`.
///
/// Units:   bytes, accounted in multiples of 512.
/// Order:   valid in the stream from the call on; given back in stream order. The _sync calls are valid everywhere.
/// Threads: any.
/// Throws:  out_of_memory with the driver's numbers; misuse for an alignment above 256 or a stream of another device;
///          cuda_error. Nothing is taken then.
/// Cost:    a driver call each way, some us on a GPU.
/// Example: tests/resource/async_memory.cpp
class async_memory final : public detail::driver_memory<memory_kind::device, true> {
public:
    using driver_memory::driver_memory;

    /// Valid in s from here on. Throws: also misuse in a capture of s by this thread.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// In order of s. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

    /// Valid on every stream at return: the host waits for its own per-thread stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// The caller has seen all work on it end; cudaFree takes memory of a pool as well, and does not wait for it. Null does nothing.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

private:
    // The driver would take the memory from the stream's device, without a word.
    void check_device_of(stream_ref s, label const& who) const;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labelled_resource<async_memory> && device_resource<async_memory> &&
              !host_resource<async_memory>);

CUOTA_INLINE void* async_memory::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                          label const& who) {
    return take(bytes, alignment, who, "cudaMallocAsync", [&] {
        check_device_of(s, who);
        rt::on_behalf_of(who.where, who.name);
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
        detail::throw_misuse(who.where, "async_memory of device {} was asked on a stream of device {}",
                             {device().ordinal(), other.ordinal()});
}

}  // namespace cuota::inline v0

#endif
