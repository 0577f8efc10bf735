// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device buffer that kernels append results to.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/detail/filled_vector.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/kernel_overflow_error.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Handle through which kernels append to an append_buffer.
/// Threads: any in a kernel. Throws: checked builds: as device_span.
template <class T>
class device_appender {
public:
    /// Used by append_lease; `count` has the elements requested so far.
    device_appender(device_span<T> room, detail::kernel_count* count) noexcept : room_{room}, count_{count} {}

    /// Appends the value, unordered among threads. Returns false if the buffer is full; the element is counted anyway.
    CUOTA_KERNEL bool push_back(T const& value) const {
        detail::kernel_count const at = detail::add_to(*count_, 1);
        if (at >= room_.size()) return false;
        room_[at] = value;
        return true;
    }
    [[nodiscard]] CUOTA_KERNEL std::size_t capacity() const { return room_.size(); }  ///< elements

private:
    device_span<T> room_;
    detail::kernel_count* count_;
};

/// Memory for up to `capacity()` elements that kernels append one at a time.
///
/// `size` and `to_vector` throw kernel_overflow_error, with the sufficient capacity, if kernels appended more.
///
/// Move-only; a moved-from buffer has capacity 0; other uses are misuse. Units: elements. Threads: as device_buffer.
/// Throws:  usage_error, cuda_error; where memory is allocated, as device_buffer. Operations that throw have no effect.
/// Order:   appends, `clear` and reads are uses of a buffer.
/// Cost:    an append is one atomic addition and a store; reading the count waits for the stream.
/// Example:
///     cuota::append_buffer<int> found{1000, stream, pool, "matches"};
///     cuota::for_each_index(stream, n, match{keys.read(stream), found.append(stream)});
///     std::vector<int> const matches = found.to_vector(stream);  // kernel_overflow_error if more were found
template <class T>
class append_buffer {
public:
    using value_type = T;  ///< element type

    /// Allocates the elements and an 8-byte count.
    append_buffer(element_count capacity, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : elements_{capacity, home, memory, no_init, name, where},
          count_{1, home, memory, zeroed, name, where},
          name_{name} {}

    /// Write access for kernels on one stream.
    class append_lease {
    public:
        /// Returns the kernel argument, valid as long as the lease.
        operator device_appender<T>() const noexcept { return {room_.span(), count_.span().data()}; }

    private:
        friend class append_buffer;
        append_lease(append_buffer& of, stream_ref s, source_location where)
            : room_{of.elements_.write(s, where)}, count_{of.count_.write(s, where)} {}
        lease<T> room_;
        lease<detail::kernel_count> count_;
    };

    /// Borrows the buffer for appends by work on s.
    [[nodiscard]] append_lease append(stream_ref s, source_location where = source_location::current()) {
        check_not_moved_from(where);
        return {*this, s, where};
    }
    /// Removes all elements, in the order of s.
    void clear(stream_ref s, source_location where = source_location::current()) {
        check_not_moved_from(where);
        auto const count = count_.write(s, where);
        rt::fill_bytes(count.span().data(), 0, count.span().bytes(), s, where);
    }

    /// Waits for s and returns the number of elements. Throws: also kernel_overflow_error.
    [[nodiscard]] std::size_t size(stream_ref s, source_location where = source_location::current()) const {
        std::size_t const requested = total_requested(s, where);
        if (requested > capacity()) refuse(requested, where);
        return requested;
    }
    /// Same, at most capacity().
    [[nodiscard]] std::size_t stored_size(stream_ref s,
                                          source_location where = source_location::current()) const {
        return std::min(total_requested(s, where), capacity());
    }
    [[nodiscard]] std::size_t capacity() const noexcept { return elements_.size(); }  ///< elements
    /// Returns the home stream.
    [[nodiscard]] stream_ref home() const noexcept { return elements_.home(); }

    /// Borrows all `capacity()` elements for reads by work on s; the appended ones are first.
    [[nodiscard]] lease<T const> read(stream_ref s,
                                      source_location where = source_location::current()) const {
        check_not_moved_from(where);
        return elements_.read(s, where);
    }
    /// Waits for s and returns the elements.
    [[nodiscard]] std::vector<T> to_vector(stream_ref s,
                                           source_location where = source_location::current()) const {
        return detail::filled_vector<T>(size(s, where), [&](std::span<T> host) {
            auto const all = detail::leases_for_copies::read(elements_, s, where);
            rt::copy_to_host(host.data(), all.span().data(), host.size_bytes(), s, where);
            rt::synchronize_or_drain(s, where);
        });
    }

    /// Removes all elements and changes the capacity, on the home stream. Allocates the new memory before it frees the old. Throws: also
    /// usage_error while borrowed.
    void restart(element_count capacity, source_location where = source_location::current()) {
        check_not_moved_from(where);
        elements_.check_not_borrowed("be restarted", where);
        device_buffer<T> next{capacity, home(), elements_.memory(), no_init, name_, where};
        clear(home(), where);
        elements_ = std::move(next);
    }

private:
    [[nodiscard]] std::size_t total_requested(stream_ref s, source_location where) const {
        check_not_moved_from(where);
        return static_cast<std::size_t>(count_.to_vector(s, where).front());
    }
    // A buffer has a count.
    void check_not_moved_from(source_location where) const {
        if (count_.is_empty())
            detail::throw_usage_error(where, "an append_buffer was used after it was moved from");
    }
    [[noreturn]] void refuse(std::size_t requested, source_location where) const {
        std::string const unit = unit_name<T>();
        throw kernel_overflow_error{
            (name_.is_empty() ? "append_buffer" : "append_buffer \"" + std::string{name_.text()} + '"') +
                ": kernels appended " + count_text(requested) + ", capacity is " + count_text(capacity()) +
                ' ' + unit,
            capacity(), requested, where};
    }

    device_buffer<T> elements_;
    device_buffer<detail::kernel_count> count_;
    tag name_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
