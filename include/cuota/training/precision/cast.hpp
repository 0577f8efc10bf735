// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Conversion between floating-point types.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/half.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>

namespace cuota::inline v0 {

/// Storage types of weights, gradients and activations.
template <class T>
concept storage_float = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

/// The 16-bit types among storage_float.
template <class T>
concept storage_half = storage_float<T> && sizeof(T) == 2;

namespace detail {

template <storage_float From, storage_float To>
struct cast_number {
    [[nodiscard]] CUOTA_KERNEL To operator()(std::size_t, From x) const {
        return static_cast<To>(static_cast<float>(x));
    }
};

void check_counts(char const* what, std::size_t a, std::size_t b, source_location where);

/// The blocks must not overlap: threads would read elements that others have written.
void check_disjoint(char const* what, void const* a, std::size_t a_bytes, void const* b, std::size_t b_bytes,
                    source_location where);

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Converts each element of `from` into `to`, rounding to nearest, ties to even. Too large values become infinite; NaN stays NaN.
/// Order:  on s.
/// Throws: usage_error if counts differ or the memory overlaps; cuda_error. On failure, nothing is enqueued.
/// Cost:   one kernel.
/// Example:
///     cuota::cast(s, weights, halves);
template <storage_float From, storage_float To>
void cast(stream_ref s, device_span<From const> from, device_span<To> to,
          source_location where = source_location::current()) {
    detail::check_counts("cast", from.size(), to.size(), where);
    detail::check_disjoint("cast", from.data(), from.bytes(), to.data(), to.bytes(), where);
    detail::for_each_element(s, from.size(), from.data(), to.data(), detail::cast_number<From, To>{}, "cast",
                             where);
}
/// Overload for a mutable `from`.
template <storage_float From, storage_float To>
void cast(stream_ref s, device_span<From> from, device_span<To> to,
          source_location where = source_location::current()) {
    cast(s, device_span<From const>{from}, to, where);
}
/// Overload for buffers, with a lease of each on s. Throws: also usage_error for a conflicting lease.
template <storage_float From, storage_float To>
void cast(stream_ref s, device_buffer<From> const& from, device_buffer<To>& to,
          source_location where = source_location::current()) {
    auto const source = from.read(s, where);
    auto const target = to.write(s, where);
    cast(s, source.span(), target.span(), where);
}

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_counts(char const* what, std::size_t a, std::size_t b, source_location where) {
    if (a != b)
        throw_usage_error(where, "{}: element counts differ: {} and {}", {what, as_count(a), as_count(b)});
}

CUOTA_INLINE void check_disjoint(char const* what, void const* a, std::size_t a_bytes, void const* b,
                                 std::size_t b_bytes, source_location where) {
    auto const first = reinterpret_cast<std::uintptr_t>(a);
    auto const second = reinterpret_cast<std::uintptr_t>(b);
    bool const is_apart = a_bytes == 0 || b_bytes == 0 ||
                          (first < second ? second - first >= a_bytes : first - second >= b_bytes);
    if (!is_apart) throw_usage_error(where, "{}: input and output overlap", {what});
}

}  // namespace cuota::inline v0::detail

#endif
