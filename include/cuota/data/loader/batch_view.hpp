// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A view of a batch's elements that throws during graph capture.
#pragma once

#include <cstddef>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>

namespace cuota::inline v0::detail {

/// Throws usage_error if the calling thread is in a `capture`. Called for threads without a thread record; a capturing thread has none.
[[gnu::cold]] void refuse_batch_in_capture();

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// One field of a batch in device memory: returned by `batch::view`, valid while the batch lives.
///
/// Converts to device_span as a kernel argument. A graph may be launched after the batch is destroyed, when its slot holds other samples.
/// So every access to the elements throws usage_error while the calling thread is in a `capture`, even through an older view: copy the
/// batch to a buffer of the graph before each launch. A device_span obtained before the capture is not checked.
/// Threads: as device_span. Cost: as device_span, plus one load per conversion.
/// Example: examples/first.cpp
template <class T>
class CUOTA_POINTER batch_view {
public:
    /// Constructs a view; used by the library.
    explicit batch_view(device_span<T const> elements) noexcept : elements_{elements} {}

    /// Converts to a kernel argument. Throws: usage_error during a `capture` by this thread.
    operator device_span<T const>() const { return span(); }
    /// Same as the conversion.
    [[nodiscard]] device_span<T const> span() const {
        if (!detail::this_thread_slot()) [[unlikely]]
            detail::refuse_batch_in_capture();
        return elements_;
    }
    /// Returns the device pointer; null if empty. Throws: as span.
    [[nodiscard]] T const* data() const { return span().data(); }
    [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }    ///< number of elements
    [[nodiscard]] std::size_t bytes() const noexcept { return elements_.bytes(); }  ///< size() * sizeof(T)
    [[nodiscard]] bool is_empty() const noexcept { return elements_.is_empty(); }   ///< size() == 0
    /// Returns [offset, offset + count). Throws: usage_error if out of range; as span.
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
