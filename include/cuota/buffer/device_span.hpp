// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What kernels get: device memory with a size, checked where checks are on.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cuota/buffer/view_origin.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Device memory: where it starts and how many elements it has. A value for kernels; owns nothing.
///
/// Elements are for kernels. In checked builds (CUOTA_CHECKED) an index outside the span, and any access by host
/// code, is a misuse that names the index, the size, and the buffer and the place of the lease where the span is from
/// one. On the simulator it is an exception in the kernel; on a GPU the kernel stops. Either way the cuda_error of the
/// next call that meets the dead device says it.
/// Unchecked it is a pointer and a size, and an index costs nothing more.
/// Threads: as the memory. Example: examples/first.cpp
template <class T>
class CUOTA_POINTER device_span {
public:
    using element_type = T;  ///< const for one that is read only

    /// Of nothing.
    CUOTA_HOST_DEVICE constexpr device_span() noexcept : data_{nullptr}, size_{0} {}
    /// Of a pointer into device memory, `size` elements; nobody checks that they are there. Nameless in messages.
    CUOTA_HOST_DEVICE constexpr device_span(T* data, std::size_t size) noexcept
        : device_span{data, size, detail::view_origin::by_hand()} {}
    /// With what a message says of it.
    CUOTA_HOST_DEVICE constexpr device_span(T* data, std::size_t size,
                                            [[maybe_unused]] detail::view_origin origin) noexcept
        : data_{data}, size_{size} {
#if CUOTA_CHECKED
        origin_ = origin;
#endif
    }
    /// Writable to read only.
    template <class U>
    requires std::same_as<T, U const> CUOTA_HOST_DEVICE constexpr device_span(device_span<U> other) noexcept
        : device_span{other.data(), other.size(), other.origin()} {}

    /// Not for host code; null when of nothing.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t size() const noexcept {
        return size_;
    }  ///< elements
    /// Size() * sizeof(T).
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t bytes() const noexcept { return size_ * sizeof(T); }
    /// No elements.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_empty() const noexcept { return size_ == 0; }
    /// What a message says of it; nothing in unchecked builds.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr detail::view_origin origin() const noexcept {
#if CUOTA_CHECKED
        return origin_;
#else
        return {};
#endif
    }

    /// Element i, for a kernel. Checked: misuse, see above.
    [[nodiscard]] CUOTA_KERNEL T& operator[](std::size_t i) const {
#if CUOTA_CHECKED
        if (i >= size_) origin_.template refuse<T>({detail::out_of_bounds::part::element, {i}, {size_}});
        origin_.expect_kernel("device_span");
#endif
        return data_[i];
    }

    /// Elements [offset, offset + count). Throws: misuse when that is outside; in kernels checked as an index is.
    [[nodiscard]] CUOTA_HOST_DEVICE device_span subspan(std::size_t offset, std::size_t count) const {
        if (!detail::is_within(offset, count, size_))
            origin().template refuse<T>({detail::out_of_bounds::part::subspan, {offset, count}, {size_}});
        return {data_ + offset, count, origin()};
    }
    /// Throws: as subspan.
    [[nodiscard]] CUOTA_HOST_DEVICE device_span first(std::size_t count) const { return subspan(0, count); }
    /// The last `count`. Throws: as subspan.
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
