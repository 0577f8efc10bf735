// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on page-locked host memory.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0 {

/// Resource on page-locked host memory, which asynchronous copies require. Stateless.
///
/// Units:   bytes, counted as requested.
/// Order:   valid when allocated; deallocate waits for the stream, deallocate_sync does not.
/// Threads: any.
/// Throws:  out_of_memory; usage_error for an alignment above 256; cuda_error.
/// Cost:    about 0.5 s per GiB on typical hosts: allocate once, reuse.
/// Example: tests/resource/pinned_memory.cpp
class pinned_memory {
public:
    /// Same as allocate_sync; ignores the stream.
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Waits for s, then frees.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;

    /// Allocates memory that is valid for the host and every device.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory on which all work has finished.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return 1; }  ///< 1 byte
    /// Returns memory_kind::pinned.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::pinned; }
    friend bool operator==(pinned_memory, pinned_memory) noexcept = default;  ///< always true
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0 {

static_assert(labeled_resource<pinned_memory> && host_accessible_resource<pinned_memory> &&
              !device_accessible_resource<pinned_memory>);

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
    rt::set_call_site(who.where, who.name);
    detail::driver_relief relief{detail::memory_origin::host()};
    void* const p = detail::call_with_relief(relief, bytes, [bytes] {
        return detail::take_on_host(bytes, [bytes] { return rt::pinned_allocate(bytes); });
    });
    if (p) return p;
    refusal r = detail::driver_refusal(bytes, granularity(), who,
                                       "cudaHostAlloc could not page-lock that much memory");
    detail::note_given(r, relief.told());
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE void pinned_memory::deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
    if (p && rt::pinned_free(p)) detail::count_given_back_on_host(bytes);
}

}  // namespace cuota::inline v0

#endif
