// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bytes that are filled in address order and freed as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

struct frame_entry {
    /// ends_with_frame: freed with the frame; owned: freed by its owner; over: freed, reusable in the chunk's order; over_external: freed
    /// otherwise.
    enum class state : std::uint8_t { ends_with_frame, owned, over, over_external };

    std::byte* at;
    std::size_t bytes;
    tag name;
    source_location where;
    state now;

    [[nodiscard]] bool is_live() const noexcept;
    [[nodiscard]] std::string text() const { return leak_summary::line_of(name, where, bytes); }
};
static_assert(std::is_trivially_destructible_v<frame_entry>);  // so that destruction is free

/// Bytes that one stream uses, or the host if `home` is null. Not thread-safe.
class frame_chunk {
public:
    using state = frame_entry::state;

    frame_chunk(void* at, std::size_t size, stream_ref const* home);

    /// Returns null if full. Strong guarantee. Throws: std::bad_alloc.
    [[nodiscard]] void* try_take(std::size_t bytes, std::size_t alignment, label const& who, state epoch);

    [[nodiscard]] bool has(void const* p) const noexcept;
    /// Returns the entry at p, live or freed, or null.
    [[nodiscard]] frame_entry* find(void const* p) noexcept;

    /// Frees a live entry. Reclaims those at the end that were freed in_order.
    void give(frame_entry& e, bool in_order) noexcept;

    /// The chunk's own stream, and others that freed parts of it.
    [[nodiscard]] dynamic_array<shared_stream>& users() noexcept { return users_; }
    [[nodiscard]] dynamic_array<frame_entry> const& entries() const noexcept { return entries_; }
    [[nodiscard]] bool is_owned() const noexcept { return owned_ != 0; }
    [[nodiscard]] std::byte* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t available() const noexcept { return size_ - used_; }

    void end() noexcept;

private:
    std::byte* at_;
    std::size_t size_;
    std::size_t used_ = 0;
    std::size_t owned_ = 0;
    dynamic_array<frame_entry> entries_{};
    dynamic_array<shared_stream> users_{};
};

/// Orders later work on `s` after the work on `other`. If the device cannot wait, the host does, and the error is reported.
void order_after(stream_ref s, stream_ref other) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool frame_entry::is_live() const noexcept {
    return now == state::ends_with_frame || now == state::owned;
}

CUOTA_INLINE frame_chunk::frame_chunk(void* at, std::size_t size, stream_ref const* home)
    : at_{static_cast<std::byte*>(at)}, size_{size} {
    if (home) users_.emplace_back(*home);
}

CUOTA_INLINE void* frame_chunk::try_take(std::size_t bytes, std::size_t alignment, label const& who,
                                         state epoch) {
    auto const low = reinterpret_cast<std::uintptr_t>(at_);
    std::size_t const start = round_up(low + used_, alignment) - low;
    if (start > size_ || bytes > size_ - start) return nullptr;
    entries_.push_back({at_ + start, bytes, who.name, who.where, epoch});
    owned_ += epoch == state::owned;
    used_ = start + bytes;
    return at_ + start;
}

CUOTA_INLINE bool frame_chunk::has(void const* p) const noexcept {
    return !std::less<>{}(p, static_cast<void const*>(at_)) &&
           std::less<>{}(p, static_cast<void const*>(at_ + size_));
}

CUOTA_INLINE frame_entry* frame_chunk::find(void const* p) noexcept {
    auto* const e = first_not(entries_.begin(), entries_.size(), [&](frame_entry const& each) {
        return std::less<>{}(static_cast<void const*>(each.at), p);
    });
    return e != entries_.end() && e->at == p ? e : nullptr;
}

CUOTA_INLINE void frame_chunk::give(frame_entry& e, bool in_order) noexcept {
    owned_ -= e.now == state::owned;
    e.now = in_order ? state::over : state::over_external;
    while (!entries_.empty() && entries_.back().now == state::over) {
        used_ = static_cast<std::size_t>(entries_.back().at - at_);
        entries_.pop_back();
    }
}

CUOTA_INLINE void frame_chunk::end() noexcept {
    for (frame_entry& e : entries_)
        if (e.now == state::ends_with_frame) e.now = state::over_external;
}

CUOTA_INLINE void order_after(stream_ref s, stream_ref other) noexcept {
    if (s.is_reachable() && report_failure_of([&] { order_after_work_of(s, other); })) return;
    rt::drain(other);
}

}  // namespace cuota::inline v0::detail

#endif
