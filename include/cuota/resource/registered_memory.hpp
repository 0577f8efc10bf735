// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Page-locked host memory that is faster to allocate than pinned_memory.
#pragma once

#include <cstddef>
#include <optional>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/resource/detail/host_pages.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Base of resources on mapped pages. Self provides:
///
///     Self::locks_pages       whether the pages are page-locked
///     self.settle(at, bytes)  makes new pages resident where Self requires them; returns false if memory is short
///     self.told(refusal)      returns the refusal with facts added by Self
template <class Self>
class mapped_pages {
public:
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        return allocate_sync(bytes, alignment, who);
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        if (p && rt::drain_to_free(s)) deallocate_sync(p, bytes, alignment);
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        check_alignment(alignment, who, granularity());
        if (bytes == 0) return nullptr;
        std::optional<std::size_t> const all = checked_round_up(bytes, granularity());
        char const* missing = "not enough free host memory";
        driver_relief relief{memory_origin::host()};
        void* const p =
            all ? call_with_relief(
                      relief, *all,
                      [&] { return take_on_host(*all, [&] { return try_allocate(*all, who, missing); }); })
                : nullptr;
        if (p) return p;
        refusal r = driver_refusal(bytes, granularity(), who, missing);
        note_given(r, relief.told());
        throw out_of_memory{self().told(std::move(r))};
    }
    /// A failure to unlock is reported, and the memory is leaked.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        std::size_t const all = round_up(bytes, granularity());
        if (!p || (Self::locks_pages && !rt::unlock_pages(p, all))) return;
        unmap_pages(p, all);
        count_given_back_on_host(all);
    }

    [[nodiscard]] static std::size_t granularity() noexcept { return page_bytes(); }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::pinned; }

private:
    [[nodiscard]] Self const& self() const noexcept { return static_cast<Self const&>(*this); }

    // Returns null on failure, and sets `missing` to the reason.
    [[nodiscard]] void* try_allocate(std::size_t bytes, label const& who, char const*& missing) const {
        std::byte* const at = map_pages(bytes);
        missing = "not enough free host memory";
        if (!at) return nullptr;
        try {
            missing = lock_new(at, bytes, who);
        } catch (...) {
            unmap_pages(at, bytes);
            throw;
        }
        if (!missing) return at;
        unmap_pages(at, bytes);
        return nullptr;
    }

    /// Returns null on success, else the reason.
    [[nodiscard]] char const* lock_new(std::byte* at, std::size_t bytes, label const& who) const {
        if (!self().settle(at, bytes)) return "not enough free memory on the NUMA node";
        if (!Self::locks_pages) return nullptr;
        rt::set_call_site(who.where, who.name);
        return rt::lock_pages(at, bytes) ? nullptr : "cudaHostRegister could not page-lock that much memory";
    }
};

}  // namespace detail

/// Resource like pinned_memory, but allocated faster: several threads touch the new pages, which are then locked in place
/// (cudaHostRegister). Page-aligned, as direct I/O requires. Stateless.
/// Units:   bytes, counted in whole pages.
/// Order:   as pinned_memory.
/// Threads: any.
/// Throws:  out_of_memory; usage_error for an alignment above a page; cuda_error.
/// Cost:    about 0.1 s per GiB on typical hosts (RMM issue 2496, cuDF pull request 23457): allocate once, reuse.
/// Example: tests/resource/registered_memory.cpp
class registered_memory : public detail::mapped_pages<registered_memory> {
    friend detail::mapped_pages<registered_memory>;

public:
    /// Always true.
    friend bool operator==(registered_memory const&, registered_memory const&) noexcept { return true; }

private:
    static constexpr bool locks_pages = true;
    static bool settle(std::byte* at, std::size_t bytes) noexcept;
    static refusal told(refusal r) noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<registered_memory> && host_accessible_resource<registered_memory> &&
              !device_accessible_resource<registered_memory>);

CUOTA_INLINE bool registered_memory::settle(std::byte* at, std::size_t bytes) noexcept {
    detail::touch_pages(at, bytes, detail::threads_to_touch(bytes));
    return true;
}

CUOTA_INLINE refusal registered_memory::told(refusal r) noexcept { return r; }

}  // namespace cuota::inline v0

#endif
