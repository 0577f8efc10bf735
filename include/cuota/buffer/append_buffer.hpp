// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Results whose number only the kernel knows: appended by its threads, to memory that is there beforehand.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/kernel_overflow.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// What kernels get of an append_buffer. A value; owns nothing.
/// Threads: any of a kernel. Throws: nothing; in checked builds see device_span. Cost: an atomic addition for each element.
template <class T>
class device_appender {
public:
    /// Made by an append_lease. `count`: 8 bytes on the device, how many were asked for so far.
    device_appender(device_span<T> room, detail::kernel_count* count) noexcept : room_{room}, count_{count} {}

    /// Appends the value, in no particular order among threads; false when there is no room, which is counted.
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

/// Memory for up to `capacity()` elements that kernels append one by one: matches, survivors of a filter, a frontier.
///
/// Nothing is allocated in a kernel, and nothing is written outside. Who runs out of room is told so there and counted;
/// `size` and `to_vector` throw then, with the capacity that would have been enough.
///
/// Move-only; moved-from has capacity 0, and any other use is misuse. Units: counts are elements. Threads: as device_buffer.
/// Throws:  as device_buffer. Operations that throw change nothing.
/// Order:   appends, `clear` and reads are uses of a buffer: in order of their streams, ordered among streams by leases.
/// Cost:    an append is one atomic addition and a store; whoever wants the count on the host waits for the stream.
/// Example:
///     cuota::append_buffer<int> found{1000, stream, pool, "matches"};
///     cuota::for_each_index(stream, n, match{keys.read(stream), found.append(stream)});
///     std::vector<int> const matches = found.to_vector(stream);  // kernel_overflow when more were found
template <class T>
class append_buffer {
public:
    using value_type = T;  ///< what is appended

    /// Room for `capacity` elements of memory, and 8 bytes for their count; none appended. Enqueues the zero on the home
    /// stream.
    append_buffer(element_count capacity, stream_ref home, resource_ref const& memory, tag name = {},
                  place where = place::here())
        : elements_{capacity, home, memory, no_init, name, where},
          count_{1, home, memory, zeroed, name, where},
          name_{name} {}

    /// Borrowed for kernels on one stream that append. Converts to device_appender, and is best left a temporary in the
    /// launch.
    class append_lease {
    public:
        /// For the kernel; valid as long as the lease.
        operator device_appender<T>() const noexcept { return {room_.span(), count_.span().data()}; }

    private:
        friend class append_buffer;
        append_lease(append_buffer& of, stream_ref s, place where)
            : room_{of.elements_.write(s, where)}, count_{of.count_.write(s, where)} {}
        lease<T> room_;
        lease<detail::kernel_count> count_;
    };

    /// For work on s that appends to what is there. Throws: misuse, cuda_error.
    [[nodiscard]] append_lease append(stream_ref s, place where = place::here()) {
        check_not_moved_from(where);
        return {*this, s, where};
    }
    /// Empty again, in order of s. Throws: misuse, cuda_error.
    void clear(stream_ref s, place where = place::here()) {
        check_not_moved_from(where);
        auto const count = count_.write(s, where);
        rt::fill_bytes(count.span().data(), 0, count.span().bytes(), s, where);
    }

    /// What was appended by the work of s so far and before. Waits for s.
    /// Throws: kernel_overflow when that was more than fits; misuse, cuda_error.
    [[nodiscard]] std::size_t size(stream_ref s, place where = place::here()) const {
        std::size_t const asked = asked_for(s, where);
        if (asked > capacity()) refuse(asked, where);
        return asked;
    }
    /// The same, of what fitted, without a word about the rest. Waits for s. Throws: misuse, cuda_error.
    [[nodiscard]] std::size_t size_that_fitted(stream_ref s, place where = place::here()) const {
        return std::min(asked_for(s, where), capacity());
    }
    [[nodiscard]] std::size_t capacity() const noexcept { return elements_.size(); }  ///< elements
    /// Where the memory is given back.
    [[nodiscard]] stream_ref home() const noexcept { return elements_.home(); }

    /// All `capacity()` elements, of which those appended come first, for work on s that reads them.
    /// Throws: misuse, cuda_error.
    [[nodiscard]] lease<T const> read(stream_ref s, place where = place::here()) const {
        check_not_moved_from(where);
        return elements_.read(s, where);
    }
    /// What was appended. Waits for s. Throws: as size.
    [[nodiscard]] std::vector<T> to_vector(stream_ref s, place where = place::here()) const {
        return detail::filled_vector<T>(size(s, where), [&](std::span<T> host) {
            auto const all = detail::leases_for_copies::read(elements_, s, where);
            rt::copy_to_host(host.data(), all.span().data(), host.size_bytes(), s, where);
            rt::synchronize_or_drain(s, where);
        });
    }

    /// Room for that many, and nothing appended: what to do before kernels try again. In order of the home stream.
    /// Takes the new memory before it gives the old back. Throws: as on construction, and misuse while it is borrowed;
    /// unchanged then.
    void restart(element_count capacity, place where = place::here()) {
        check_not_moved_from(where);
        elements_.check_not_borrowed("restarted", where);
        device_buffer<T> next{capacity, home(), elements_.memory(), no_init, name_, where};
        clear(home(), where);
        elements_ = std::move(next);
    }

private:
    [[nodiscard]] std::size_t asked_for(stream_ref s, place where) const {
        check_not_moved_from(where);
        return static_cast<std::size_t>(count_.to_vector(s, where).front());
    }
    // Every buffer has a count, also one with room for no elements.
    void check_not_moved_from(place where) const {
        if (count_.is_empty())
            detail::throw_misuse(where, "an append_buffer was used after it was moved from");
    }
    [[noreturn]] void refuse(std::size_t asked, place where) const {
        std::string const unit = unit_name<T>();
        throw kernel_overflow{
            (name_.is_empty() ? "an append_buffer" : '"' + std::string{name_.text()} + '"') +
                " has room for " + count_text(capacity()) + ' ' + unit + ", and kernels appended " +
                count_text(asked),
            capacity(), asked, where};
    }

    device_buffer<T> elements_;
    device_buffer<detail::kernel_count> count_;
    tag name_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
