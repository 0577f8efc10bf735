// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Leases: scoped access to a buffer.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

class access_tracker;
struct leases_for_copies;

/// Throws usage_error if kernels of s's device cannot access `at`, the memory of the object `what` with the home stream `home`. Throws also
/// cuda_error.
void refuse_out_of_reach(char const* what, void const* at, stream_ref home, stream_ref s,
                         source_location where);

/// One use of a buffer by one stream, from construction to destruction. Move-only.
class borrowing {
public:
    borrowing(access_tracker& of, stream_ref s, bool writes, source_location where);
    /// Calls memory(s) unless the use starts in a home slot; data() and bytes() of the result are for race checks. If `memory` throws, the
    /// use has not started.
    template <std::invocable<stream_ref> Memory>
    borrowing(access_tracker& of, stream_ref s, bool writes, source_location where, Memory const& memory)
        : uses_{&of}, writes_{writes} {
        if (begins_first(of, s, writes, where)) [[likely]] {
            number_ = first;
            return;
        }
        auto const all = memory(s);
        begun const now = writes ? begin_to_write(of, s, where, all.data(), all.bytes())
                                 : begin_to_read(of, s, where, all.data(), all.bytes());
        uses_ = now.in;
        number_ = now.number;
        checked_ = now.checked;
        began_in_capture_ = now.is_in_capture;
    }
    borrowing(borrowing&& other) noexcept;
    borrowing& operator=(borrowing&&) = delete;
    ~borrowing();

    /// If this thread began a `capture` after the use, makes the capture fail: its graph would lack the use.
    CUOTA_ALWAYS_INLINE void tell_capture() const noexcept {
        if (!this_thread_slot()) [[unlikely]]
            compare_with_capture(began_in_capture_);
    }

private:
    // Number of a use in a home slot that no simulator checks. The code for all other uses is out of line.
    static constexpr std::uint64_t first = 0;

    struct begun {
        access_tracker* in;
        std::uint64_t number, checked;
        bool is_in_capture;
    };
    // Passed by value: a temporary lease stays in registers.
    static void compare_with_capture(bool began_in_capture) noexcept;
    CUOTA_ALWAYS_INLINE [[nodiscard]] static bool begins_first(access_tracker& of, stream_ref s, bool writes,
                                                               source_location where) noexcept;
    // Two functions instead of a parameter `writes`, so that all arguments fit in registers.
    [[nodiscard]] static begun begin_to_read(access_tracker& of, stream_ref s, source_location where,
                                             void const* at, std::size_t bytes);
    [[nodiscard]] static begun begin_to_write(access_tracker& of, stream_ref s, source_location where,
                                              void const* at, std::size_t bytes);
    [[nodiscard]] static begun begin(access_tracker& of, stream_ref s, bool writes, source_location where,
                                     void const* at, std::size_t bytes);
    static void end(access_tracker& of, std::uint64_t number, std::uint64_t checked, bool writes) noexcept;

    access_tracker* uses_;
    std::uint64_t number_;
    std::uint64_t checked_ = 0;  // the simulator's id of the use
    bool writes_;
    bool began_in_capture_ = false;  // whether the use began in a capture of this thread
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Scoped access to a buffer, like a SYCL accessor: while the lease lives, work enqueued on one stream may read (T const) or write (T) the
/// elements.
///
/// Converts to device_span and to a device pointer for kernels and libraries; preferably a temporary in the launch:
///     kernel<<<grid, block, 0, s>>>(x.read(s), y.write(s));
/// Any number of leases may be open on one stream, which orders them. Across streams, many may read or one may write; anything else throws
/// usage_error, which names both call sites. If threads do not synchronize their leases, conflicts with a write may go undetected. A stream
/// of another device may borrow only memory that its kernels can access; otherwise usage_error names both devices. Move-only. The
/// destructor never blocks.
/// Cost:    on the home stream a few loads and stores for the thread that borrowed there first; otherwise a lock, the required waits and an
///          event.
/// Example: examples/first.cpp
template <class T>
class CUOTA_OWNER lease {
public:
    /// Moves the use.
    lease(lease&& other) noexcept : use_{std::move(other.use_)}, span_{std::exchange(other.span_, {})} {}
    lease& operator=(lease&&) = delete;  // make another lease

    /// Returns the kernel argument, valid as long as the lease.
    operator device_span<T>() const noexcept { return span(); }
    /// Returns a read-only kernel argument.
    operator device_span<T const>() const noexcept requires(!std::is_const_v<T>) { return span(); }
    /// Returns the elements, valid as long as the lease. If this thread began a `capture` after the lease, the capture throws usage_error
    /// when it ends: lease the buffer within the capture.
    [[nodiscard]] device_span<T> span() const& noexcept {
        use_.tell_capture();
        return span_;
    }
    [[nodiscard]] device_span<T> span() && = delete;  // the lease would end before the span is used
    /// Returns the device pointer, not for host code; null without elements. Valid as long as the lease, so a temporary lease suffices in
    /// the arguments of a call. In a capture as `span`.
    [[nodiscard]] T* data() const noexcept CUOTA_LIFETIME_BOUND {
        use_.tell_capture();
        return span_.data();
    }
    /// Same as data().
    operator T*() const noexcept CUOTA_LIFETIME_BOUND { return data(); }
    // Not for host code, although it converts to a pointer.
    template <class I>
    void operator[](I) const = delete;
    void operator*() const = delete;
    explicit operator bool() const = delete;
    [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }  ///< elements

private:
    template <class>
    friend class device_buffer;
    template <class>
    friend class imported_buffer;
    friend struct detail::leases_for_copies;
    // On the home stream, the lookups in the lambda are not needed.
    template <class Buffer>
    lease(Buffer& of, stream_ref s, source_location where)
        : use_{of.uses(), s, !std::is_const_v<T>, where,
               [&](stream_ref user) {
                   detail::refuse_out_of_reach("a buffer", of.data(), of.home(), user, where);
                   return elements(of, where);
               }},
          span_{elements(of, where)} {}
    struct for_copies {};
    template <class Buffer>
    lease(for_copies, Buffer& of, stream_ref s, source_location where)
        : use_{of.uses(), s, !std::is_const_v<T>, where, [&](stream_ref) { return elements(of, where); }},
          span_{elements(of, where)} {}
    template <class Buffer>
    [[nodiscard]] static device_span<T> elements(Buffer& of, source_location where) noexcept {
        return {of.data(), of.size(), of.origin(where)};
    }

    detail::borrowing use_;
    device_span<T> span_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

namespace cuota::inline v0::detail {

/// Leases for copies. The driver copies between any devices, so out_of_reach is not checked.
struct leases_for_copies {
    template <class Buffer>
    [[nodiscard]] static lease<typename Buffer::value_type const> read(Buffer const& of, stream_ref s,
                                                                       source_location where) {
        using copied = lease<typename Buffer::value_type const>;
        return {typename copied::for_copies{}, of, s, where};
    }
    template <class Buffer>
    [[nodiscard]] static lease<typename Buffer::value_type> write(Buffer& of, stream_ref s,
                                                                  source_location where) {
        using copied = lease<typename Buffer::value_type>;
        return {typename copied::for_copies{}, of, s, where};
    }
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <exception>
#include <optional>
#include <string>

#include <cuota/buffer/detail/access_tracker.hpp>
#include <cuota/buffer/detail/captured_access.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/rt/peer_access.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

[[gnu::noinline]] CUOTA_INLINE void refuse_out_of_reach(char const* what, void const* at, stream_ref home,
                                                        stream_ref s, source_location where) {
    if (!at || s.is_same(home)) return;
    device const user = s.device();
    if (user == home.device()) return;
    auto const other = rt::out_of_reach(user, at);
    if (!other) return;
    throw_usage_error(
        where,
        "{} in memory of device {} cannot be used on a stream of device {}: its kernels cannot "
        "access that memory; add device {} to the pool's `peers`, or copy on a stream of device {}",
        {what, other->ordinal(), user.ordinal(), user.ordinal(), other->ordinal()});
}

CUOTA_INLINE borrowing::borrowing(access_tracker& of, stream_ref s, bool writes, source_location where)
    : uses_{&captured_access::find(of, s, writes, where)},
      number_{uses_->begin(s, writes, where)},
      writes_{writes},
      began_in_capture_{capture_scope::here() != nullptr} {}

CUOTA_INLINE bool borrowing::begins_first(access_tracker& of, stream_ref s, bool writes,
                                          source_location where) noexcept {
    if (rt::is_race_checked() || !of.may_begin_first(s, writes)) return false;
    of.begin_first(writes, where);
    return true;
}

[[gnu::noinline]] CUOTA_INLINE auto borrowing::begin_to_read(access_tracker& of, stream_ref s,
                                                             source_location where, void const* at,
                                                             std::size_t bytes) -> begun {
    return begin(of, s, false, where, at, bytes);
}

[[gnu::noinline]] CUOTA_INLINE auto borrowing::begin_to_write(access_tracker& of, stream_ref s,
                                                              source_location where, void const* at,
                                                              std::size_t bytes) -> begun {
    return begin(of, s, true, where, at, bytes);
}

CUOTA_INLINE auto borrowing::begin(access_tracker& of, stream_ref s, bool writes, source_location where,
                                   void const* at, std::size_t bytes) -> begun {
    access_tracker& in = captured_access::find(of, s, writes, where);
    std::uint64_t const number = in.begin(s, writes, where);
    std::optional<on_device_of> here;
    if (rt::is_race_checked())
        here.emplace(s, where);  // the simulator looks the handle up on the current device
    return {&in, number, rt::annotate_access_begin(s, at, bytes, writes), capture_scope::here() != nullptr};
}

[[gnu::noinline]] CUOTA_INLINE void borrowing::compare_with_capture(bool began_in_capture) noexcept {
    capture_scope* const scope = capture_scope::here();
    if (!scope || began_in_capture) return;
    try {
        throw_usage_error(
            "lease: cannot be used in a capture that began after it, because the graph would not "
            "track the use; lease the buffer in the capture");
    } catch (...) { scope->fail(std::current_exception()); }
}

[[gnu::noinline]] CUOTA_INLINE void borrowing::end(access_tracker& of, std::uint64_t number,
                                                   std::uint64_t checked, bool writes) noexcept {
    rt::annotate_access_end(checked);
    of.end(number, writes);
}

CUOTA_INLINE borrowing::borrowing(borrowing&& other) noexcept
    : uses_{std::exchange(other.uses_, nullptr)},
      number_{other.number_},
      checked_{other.checked_},
      writes_{other.writes_},
      began_in_capture_{other.began_in_capture_} {}

CUOTA_INLINE borrowing::~borrowing() {
    if (!uses_) return;
    if (number_ == first) [[likely]]
        uses_->end_first(writes_);
    else end(*uses_, number_, checked_, writes_);
}

}  // namespace cuota::inline v0::detail

#endif
