// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The streams on which cudaFreeAsync may be pending.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::detail {

struct stream_state;

/// The registry has no native handles, which their owners may destroy. Threads: any.
class CUOTA_PROCESS_STATE async_frees {
public:
    /// Adds a stream, unless host memory is short. Cost: a load, or a lock.
    static void note(stream_state& s) noexcept;
    /// Removes and returns a device's streams that have an owner. Throws: std::bad_alloc; nothing changes.
    [[nodiscard]] static dynamic_array<intrusive_ptr<stream_state>> take(device where);
    /// Removes a stream that is being destroyed.
    static void leave(stream_state& s) noexcept;

private:
    struct streams;
    [[nodiscard]] static streams& all() noexcept;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/runtime/detail/stream_state.hpp>

namespace cuota::inline v0::detail {

struct async_frees::streams {
    process_lock guard;
    dynamic_array<stream_state*> noted;  // removed before they are destroyed
};

CUOTA_INLINE_STATE auto async_frees::all() noexcept -> streams& {
    static never_destroyed<streams> one;  // streams may be destroyed during exit
    return one.value;
}

CUOTA_INLINE void async_frees::note(stream_state& s) noexcept {
    if (s.has_async_frees.load(std::memory_order_relaxed)) return;
    try {
        region_lock const lock{all().guard};
        if (s.has_async_frees.exchange(true, std::memory_order_relaxed)) return;
        all().noted.push_back(&s);
    } catch (...) { s.has_async_frees.store(false, std::memory_order_relaxed); }
}

CUOTA_INLINE dynamic_array<intrusive_ptr<stream_state>> async_frees::take(device where) {
    dynamic_array<intrusive_ptr<stream_state>> taken;
    region_lock const lock{all().guard};
    taken.reserve(all().noted.size());
    all().noted.erase_if([&](stream_state* s) {
        if (s->home != where || !s->try_add_ref()) return false;
        taken.push_back(intrusive_ptr<stream_state>::adopt(s));
        s->has_async_frees.store(false, std::memory_order_relaxed);
        return true;
    });
    return taken;
}

CUOTA_INLINE void async_frees::leave(stream_state& s) noexcept {
    region_lock const lock{all().guard};
    all().noted.erase_if([&](stream_state* known) { return known == &s; });
}

}  // namespace cuota::inline v0::detail

#endif
