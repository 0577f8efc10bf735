// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One value in device memory.
#pragma once

#include <span>
#include <utility>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// One T in device memory: a loss, a norm, a counter. As a device_buffer of one element, with values in place of ranges.
///
/// Move-only. Moved-from is empty: `set` makes it whole again, everything else is a misuse.
/// Throws:  as device_buffer. Operations that throw change nothing.
/// Threads: leases and `get` from any thread, the rest from one at a time.
/// Cost:    the resource's smallest block. `set` and `get` wait for their stream; `set_async` and `get_async` do not.
/// Example:
///     cuota::device_scalar<float> loss{stream, pool, "loss"};
///     cuota::for_each_index(stream, n, add_losses{errors.read(stream), loss.write(stream)});
///     float const now = loss.get(stream);  // waits for the kernel and the copy
template <class T>
class device_scalar {
public:
    using value_type = T;  ///< the value's

    /// All bytes zero.
    device_scalar(stream_ref home, resource_ref const& memory, tag name = {}, place where = place::here())
        : one_{1, home, memory, name, where} {}
    /// Waits for the copy of the value.
    device_scalar(T const& value, stream_ref home, resource_ref const& memory, tag name = {},
                  place where = place::here())
        : one_{std::span{&value, 1}, home, memory, name, where} {}
    // Host memory as device memory: the address would fault in the first kernel.
    template <host_only_resource R, class... Rest>
    device_scalar(stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_scalar(T const&, stream_ref, R, Rest...) = delete;

    [[nodiscard]] bool is_empty() const noexcept { return one_.is_empty(); }  ///< moved from
    /// Where the memory is given back.
    [[nodiscard]] stream_ref home() const noexcept { return one_.home(); }
    [[nodiscard]] any_resource memory() const noexcept { return one_.memory(); }  ///< a share of the resource

    /// Borrows the value, element 0, for work on s. See device_buffer.
    [[nodiscard]] lease<T const> read(stream_ref s, place where = place::here()) const {
        return there(where).read(s, where);
    }
    /// On the home stream.
    [[nodiscard]] lease<T const> read(place where = place::here()) const { return read(home(), where); }
    /// Order: as device_buffer::write. Throws: misuse, also when empty; cuda_error.
    [[nodiscard]] lease<T> write(stream_ref s, place where = place::here()) {
        (void)there(where);
        return one_.write(s, where);
    }
    /// On the home stream.
    [[nodiscard]] lease<T> write(place where = place::here()) { return write(home(), where); }

    /// Waits until the value is there. Throws: misuse, cuda_error; when empty, as on construction.
    void set(T const& value, stream_ref s, place where = place::here()) {
        if (!is_empty()) return one_.copy_from(std::span{&value, 1}, s, where);
        device_buffer<T> fresh{1, home(), memory(), no_init, {}, where};
        fresh.copy_from(std::span{&value, 1}, s, where);
        one_ = std::move(fresh);
    }
    /// In order of s; the host goes on, the value stands in a slot of the ring. Slots of at least one T, that is.
    /// Throws: misuse, also when a slot is too small; cuda_error.
    void set_async(T const& value, staging_ring& ring, stream_ref s, place where = place::here()) {
        (void)there(where);
        if (ring.slot_bytes() < sizeof(T))
            detail::throw_misuse(where, "a value of {} and slots of {}",
                                 {detail::as_bytes(sizeof(T)), detail::as_bytes(ring.slot_bytes())});
        upload(std::span{&value, 1}, one_, ring, s, where);
    }

    /// The value after all that s has done so far. Waits for s. Throws: misuse, cuda_error.
    [[nodiscard]] T get(stream_ref s, place where = place::here()) const {
        T value{};
        there(where).copy_to(std::span{&value, 1}, s, where);
        return value;
    }
    /// On the home stream.
    [[nodiscard]] T get(place where = place::here()) const { return get(home(), where); }
    /// The same, to be looked at later; the host goes on. With pinned memory of one element that the caller has: page-
    /// locking takes longer than the copy.
    [[nodiscard]] pending_copy<T> get_async(pinned_buffer<T>&& to, stream_ref s,
                                            place where = place::here()) const {
        return download(there(where), std::move(to), s, where);
    }
    /// To memory that is taken for it. Throws: as pinned_buffer on construction, too.
    [[nodiscard]] pending_copy<T> get_async(stream_ref s, any_resource to = any_pinned_memory(),
                                            place where = place::here()) const {
        return download(there(where), s, std::move(to), {}, where);
    }

private:
    [[nodiscard]] device_buffer<T> const& there(place where) const {
        if (is_empty()) detail::throw_misuse(where, "a device_scalar was used after it was moved from");
        return one_;
    }

    device_buffer<T> one_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
