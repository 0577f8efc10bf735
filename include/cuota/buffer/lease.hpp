// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Borrowing a buffer for work on a stream: the waits that work needs, put in when it starts and remembered when it ends.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

class stream_uses;
struct leases_for_copies;

/// Throws misuse when kernels of a stream's device may not reach memory that they are to borrow: of a buffer or the like,
/// which `what` says, with that home. Throws: cuda_error.
/// Cost: nothing on the home stream; for a stream of another device some calls of CUDA.
void refuse_out_of_reach(char const* what, void const* at, stream_ref home, stream_ref s, place where);

/// A use of a buffer, from its beginning to its end. Move-only.
class borrowing {
public:
    borrowing(stream_uses& of, stream_ref s, bool writes, place where);
    /// Calls memory(s) unless the use begins on the buffer's home stream. The result's data() and bytes() name the memory that is used,
    /// so that the simulator can check the order of uses. When memory throws, no use has begun.
    template <std::invocable<stream_ref> Memory>
    borrowing(stream_uses& of, stream_ref s, bool writes, place where, Memory const& memory)
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

    /// Makes a `capture` by this thread fail with misuse if it began after this use: its graph would not know of the use.
    /// Cost: a load. A thread that captures has no record.
    CUOTA_ALWAYS_INLINE void tell_capture() const noexcept {
        if (!this_thread_record()) [[unlikely]]
            compare_with_capture(began_in_capture_);
    }

private:
    // A use that needed nothing, nor is known to a simulator: two comparisons and two stores, and as few to end it. All else
    // is elsewhere, to keep the calling code short.
    static constexpr std::uint64_t first = 0;

    struct begun {
        stream_uses* in;
        std::uint64_t number, checked;
        bool is_in_capture;
    };
    // Takes the flag by value, so that the compiler can keep the members of a temporary lease in registers.
    static void compare_with_capture(bool began_in_capture) noexcept;
    CUOTA_ALWAYS_INLINE [[nodiscard]] static bool begins_first(stream_uses& of, stream_ref s, bool writes,
                                                               place where) noexcept;
    // `writes` is no argument: all others go in registers.
    [[nodiscard]] static begun begin_to_read(stream_uses& of, stream_ref s, place where, void const* at,
                                             std::size_t bytes);
    [[nodiscard]] static begun begin_to_write(stream_uses& of, stream_ref s, place where, void const* at,
                                              std::size_t bytes);
    [[nodiscard]] static begun begin(stream_uses& of, stream_ref s, bool writes, place where, void const* at,
                                     std::size_t bytes);
    static void end(stream_uses& of, std::uint64_t number, std::uint64_t checked, bool writes) noexcept;

    stream_uses* uses_;
    std::uint64_t number_;
    std::uint64_t checked_ = 0;  // by the simulator
    bool writes_;
    bool began_in_capture_ = false;  // by this thread
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// A borrowed buffer: readable (T const) or writable (T) by work enqueued on one stream while the lease lives.
///
/// Converts to device_span for the kernel that uses it, and is best left a temporary in the launch:
///     kernel<<<grid, block, 0, s>>>(x.read(s), y.write(s));
/// Leases on one stream go together, in any number: the stream orders them. On different streams many may read, or
/// one may write; everything else is a misuse that names both places. Of threads that do nothing to see each other's
/// leases, those that read may; what one of them writes may go unseen.
/// A stream of another device may borrow memory that its kernels can reach; else it is a misuse that names both devices.
/// Move-only; made by `read` and `write` of a buffer, which say what they throw. Its end is recorded in the stream, unless
/// that is the home stream; nothing waits on the host.
/// Cost: at home a few loads and stores, by the thread that was first to borrow there; else a lock, the waits that are
/// needed, and an event.
/// Example: examples/first.cpp
template <class T>
class CUOTA_OWNER lease {
public:
    /// The other one ends nothing.
    lease(lease&& other) noexcept : use_{std::move(other.use_)}, span_{std::exchange(other.span_, {})} {}
    lease& operator=(lease&&) = delete;  // a lease is for one piece of work: make another

    /// The argument of a kernel, valid as long as the lease. In a capture as span.
    operator device_span<T>() const noexcept { return span(); }
    /// Read only.
    operator device_span<T const>() const noexcept requires(!std::is_const_v<T>) { return span(); }
    /// The elements, valid as long as the lease. A `capture` by this thread that began after the lease throws misuse at its end: borrow the
    /// buffer in the capture.
    [[nodiscard]] device_span<T> span() const& noexcept {
        use_.tell_capture();
        return span_;
    }
    [[nodiscard]] device_span<T> span() && = delete;  // the lease would end before the span is used
    [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }  ///< elements

private:
    template <class>
    friend class device_buffer;
    template <class>
    friend class foreign_buffer;
    friend struct detail::leases_for_copies;
    // What is not wanted at home is not looked up there.
    template <class Buffer>
    lease(Buffer& of, stream_ref s, place where)
        : use_{of.uses(), s, !std::is_const_v<T>, where,
               [&](stream_ref user) {
                   detail::refuse_out_of_reach("a buffer", of.data(), of.home(), user, where);
                   return elements(of, where);
               }},
          span_{elements(of, where)} {}
    struct for_copies {};
    template <class Buffer>
    lease(for_copies, Buffer& of, stream_ref s, place where)
        : use_{of.uses(), s, !std::is_const_v<T>, where, [&](stream_ref) { return elements(of, where); }},
          span_{elements(of, where)} {}
    template <class Buffer>
    [[nodiscard]] static device_span<T> elements(Buffer& of, place where) noexcept {
        return {of.data(), of.size(), of.origin(where)};
    }

    detail::borrowing use_;
    device_span<T> span_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

namespace cuota::inline v0::detail {

/// Leases of a device_buffer for copies: those the driver makes between any devices, whether kernels could or not.
struct leases_for_copies {
    template <class Buffer>
    [[nodiscard]] static lease<typename Buffer::value_type const> read(Buffer const& of, stream_ref s,
                                                                       place where) {
        using copied = lease<typename Buffer::value_type const>;
        return {typename copied::for_copies{}, of, s, where};
    }
    template <class Buffer>
    [[nodiscard]] static lease<typename Buffer::value_type> write(Buffer& of, stream_ref s, place where) {
        using copied = lease<typename Buffer::value_type>;
        return {typename copied::for_copies{}, of, s, where};
    }
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <exception>
#include <optional>
#include <string>

#include <cuota/buffer/captured_uses.hpp>
#include <cuota/buffer/stream_uses.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/peer_access.hpp>
#include <cuota/runtime/simulated.hpp>

namespace cuota::inline v0::detail {

[[gnu::noinline]] CUOTA_INLINE void refuse_out_of_reach(char const* what, void const* at, stream_ref home,
                                                        stream_ref s, place where) {
    if (!at || s.is_same(home)) return;
    device const user = s.device();
    if (user == home.device()) return;
    auto const other = rt::out_of_reach(user, at);
    if (!other) return;
    throw_misuse(
        where,
        "{} in memory of device {} cannot be used on a stream of device {}, whose kernels cannot reach that "
        "memory: name device {} in the pool's `peers`, or copy on a stream of device {}",
        {what, other->ordinal(), user.ordinal(), user.ordinal(), other->ordinal()});
}

CUOTA_INLINE borrowing::borrowing(stream_uses& of, stream_ref s, bool writes, place where)
    : uses_{&captured_uses::find(of, s, writes, where)},
      number_{uses_->begin(s, writes, where)},
      writes_{writes},
      began_in_capture_{capture_scope::here() != nullptr} {}

CUOTA_INLINE bool borrowing::begins_first(stream_uses& of, stream_ref s, bool writes, place where) noexcept {
    if (rt::is_order_checked() || !of.may_begin_first(s, writes)) return false;
    of.begin_first(writes, where);
    return true;
}

[[gnu::noinline]] CUOTA_INLINE auto borrowing::begin_to_read(stream_uses& of, stream_ref s, place where,
                                                             void const* at, std::size_t bytes) -> begun {
    return begin(of, s, false, where, at, bytes);
}

[[gnu::noinline]] CUOTA_INLINE auto borrowing::begin_to_write(stream_uses& of, stream_ref s, place where,
                                                              void const* at, std::size_t bytes) -> begun {
    return begin(of, s, true, where, at, bytes);
}

CUOTA_INLINE auto borrowing::begin(stream_uses& of, stream_ref s, bool writes, place where, void const* at,
                                   std::size_t bytes) -> begun {
    stream_uses& in = captured_uses::find(of, s, writes, where);
    std::uint64_t const number = in.begin(s, writes, where);
    std::optional<on_device_of> here;
    if (rt::is_order_checked())
        here.emplace(s, where);  // the simulator looks the handle up on the current device
    return {&in, number, rt::tell_borrowed(s, at, bytes, writes), capture_scope::here() != nullptr};
}

[[gnu::noinline]] CUOTA_INLINE void borrowing::compare_with_capture(bool began_in_capture) noexcept {
    capture_scope* const scope = capture_scope::here();
    if (!scope || began_in_capture) return;
    try {
        throw_misuse(
            "a lease that began before a capture was used in it, so the graph would not know of that use: "
            "borrow the buffer in the capture");
    } catch (...) { scope->fail(std::current_exception()); }
}

[[gnu::noinline]] CUOTA_INLINE void borrowing::end(stream_uses& of, std::uint64_t number,
                                                   std::uint64_t checked, bool writes) noexcept {
    rt::tell_returned(checked);
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
