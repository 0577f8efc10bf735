// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A view that throws during graph capture.
#pragma once

#include <cstddef>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>

namespace cuota::inline v0::detail {

/// Throws usage_error if the calling thread is in a `capture`; such a thread has no thread record.
[[gnu::cold]] void refuse_batch_in_capture();

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// One field of a batch in device memory: returned by `batch::view`, valid while the batch lives.
///
/// Every access throws usage_error while the calling thread is in a `capture`, because the slot may hold other samples when the graph is
/// launched: copy the batch to a buffer of the graph before each launch. A device_span obtained before the capture is not checked.
/// Threads: as device_span. Cost: one more load per conversion.
/// Example: examples/first.cpp
template <class T>
class CUOTA_POINTER batch_view {
public:
    /// Used by the library.
    explicit batch_view(device_span<T const> elements) noexcept : elements_{elements} {}

    /// Converts to a kernel's argument.
    operator device_span<T const>() const { return span(); }
    /// Same as data().
    operator T const*() const { return data(); }
    // Not for host code, although it converts to a pointer.
    template <class I>
    void operator[](I) const = delete;
    void operator*() const = delete;
    explicit operator bool() const = delete;
    /// Same as the conversion to device_span.
    [[nodiscard]] device_span<T const> span() const {
        if (!detail::this_thread_slot()) [[unlikely]]
            detail::refuse_batch_in_capture();
        return elements_;
    }
    /// Returns the device pointer; null if empty.
    [[nodiscard]] T const* data() const { return span().data(); }
    [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }    ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return elements_.bytes(); }  ///< size() * sizeof(T)
    [[nodiscard]] bool is_empty() const noexcept { return elements_.is_empty(); }   ///< size() == 0
    /// Returns [offset, offset + count). Throws: usage_error if out of range.
    [[nodiscard]] device_span<T const> subspan(std::size_t offset, std::size_t count) const {
        return span().subspan(offset, count);
    }
    /// Returns the first `count`. Throws: as subspan.
    [[nodiscard]] device_span<T const> first(std::size_t count) const { return span().first(count); }
    /// Returns the last `count`. Throws: as subspan.
    [[nodiscard]] device_span<T const> last(std::size_t count) const { return span().last(count); }

private:
    device_span<T const> elements_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_DATA

#include <cuota/core/error.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_batch_in_capture() {
    if (capture_scope::here())
        throw_usage_error(
            "batch view: not allowed in a capture; copy the batch to a buffer of the graph before "
            "each launch");
}

}  // namespace cuota::inline v0::detail

#endif
