// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Asynchronous copies that own or stage the host memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

namespace detail {

// Each launch of a graph would copy again.
void refuse_pending(stream_ref s, source_location where);

}  // namespace detail

/// An asynchronous copy and its pinned host buffer, returned by `upload` and `download`.
///
/// The destructor waits for the copy. Move-only.
/// Throws:  cuda_error, also for the copy; usage_error if moved-from.
/// Threads: one at a time.
/// Example:
///     auto const losses = cuota::download(x, stream, host_budget, "losses");  // does not block
///     start_next_step(stream);
///     float const first = losses.get()[0];                                    // waits for this copy only
template <class T>
class pending_copy {
public:
    /// Waits for the copy and returns the host elements.
    [[nodiscard]] std::span<T const> get() const& {
        over().synchronize();
        return host_.read();
    }
    [[nodiscard]] std::span<T const> get() const&& = delete;  // the span would dangle: use take()
    /// Waits for the copy and returns the host buffer.
    [[nodiscard]] pinned_buffer<T> take(source_location where = source_location::current()) && {
        over(where).synchronize();
        pending_copy mine{std::move(*this)};
        return std::move(mine.host_);
    }
    /// Returns whether the copy has completed.
    [[nodiscard]] bool is_done() const { return over().is_done(); }
    /// Orders later work on s after the copy.
    void make_wait(stream_ref s) const { s.wait(over()); }

private:
    template <class U>
    friend pending_copy<U> upload(pinned_buffer<U>&&, device_buffer<U>&, stream_ref, source_location);
    template <class U>
    friend pending_copy<U> download(device_buffer<U> const&, pinned_buffer<U>&&, stream_ref, source_location);

    pending_copy(pinned_buffer<T>&& host, stream_ref s) : over_{s}, host_{std::move(host)} {}

    [[nodiscard]] event const& over(source_location where = {}) const {
        if (!over_.get()) detail::throw_usage_error(where, "a pending_copy was used after it was moved from");
        return over_;
    }

    event over_;
    pinned_buffer<T> host_;
};

/// Copies elements in any host memory to a buffer of the same count, through a ring, in the order of s. On return the source may be changed
/// or freed. Sources larger than a slot are copied in pieces.
/// Waits:   until a slot is free.
/// Throws:  usage_error if the counts differ or slots have 0 bytes; cuda_error, where pieces that were already enqueued are copied anyway.
/// Cost:    one memcpy on the host, and a copy and an event per piece.
/// Threads: one at a time for the buffer, any for the ring.
/// Example:
///     cuota::upload(labels, device_labels, ring, stream);  // a vector to a device_buffer of the same count
template <class T>
void upload(std::type_identity_t<std::span<T const>> from, device_buffer<T>& to, staging_ring& ring,
            stream_ref s, source_location where = source_location::current()) {
    if (from.size() != to.size())
        detail::throw_usage_error(where, "upload: cannot copy {} to a buffer of {}",
                                  {detail::counted(from.size(), "elements"), to.size()});
    if (from.empty()) return;
    if (ring.slot_bytes() == 0)
        detail::throw_usage_error(
            where,
            "upload: cannot copy through a staging_ring with slots of 0 bytes: make it with larger ones");
    lease<T> const target = detail::leases_for_copies::write(to, s, where);
    auto* const there = reinterpret_cast<std::byte*>(target.span().data());
    auto const here = std::as_bytes(from);
    for (std::size_t at = 0; at != here.size();) {
        std::size_t const bytes = std::min(ring.slot_bytes(), here.size() - at);
        auto slot = ring.acquire();
        std::memcpy(slot.bytes().data(), here.data() + at, bytes);
        (void)std::move(slot).submit(s, {there + at, bytes}, bytes, where);
        at += bytes;
    }
}

/// Copies pinned elements to a buffer of the same count, in the order of s.
/// Throws:  usage_error if the counts differ or s is captured; cuda_error. On failure, `from` is unchanged.
/// Cost:    a copy and two events.
/// Threads: one at a time for each buffer. Example: auto const sent = cuota::upload(std::move(host), x, stream);
template <class T>
[[nodiscard]] pending_copy<T> upload(pinned_buffer<T>&& from, device_buffer<T>& to, stream_ref s,
                                     source_location where = source_location::current()) {
    detail::refuse_pending(s, where);
    from.upload(to, s, where);
    return {std::move(from), s};
}

/// Copies a buffer to pinned memory of the same count, in the order of s.
/// Throws: usage_error if the counts differ or s is captured; cuda_error. On failure, the caller keeps `to`.
/// Cost:   as that upload. Example: see pending_copy.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, pinned_buffer<T>&& to, stream_ref s,
                                       source_location where = source_location::current()) {
    detail::refuse_pending(s, where);
    to.download(from, s, where);
    return {std::move(to), s};
}
/// Same, to new pinned memory; page-locking takes longer than the copy. Throws: also as pinned_buffer's constructor.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, stream_ref s,
                                       any_resource memory = default_pinned_resource(), tag name = {},
                                       source_location where = source_location::current()) {
    return download(from, pinned_buffer<T>{from.size(), std::move(memory), name, where}, s, where);
}
/// Same, charged to a budget for host memory while that memory lives. Throws: also budget_exceeded.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, stream_ref s, budget const& account,
                                       tag name = {}, source_location where = source_location::current()) {
    return download(from, pinned_buffer<T>{from.size(), account, name, where}, s, where);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_pending(stream_ref s, source_location where) {
    rt::check_not_capturing(s, "cannot make a pending_copy",
                            "use pinned_buffer::upload or pinned_buffer::download", where);
}

}  // namespace cuota::inline v0::detail

#endif
