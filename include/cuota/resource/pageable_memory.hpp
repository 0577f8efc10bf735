// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on pageable host memory.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Resource on host memory that is not page-locked: for a `fallback` where the driver can lock no more. Page-aligned, and resident when it is
/// allocated; its kind is memory_kind::pinned, because host code and copies can access it. Stateless.
///
/// Copies from and to it are slower, and block the calling thread while the driver stages them.
/// Units:   bytes, counted in whole pages.
/// Order:   as pinned_memory.
/// Threads: any.
/// Throws:  out_of_memory; usage_error for an alignment above a page.
/// Cost:    a system call, and the clearing of the pages.
/// Example: tests/guard/fallback.sim.cpp
class pageable_memory : public detail::mapped_pages<pageable_memory> {
    friend detail::mapped_pages<pageable_memory>;

public:
    /// Always true.
    friend bool operator==(pageable_memory const&, pageable_memory const&) noexcept { return true; }

private:
    static constexpr bool locks_pages = false;
    static bool settle(std::byte* at, std::size_t bytes) noexcept;
    static refusal told(refusal r) noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<pageable_memory> && host_only_resource<pageable_memory>);

CUOTA_INLINE bool pageable_memory::settle(std::byte* at, std::size_t bytes) noexcept {
    detail::touch_pages(at, bytes, detail::threads_to_touch(bytes));
    return true;
}

CUOTA_INLINE refusal pageable_memory::told(refusal r) noexcept { return r; }

}  // namespace cuota::inline v0

#endif
