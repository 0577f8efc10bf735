// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers of one width stored as numbers of another, on the device.
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
#include <cuota/runtime/for_each_element.hpp>

namespace cuota::inline v0 {

/// What weights, gradients and activations are stored as.
template <class T>
concept stored_float = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

/// The stored_floats of 16 bits.
template <class T>
concept stored_half = stored_float<T> && sizeof(T) == 2;

namespace detail {

template <stored_float From, stored_float To>
struct cast_number {
    [[nodiscard]] CUOTA_KERNEL To operator()(std::size_t, From x) const {
        return static_cast<To>(static_cast<float>(x));
    }
};

/// Throws: misuse when the counts differ.
void check_counts(char const* what, std::size_t a, std::size_t b, place where);

/// Throws: misuse when two blocks of memory have a byte in common: threads would read what others have written.
void check_disjoint(char const* what, void const* a, std::size_t a_bytes, void const* b, std::size_t b_bytes,
                    place where);

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Writes every number of `from` to `to`, rounded to nearest, ties to even: what is too large becomes infinite, a NaN stays
/// one. From 16 bits to float it is exact; between half and bfloat16 it is rounded once.
/// Order:  of s. Returns before the work is done.
/// Throws: misuse when the counts differ or the memory overlaps; cuda_error. Nothing is enqueued then.
/// Cost:   one kernel.
/// Example:
///     cuota::cast(s, weights, halves);  // device_buffers of float and half, of one count
template <stored_float From, stored_float To>
void cast(stream_ref s, device_span<From const> from, device_span<To> to, place where = place::here()) {
    detail::check_counts("cast", from.size(), to.size(), where);
    detail::check_disjoint("cast", from.data(), from.bytes(), to.data(), to.bytes(), where);
    detail::for_each_element(s, from.size(), from.data(), to.data(), detail::cast_number<From, To>{}, "cast",
                             where);
}
/// The same.
template <stored_float From, stored_float To>
void cast(stream_ref s, device_span<From> from, device_span<To> to, place where = place::here()) {
    cast(s, device_span<From const>{from}, to, where);
}
/// Of buffers, which it borrows on s. Throws: misuse for those that are borrowed elsewhere, too.
/// Cost: one kernel.
template <stored_float From, stored_float To>
void cast(stream_ref s, device_buffer<From> const& from, device_buffer<To>& to, place where = place::here()) {
    auto const source = from.read(s, where);
    auto const target = to.write(s, where);
    cast(s, source.span(), target.span(), where);
}

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_counts(char const* what, std::size_t a, std::size_t b, place where) {
    if (a != b) throw_misuse(where, "{}: {} elements and {} do not match", {what, as_count(a), as_count(b)});
}

CUOTA_INLINE void check_disjoint(char const* what, void const* a, std::size_t a_bytes, void const* b,
                                 std::size_t b_bytes, place where) {
    auto const first = reinterpret_cast<std::uintptr_t>(a);
    auto const second = reinterpret_cast<std::uintptr_t>(b);
    bool const is_apart = a_bytes == 0 || b_bytes == 0 ||
                          (first < second ? second - first >= a_bytes : first - second >= b_bytes);
    if (!is_apart) throw_misuse(where, "{}: what is read and what is written overlap", {what});
}

}  // namespace cuota::inline v0::detail

#endif
