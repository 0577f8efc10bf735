// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on pageable host memory.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Resource on host memory that is not page-locked: for a `fallback` where the driver can lock no more. Page-aligned and resident when it is
/// allocated. Stateless.
///
/// Copies from and to it are slower, and block the calling thread while the driver stages them. Kernels cannot access it.
/// Units:   bytes, counted in whole pages.
/// Order:   valid when allocated; deallocate waits for the stream, deallocate_sync does not.
/// Threads: any.
/// Throws:  out_of_memory; usage_error for an alignment above a page.
/// Cost:    a system call, and the clearing of the pages.
/// Example: tests/guard/fallback.sim.cpp
class pageable_memory {
public:
    /// Same as allocate_sync; ignores the stream.
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Waits for s, then frees.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;

    /// Allocates memory for the host and for copies.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory on which all work has finished.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;

    [[nodiscard]] static std::size_t granularity() noexcept;  ///< a page
    /// Returns memory_kind::pinned: host code and copies can access it.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::pinned; }
    friend bool operator==(pageable_memory, pageable_memory) noexcept = default;  ///< always true
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/resource/detail/host_pages.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0 {

static_assert(labeled_resource<pageable_memory> && host_only_resource<pageable_memory>);

CUOTA_INLINE void* pageable_memory::allocate(stream_ref, std::size_t bytes, std::size_t alignment,
                                             label const& who) {
    return allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void pageable_memory::deallocate(stream_ref s, void* p, std::size_t bytes,
                                              std::size_t alignment) noexcept {
    if (p && rt::drain_to_free(s)) deallocate_sync(p, bytes, alignment);
}

CUOTA_INLINE void* pageable_memory::allocate_sync(std::size_t bytes, std::size_t alignment,
                                                  label const& who) {
    detail::check_alignment(alignment, who, granularity());
    if (bytes == 0) return nullptr;
    std::optional<std::size_t> const all = checked_round_up(bytes, granularity());
    detail::driver_relief relief{detail::memory_origin::host()};
    void* const p = all ? detail::call_with_relief(relief, *all,
                                                   [&] {
                                                       return detail::take_on_host(*all, [&] {
                                                           return static_cast<void*>(detail::map_pages(*all));
                                                       });
                                                   })
                        : nullptr;
    if (!p) {
        refusal r = detail::driver_refusal(bytes, granularity(), who, "not enough free host memory");
        detail::note_given(r, relief.told());
        throw out_of_memory{std::move(r)};
    }
    detail::touch_pages(static_cast<std::byte*>(p), *all, detail::threads_to_touch(*all));
    return p;
}

CUOTA_INLINE void pageable_memory::deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
    if (!p) return;
    std::size_t const all = round_up(bytes, granularity());
    detail::unmap_pages(p, all);
    detail::count_given_back_on_host(all);
}

CUOTA_INLINE std::size_t pageable_memory::granularity() noexcept { return detail::page_bytes(); }

}  // namespace cuota::inline v0

#endif
