// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Page-locked host memory as a resource.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Page-locked host memory: what copies to and from a device can use while the host goes on. A `resource`, without state.
///
/// Units:   bytes, accounted as asked.
/// Order:   valid at return; deallocate waits for the stream, deallocate_sync does not wait.
/// Threads: any.
/// Throws:  out_of_memory; misuse for an alignment above 256; cuda_error. Nothing is taken then.
/// Cost:    about 0.5 s per GiB on typical hosts: allocate once, reuse.
/// Example: tests/resource/pinned_memory.cpp
class pinned_memory {
public:
    /// As allocate_sync: no stream is asked.
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// The host waits for s first. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;

    /// Valid at return, for the host and for every device.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// No wait: for when all work on it was seen to end. Null does nothing.
    void deallocate_sync(void* p, std::size_t, std::size_t = default_alignment) noexcept;

    [[nodiscard]] static constexpr std::size_t granule() noexcept { return 1; }  ///< bytes: to the byte
    /// For host code and copies.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::pinned; }
    friend bool operator==(pinned_memory, pinned_memory) noexcept = default;  ///< always
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/resource/idle_memory.hpp>
#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0 {

static_assert(labelled_resource<pinned_memory> && host_resource<pinned_memory> &&
              !device_resource<pinned_memory>);

CUOTA_INLINE void* pinned_memory::allocate(stream_ref, std::size_t bytes, std::size_t alignment,
                                           label const& who) {
    return allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void pinned_memory::deallocate(stream_ref s, void* p, std::size_t bytes,
                                            std::size_t alignment) noexcept {
    if (p && rt::drain_to_free(s)) deallocate_sync(p, bytes, alignment);
}

CUOTA_INLINE void* pinned_memory::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    detail::check_alignment(alignment, who);
    if (bytes == 0) return nullptr;
    rt::on_behalf_of(who.where, who.name);
    detail::driver_relief relief{detail::memory_origin::host()};
    void* const p = detail::call_with_relief(relief, bytes, [bytes] { return rt::pinned_allocate(bytes); });
    if (p) return p;
    refusal r = detail::driver_refusal(bytes, granule(), who, "cudaHostAlloc could not page-lock that much memory");
    detail::note_given(r, relief.told());
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE void pinned_memory::deallocate_sync(void* p, std::size_t, std::size_t) noexcept {
    if (p) rt::pinned_free(p);
}

}  // namespace cuota::inline v0

#endif
