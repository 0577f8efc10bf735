// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A single value in device memory.
#pragma once

#include <span>
#include <utility>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// One T in device memory.
///
/// Move-only. A moved-from scalar is empty: `set` allocates it again, other uses are misuse.
/// Throws:  usage_error, cuda_error; where memory is allocated, as device_buffer. Operations that throw have no effect.
/// Threads: leases and `get` from any thread, other members from one at a time.
/// Cost:    the resource's smallest block. `set` and `get` wait for their stream.
/// Example:
///     cuota::device_scalar<float> loss{stream, pool, "loss"};
///     cuota::for_each_index(stream, n, add_losses{errors.read(stream), loss.write(stream)});
///     float const now = loss.get(stream);  // waits for the kernel and the copy
template <class T>
class device_scalar {
public:
    using value_type = T;  ///< type of the value

    /// Allocates a value of zero bytes.
    device_scalar(stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : one_{1, home, memory, name, where} {}
    /// Allocates a copy of `value` and waits for it.
    device_scalar(T const& value, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : one_{std::span{&value, 1}, home, memory, name, where} {}
    // Kernels would fault on host memory.
    template <host_only_resource R, class... Rest>
    device_scalar(stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_scalar(T const&, stream_ref, R, Rest...) = delete;

    [[nodiscard]] bool is_empty() const noexcept { return one_.is_empty(); }  ///< moved-from
    /// Returns the home stream.
    [[nodiscard]] stream_ref home() const noexcept { return one_.home(); }
    [[nodiscard]] any_resource memory() const noexcept { return one_.memory(); }  ///< owning handle

    /// Borrows element 0, as device_buffer::read.
    [[nodiscard]] lease<T const> read(stream_ref s,
                                      source_location where = source_location::current()) const {
        return there(where).read(s, where);
    }
    /// Same, on the home stream.
    [[nodiscard]] lease<T const> read(source_location where = source_location::current()) const {
        return read(home(), where);
    }
    /// Borrows element 0, as device_buffer::write.
    [[nodiscard]] lease<T> write(stream_ref s, source_location where = source_location::current()) {
        (void)there(where);
        return one_.write(s, where);
    }
    /// Same, on the home stream.
    [[nodiscard]] lease<T> write(source_location where = source_location::current()) {
        return write(home(), where);
    }

    /// Replaces the value. Allocates if empty.
    void set(T const& value, stream_ref s, source_location where = source_location::current()) {
        if (!is_empty()) return one_.copy_from(std::span{&value, 1}, s, where);
        device_buffer<T> fresh{1, home(), memory(), no_init, {}, where};
        fresh.copy_from(std::span{&value, 1}, s, where);
        one_ = std::move(fresh);
    }
    /// Replaces the value in the order of s, through a ring's slot. Throws: also usage_error if slots are too small.
    void set_async(T const& value, staging_ring& ring, stream_ref s,
                   source_location where = source_location::current()) {
        (void)there(where);
        if (ring.slot_bytes() < sizeof(T))
            detail::throw_usage_error(where, "set_async: the value ({}) is larger than a ring slot ({})",
                                      {detail::as_bytes(sizeof(T)), detail::as_bytes(ring.slot_bytes())});
        upload(std::span{&value, 1}, one_, ring, s, where);
    }

    /// Returns the value after the work on s.
    [[nodiscard]] T get(stream_ref s, source_location where = source_location::current()) const {
        T value{};
        there(where).copy_to(std::span{&value, 1}, s, where);
        return value;
    }
    /// Same, on the home stream.
    [[nodiscard]] T get(source_location where = source_location::current()) const {
        return get(home(), where);
    }
    /// Copies the value to one pinned element.
    [[nodiscard]] pending_copy<T> get_async(pinned_buffer<T>&& to, stream_ref s,
                                            source_location where = source_location::current()) const {
        return download(there(where), std::move(to), s, where);
    }
    /// Same, to new memory; page-locking takes longer than the copy. Throws: also as pinned_buffer's constructor.
    [[nodiscard]] pending_copy<T> get_async(stream_ref s, any_resource to = default_pinned_resource(),
                                            source_location where = source_location::current()) const {
        return download(there(where), s, std::move(to), {}, where);
    }

private:
    [[nodiscard]] device_buffer<T> const& there(source_location where) const {
        if (is_empty()) detail::throw_usage_error(where, "a device_scalar was used after it was moved from");
        return one_;
    }

    device_buffer<T> one_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
