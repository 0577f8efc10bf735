// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Borrowing a buffer for work on a stream: the waits that work needs, put in when it starts and remembered when it ends.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/stream_uses.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/simulated.hpp>

namespace cuota::inline v0::detail {

/// A use of a buffer, from its beginning to its end. Move-only.
class borrowing {
public:
    borrowing(stream_uses& of, stream_ref s, bool writes, place where)
        : uses_{&of}, number_{of.begin(s, writes, where)}, writes_{writes} {}
    borrowing(borrowing&& other) noexcept
        : uses_{std::exchange(other.uses_, nullptr)}, number_{other.number_}, writes_{other.writes_} {}
    borrowing& operator=(borrowing&&) = delete;
    ~borrowing() {
        if (uses_) uses_->end(number_, writes_);
    }

private:
    stream_uses* uses_;
    std::uint64_t number_;
    bool writes_;
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
/// Move-only. Its end is recorded in the stream, unless that is the home stream; nothing waits on the host.
/// Cost: at home a few loads and stores, by the thread that was first to borrow there; else a lock, the waits that are
/// needed, and an event.
template <class T>
class CUOTA_OWNER lease {
public:
    lease(lease&& other) noexcept
        : span_{std::exchange(other.span_, {})},
          use_{std::move(other.use_)},
          borrowed_{std::move(other.borrowed_)} {}
    lease& operator=(lease&&) = delete;  // a lease is for one piece of work: make another

    operator device_span<T>() const noexcept { return span_; }
    operator device_span<T const>() const noexcept requires(!std::is_const_v<T>) { return span_; }
    [[nodiscard]] device_span<T> span() const& noexcept { return span_; }
    [[nodiscard]] device_span<T> span() && = delete;  // the lease would end before the span is used
    [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }

private:
    template <class>
    friend class device_buffer;
    lease(device_span<T> span, detail::stream_uses& uses, stream_ref s, place where)
        : span_{span},
          use_{uses, s, !std::is_const_v<T>, where},
          borrowed_{s, span.data(), span.bytes(), !std::is_const_v<T>} {}

    device_span<T> span_;
    detail::borrowing use_;
    rt::borrowed_range borrowed_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
