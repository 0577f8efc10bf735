// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Copies between host and device that go on while the host does: their host side is kept, or was left before.
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

// Nobody could tell when it is over: each launch is another copy.
void refuse_pending(stream_ref s, place where);

}  // namespace detail

/// A copy under way and its host side, which it owns: what `upload` and `download` of pinned memory return.
///
/// May end at any time: its end waits for the copy. Move-only; moved-from may only be destroyed or assigned to.
/// Throws:  cuda_error, also of the copy; misuse when it was moved from.
/// Threads: one at a time.
/// Example:
///     auto const losses = cuota::download(x, stream, host_budget, "losses");  // the host goes on
///     start_next_step(stream);
///     float const first = losses.get()[0];                                    // waits for the copy alone
template <class T>
class pending_copy {
public:
    /// The elements on the host. Waits for the copy.
    [[nodiscard]] std::span<T const> get() const& {
        over().synchronize();
        return host_.read();
    }
    [[nodiscard]] std::span<T const> get() const&& =
        delete;  // they would go before anybody looked: take() keeps them
    /// The host memory, to look at, to keep, or for the next copy. Waits for the copy.
    [[nodiscard]] pinned_buffer<T> take(place where = place::here()) && {
        over(where).synchronize();
        pending_copy mine{std::move(*this)};
        return std::move(mine.host_);
    }
    /// Whether the copy is over; no wait. Throws: cuda_error, also of the copy; misuse when moved from.
    [[nodiscard]] bool is_done() const { return over().is_done(); }
    /// Work enqueued on s later starts after the copy. No host wait.
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

/// Copies host elements of any kind to a buffer of the same count, through a ring, in order of s: they are free to
/// change or go at return, when the copy may not have begun. What is larger than a slot goes in pieces.
/// Waits:  for a slot of the ring, if none is free: for an earlier copy, or a fill_lease that somebody has.
/// Throws: misuse when the counts differ, and for slots of no bytes; cuda_error: pieces enqueued before are copied.
/// Cost:   one memcpy on the host, and a copy and an event for each piece.
/// Threads: one at a time for the buffer, any for the ring.
/// Example:
///     cuota::upload(labels, device_labels, ring, stream);  // a vector, and a device_buffer of as many elements
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

/// Copies pinned elements to a buffer of the same count, in order of s, and keeps them until that is over.
/// Throws: misuse when the counts differ, or s is captured; cuda_error. `from` is unchanged then.
/// Cost:   a copy and two events; no host wait, no copy on the host.
/// Threads: one at a time for either. Example: auto const sent = cuota::upload(std::move(host), x, stream);
template <class T>
[[nodiscard]] pending_copy<T> upload(pinned_buffer<T>&& from, device_buffer<T>& to, stream_ref s,
                                     place where = place::here()) {
    detail::refuse_pending(s, where);
    from.upload(to, s, where);
    return {std::move(from), s};
}

/// Copies a buffer to pinned memory of the same count, in order of s: whatever comes later is not seen.
/// Throws: misuse when the counts differ, or s is captured; cuda_error. `to` is the caller's then.
/// Cost:   as of such an upload. Example: see pending_copy.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, pinned_buffer<T>&& to, stream_ref s,
                                       place where = place::here()) {
    detail::refuse_pending(s, where);
    to.download(from, s, where);
    return {std::move(to), s};
}
/// The same, to memory that it takes. Throws: as pinned_buffer on construction, too.
/// Cost: page-locking, which takes longer than the copy: hand memory on where a copy is made again and again.
template <class T>
[[nodiscard]] pending_copy<T> download(device_buffer<T> const& from, stream_ref s,
                                       any_resource memory = any_pinned_memory(), tag name = {},
                                       place where = place::here()) {
    return download(from, pinned_buffer<T>{from.size(), std::move(memory), name, where}, s, where);
}
/// The same, charged to a budget for host memory: bytes of the buffer, until the copy ends or `take` hands them on.
/// Throws: as above; budget_exceeded.
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
