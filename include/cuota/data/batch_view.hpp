// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A view of a batch's elements that captured work cannot use.
#pragma once

#include <cstddef>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/sync.hpp>

namespace cuota::inline v0::detail {

/// Throws misuse when the calling thread is in a `capture`. Call it only for a thread that has no record, as a thread that captures has none.
[[gnu::cold]] void refuse_batch_in_capture();

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// The elements of a field of a batch on the device, made by `batch::view` and valid as long as the batch.
///
/// Converts to device_span for a kernel. A graph can be launched after the batch has ended, when its slot holds other samples. So all that
/// reaches the elements throws misuse while the calling thread is in a `capture`, whenever the view was made: copy the batch to a buffer of
/// the graph before each launch. A device_span that was converted before a capture is not checked.
/// Threads: as device_span. Cost: that of a device_span, and a load for each conversion.
/// Example: examples/first.cpp
template <class T>
class CUOTA_POINTER batch_view {
public:
    /// Of these elements; the library makes it.
    explicit batch_view(device_span<T const> elements) noexcept : elements_{elements} {}

    /// The argument of a kernel. Throws: misuse in a `capture` by this thread.
    operator device_span<T const>() const { return span(); }
    /// As the conversion.
    [[nodiscard]] device_span<T const> span() const {
        if (!detail::this_thread_record()) [[unlikely]]
            detail::refuse_batch_in_capture();
        return elements_;
    }
    /// Not for host code; null when of nothing. Throws: as span.
    [[nodiscard]] T const* data() const { return span().data(); }
    [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }    ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return elements_.bytes(); }  ///< size() * sizeof(T)
    [[nodiscard]] bool is_empty() const noexcept { return elements_.is_empty(); }   ///< no elements
    /// Elements [offset, offset + count). Throws: misuse when that is outside; as span.
    [[nodiscard]] device_span<T const> subspan(std::size_t offset, std::size_t count) const {
        return span().subspan(offset, count);
    }
    /// Throws: as subspan.
    [[nodiscard]] device_span<T const> first(std::size_t count) const { return span().first(count); }
    /// The last `count`. Throws: as subspan.
    [[nodiscard]] device_span<T const> last(std::size_t count) const { return span().last(count); }

private:
    device_span<T const> elements_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_DATA

#include <cuota/core/error.hpp>
#include <cuota/runtime/capture_scope.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_batch_in_capture() {
    if (capture_scope::here())
        throw_misuse("a view of a batch was used in a capture: copy the batch to a buffer of the graph "
                     "before each launch");
}

}  // namespace cuota::inline v0::detail

#endif
