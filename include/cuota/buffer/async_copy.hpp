// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Asynchronous copies between host and device that own or stage the host memory.
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
#include <cuota/core/std_parts.hpp>
#include <cuota/core/text.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

namespace detail {

// A pending copy cannot be captured: each launch of the graph would make another copy.
void refuse_pending(stream_ref s, place where);

}  // namespace detail

/// An asynchronous copy together with the pinned host buffer that it owns. Returned by `upload` and `download` of pinned memory.
///
/// May be destroyed at any time; the destructor waits for the copy. Move-only; a moved-from object may only be destroyed or assigned to.
/// Throws:  cuda_error, including errors of the copy itself; misuse if moved-from.
/// Threads: one at a time.
/// Example:
///     auto const losses = cuota::download(x, stream, host_budget, "losses");  // does not block
///     start_next_step(stream);
///     float const first = losses.get()[0];                                    // waits for this copy only
template <class T>
class pending_copy {
public:
    /// Returns the elements on the host. Waits for the copy.
    [[nodiscard]] std::span<T const> get() const& {
        over().synchronize();
        return host_.read();
    }
    [[nodiscard]] std::span<T const> get() const&& = delete;  // the span would dangle; use take()
    /// Returns the host buffer, for reading or for reuse by another copy. Waits for the copy.
    [[nodiscard]] pinned_buffer<T> take(place where = place::here()) && {
        over(where).synchronize();
        pending_copy mine{std::move(*this)};
        return std::move(mine.host_);
    }
    /// Returns whether the copy has completed, without waiting. Throws: cuda_error, including errors of the copy; misuse if moved-from.
    [[nodiscard]] bool is_done() const { return over().is_done(); }
    /// Makes s wait for the copy: work enqueued on s from now on starts after it. Does not block the host.
    void order_before(stream_ref s) const { s.wait(over()); }

private:
    template <class U>
    friend pending_copy<U> upload(pinned_buffer<U>&&, device_buffer<U>&, stream_ref, place);
    template <class U>
    friend pending_copy<U> download(device_buffer<U> const&, pinned_buffer<U>&&, stream_ref, place);

    pending_copy(pinned_buffer<T>&& host, stream_ref s) : over_{s}, host_{std::move(host)} {}

    [[nodiscard]] event const& over(place where = {}) const {
        if (!over_.get()) detail::throw_misuse(where, "a pending_copy was used after it was moved from");
        return over_;
    }

    event over_;
    pinned_buffer<T> host_;
};

/// Copies host elements from pageable or any other host memory to a buffer of the same count, staged through a ring, in the order of s. On
/// return the source may be changed or freed, even if the copy has not started. Sources larger than a slot are copied in pieces.
/// Waits:   until a slot of the ring is free, that is, for an earlier copy or for another fill_lease to be submitted or destroyed.
/// Throws:  misuse if the counts differ or the slots have 0 bytes; cuda_error, after which pieces that were already enqueued are still
///          copied.
/// Cost:    one memcpy on the host, and a copy and an event per piece.
/// Threads: one at a time for the buffer, any for the ring.
/// Example:
///     cuota::upload(labels, device_labels, ring, stream);  // std::vector to a device_buffer of the same count
template <class T>
void upload(std::type_identity_t<std::span<T const>> from, device_buffer<T>& to, staging_ring& ring,
            stream_ref s, place where = place::here()) {
    if (from.size() != to.size())
        detail::throw_misuse(where, "a copy of {} to a buffer of {}",
                             {detail::counted(from.size(), "elements"), to.size()});
    if (from.empty()) return;
    if (ring.slot_bytes() == 0)
        detail::throw_misuse(
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

/// Copies pinned elements to a buffer of the same count, in the order of s, and keeps the pinned buffer until the copy has completed.
/// Throws:  misuse if the counts differ or s is being captured; cuda_error. On failure, `from` is unchanged.
/// Cost:    a copy and two events; does not block the host and makes no host copy.
/// Threads: one at a time for either buffer. Example: `auto const sent = cuota::upload(std::move(host), x, stream);`
template <class T>
[[nodiscard]] pending_copy<T> upload(pinned_buffer<T>&& from, device_buffer<T>& to, stream_ref s,
                                     place where = place::here()) {
    detail::refuse_pending(s, where);
    from.upload(to, s, where);
    return {std::move(from), s};
}

/// Copies a buffer to pinned memory of the same count, in the order of s; later writes on s do not affect the copy.
/// Throws: misuse if the counts differ or s is being captured; cuda_error. On failure, the caller keeps `to`.
/// Cost:   as upload of a pinned_buffer. Example: see pending_copy.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, pinned_buffer<T>&& to, stream_ref s,
                                       place where = place::here()) {
    detail::refuse_pending(s, where);
    to.download(from, s, where);
    return {std::move(to), s};
}
/// Same as above with a newly allocated pinned buffer. Throws: also as the constructors of pinned_buffer.
/// Cost: page-locking, which takes longer than the copy; for repeated copies reuse one pinned buffer.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, stream_ref s,
                                       any_resource memory = any_pinned_memory(), tag name = {},
                                       place where = place::here()) {
    return download(from, pinned_buffer<T>{from.size(), std::move(memory), name, where}, s, where);
}
/// Same as above, with the pinned buffer's bytes charged to a budget for host memory until the buffer is destroyed, by the pending_copy or
/// by the caller of `take`.
/// Throws: also budget_exceeded.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, stream_ref s, budget const& account,
                                       tag name = {}, place where = place::here()) {
    return download(from, pinned_buffer<T>{from.size(), account, name, where}, s, where);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_pending(stream_ref s, place where) {
    rt::refuse_captured(s, "a copy that can be waited for was asked for",
                        "copy by the pinned_buffer's own upload or download", where);
}

}  // namespace cuota::inline v0::detail

#endif
