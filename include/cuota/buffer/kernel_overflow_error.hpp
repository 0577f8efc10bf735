// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Error and counters of kernels that exceed their memory.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

namespace cuota::inline v0 {

/// Kernels requested more memory than was preallocated. The excess was not written.
/// Example: catch (cuota::kernel_overflow_error const& full) { found.restart(full.needed()); }  // an append_buffer; then run again
class CUOTA_PROCESS_TYPE kernel_overflow_error : public std::runtime_error {
public:
    /// `what` has the object and the numbers, in elements or bytes.
    kernel_overflow_error(std::string const& what, std::size_t capacity, std::size_t needed,
                          source_location where);

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }  ///< available
    [[nodiscard]] std::size_t needed() const noexcept { return needed_; }      ///< sufficient capacity
    [[nodiscard]] source_location where() const noexcept { return where_; }  ///< call that found the overflow

private:
    std::size_t capacity_, needed_;
    source_location where_;
};

namespace detail {

using kernel_count = unsigned long long;

/// Adds to a count of all threads; returns the previous value. Relaxed: it publishes no other data.
CUOTA_KERNEL inline kernel_count add_to(kernel_count& count, kernel_count n) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(&count, n);
#else
    return std::atomic_ref{count}.fetch_add(n, std::memory_order_relaxed);
#endif
}

/// Same, but saturates.
CUOTA_KERNEL inline void saturate(kernel_count& count, kernel_count n) {
    kernel_count constexpr most = ~kernel_count{0};
    kernel_count seen = add_to(count, 0);
    for (;;) {
        kernel_count const next = n > most - seen ? most : seen + n;
#if defined(__CUDA_ARCH__)
        kernel_count const found = atomicCAS(&count, seen, next);
        if (found == seen) return;
        seen = found;
#else
        if (std::atomic_ref{count}.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return;
#endif
    }
}

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE kernel_overflow_error::kernel_overflow_error(std::string const& what, std::size_t capacity,
                                                          std::size_t needed, source_location where)
    : std::runtime_error{"cuota::kernel_overflow_error: " + what + detail::location_suffix(where)},
      capacity_{capacity},
      needed_{needed},
      where_{where} {}

}  // namespace cuota::inline v0

#endif
