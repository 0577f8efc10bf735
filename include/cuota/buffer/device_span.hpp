// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A bounds-checked view of device memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cuota/buffer/detail/view_origin.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// A non-owning view of `size()` elements in device memory, passed to kernels by value.
///
/// Only kernels may access elements. In checked builds (CUOTA_CHECKED), host access and an index outside the span are misuse; the message
/// has index, size, buffer and lease. On the simulator the kernel throws, on a GPU it stops; in both cases the next call that detects the
/// failure throws cuda_error with the message.
/// Throws:  usage_error for a range outside the span, in kernels only in checked builds.
/// Threads: as the memory.
/// Example: examples/first.cpp
template <class T>
class CUOTA_POINTER device_span {
public:
    using element_type = T;  ///< const if read-only

    /// Makes an empty span.
    CUOTA_HOST_DEVICE constexpr device_span() noexcept : data_{nullptr}, size_{0} {}
    /// Views `size` elements at `data`, unverified and unnamed.
    CUOTA_HOST_DEVICE constexpr device_span(T* data, std::size_t size) noexcept
        : device_span{data, size, detail::view_origin::by_hand()} {}
    /// Same, with an origin for messages.
    CUOTA_HOST_DEVICE constexpr device_span(T* data, std::size_t size,
                                            [[maybe_unused]] detail::view_origin origin) noexcept
        : data_{data}, size_{size} {
#if CUOTA_CHECKED
        origin_ = origin;
#endif
    }
    /// Converts to read-only.
    template <class U>
    requires std::same_as<T, U const> CUOTA_HOST_DEVICE constexpr device_span(device_span<U> other) noexcept
        : device_span{other.data(), other.size(), other.origin()} {}

    /// Returns the address of the first element, which host code must not access; null if default-constructed.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
    /// Number of elements.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t size() const noexcept { return size_; }
    /// `size() * sizeof(T)`.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t bytes() const noexcept { return size_ * sizeof(T); }
    /// Returns `size() == 0`.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_empty() const noexcept { return size_ == 0; }
    /// Returns the origin; empty in unchecked builds.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr detail::view_origin origin() const noexcept {
#if CUOTA_CHECKED
        return origin_;
#else
        return {};
#endif
    }

    /// Returns element i, in kernels only.
    [[nodiscard]] CUOTA_KERNEL T& operator[](std::size_t i) const {
#if CUOTA_CHECKED
        if (i >= size_) origin_.template refuse<T>({detail::out_of_bounds::part::element, {i}, {size_}});
        origin_.expect_kernel("device_span");
#endif
        return data_[i];
    }

    /// Returns elements [offset, offset + count).
    [[nodiscard]] CUOTA_HOST_DEVICE device_span subspan(std::size_t offset, std::size_t count) const {
        if (!detail::is_within(offset, count, size_))
            origin().template refuse<T>({detail::out_of_bounds::part::subspan, {offset, count}, {size_}});
        return {data_ + offset, count, origin()};
    }
    /// Returns the first `count` elements.
    [[nodiscard]] CUOTA_HOST_DEVICE device_span first(std::size_t count) const { return subspan(0, count); }
    /// Returns the last `count` elements.
    [[nodiscard]] CUOTA_HOST_DEVICE device_span last(std::size_t count) const {
        return subspan(count <= size_ ? size_ - count : 0, count);
    }

private:
    T* data_;
    std::size_t size_;
#if CUOTA_CHECKED
    detail::view_origin origin_;
#endif
};

static_assert(std::is_trivially_copyable_v<device_span<float>>);
static_assert(CUOTA_CHECKED || sizeof(device_span<float>) == sizeof(void*) + sizeof(std::size_t));

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
