// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The largest batch that fits, as a plan or dry runs determine it.
#pragma once

#include <cstddef>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// The largest batch that fits: of a plan by footprint::largest_batch, of code by largest_batch_that_fits. Units: samples and bytes.
struct batch_fit {
    std::size_t batch = 0;  ///< 0: none fits; `unlimited`: any batch of the plan fits
    std::size_t bytes =
        0;  ///< for `batch`: planned, or the peak of its run; the plan's fixed part if `batch` is 0
    std::size_t next = 0;        ///< the next larger size, which does not fit; 0: none, or none was run
    std::size_t next_bytes = 0;  ///< for `next`; `unlimited`: overflows, or refused during its run
    std::size_t available = 0;   ///< available in the budget
    std::size_t runs = 0;        ///< sizes that were run, each once; 0 for a plan
    bool is_monotone = true;     ///< false: a larger size used less, so one above `next` may fit

    /// Returns whether any batch of the plan fits.
    [[nodiscard]] bool is_unbounded() const noexcept { return batch == unlimited; }
    /// Returns whether the plan fits without samples.
    [[nodiscard]] bool fixed_part_fits() const noexcept { return bytes != unlimited && bytes <= available; }
    /// Returns "a batch of 127 fits: 511.5 MiB of 512.0 MiB, and 128 would take 515.6 MiB", for example. Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;
};

namespace detail {
/// Returns bytes as text; "16 EiB or more" for `unlimited`.
[[nodiscard]] std::string planned_text(std::size_t bytes);
}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE std::string detail::planned_text(std::size_t bytes) {
    return bytes == unlimited ? "16 EiB or more" : bytes_text(bytes);
}

CUOTA_INLINE std::string batch_fit::text() const {
    auto const of_available = [&](std::size_t taken) {
        return detail::planned_text(taken) +
               (available == unlimited ? ", no limit" : " of " + bytes_text(available));
    };
    if (!fixed_part_fits()) return "not even the fixed part fits: " + of_available(bytes);
    if (is_unbounded()) return "any batch fits: " + of_available(bytes);
    bool const was_refused = runs != 0 && next_bytes == unlimited;
    if (batch == 0 && runs != 0)
        return detail::message("a batch of {} does not fit: {}",
                               {detail::as_count(next),
                                was_refused ? "it was refused with " + bytes_text(available) + " available"
                                            : of_available(next_bytes)});
    if (batch == 0)
        return detail::message("no sample fits: the fixed part takes {}, and a batch of 1 would take {}",
                               {of_available(bytes), detail::planned_text(next_bytes)});
    std::string const next_text =
        next == 0     ? ""
        : was_refused ? detail::message(", and {} was refused", {detail::as_count(next)})
                      : detail::message(", and {} would take {}",
                                        {detail::as_count(next), detail::planned_text(next_bytes)});
    return detail::message("a batch of {} fits: {}{}",
                           {detail::as_count(batch), of_available(bytes), next_text});
}

}  // namespace cuota::inline v0

#endif
