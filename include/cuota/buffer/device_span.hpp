// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What kernels get: device memory with a size, checked where checks are on.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/simulated.hpp>

namespace cuota::inline v0 {

namespace detail {

[[noreturn]] inline void span_misuse(std::size_t index, std::size_t size) {
    if (index < size) throw misuse{"host code touched an element of a device_span; only a kernel may"};
    throw misuse{"index " + std::to_string(index) + " is outside a device_span of " + std::to_string(size) +
                 " elements"};
}

CUOTA_HOST_DEVICE inline void check_index(std::size_t index, std::size_t size) {
#if defined(__CUDA_ARCH__)
    if (index >= size) {
        printf("cuota::misuse: index %llu is outside a device_span of %llu elements\n",
               static_cast<unsigned long long>(index), static_cast<unsigned long long>(size));
        __trap();
    }
#else
    bool const in_kernel = is_simulated() && cuota_simulator_in_kernel() != 0;
    if (index >= size || !in_kernel) span_misuse(index, size);
#endif
}

}  // namespace detail

/// Device memory: where it starts and how many elements it has. A value for kernels; owns nothing.
///
/// Elements are for kernels. In checked builds (CUOTA_CHECKED) an index outside the span, and any access by host
/// code, is a misuse: an exception on the simulator, a message and a trap on a GPU.
template <class T>
class device_span {
public:
    using element_type = T;

    CUOTA_HOST_DEVICE constexpr device_span() noexcept : data_{nullptr}, size_{0} {}
    CUOTA_HOST_DEVICE constexpr device_span(T* data, std::size_t size) noexcept : data_{data}, size_{size} {}
    template <class U>
    requires std::same_as<T, U const> CUOTA_HOST_DEVICE constexpr device_span(device_span<U> other) noexcept
        : data_{other.data()}, size_{other.size()} {}

    [[nodiscard]] CUOTA_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t size() const noexcept {
        return size_;
    }  ///< elements
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t bytes() const noexcept { return size_ * sizeof(T); }
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_empty() const noexcept { return size_ == 0; }

    [[nodiscard]] CUOTA_HOST_DEVICE T& operator[](std::size_t i) const {
#if CUOTA_CHECKED
        detail::check_index(i, size_);
#endif
        return data_[i];
    }

    /// Elements [offset, offset + count). Throws: misuse when that is outside. For host code.
    [[nodiscard]] device_span subspan(std::size_t offset, std::size_t count) const {
        if (offset > size_ || count > size_ - offset)
            throw misuse{"elements " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
                         std::to_string(count) + " are outside a device_span of " + std::to_string(size_)};
        return {data_ + offset, count};
    }
    [[nodiscard]] device_span first(std::size_t count) const { return subspan(0, count); }

private:
    T* data_;
    std::size_t size_;
};

static_assert(std::is_trivially_copyable_v<device_span<float>>);

}  // namespace cuota::inline v0
