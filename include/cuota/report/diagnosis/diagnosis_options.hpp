// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines the thresholds of a diagnosis.
#pragma once

#include <cstddef>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Inclusive thresholds; a rule requires all of its own. Shares are from 0 to 1; ratios may be larger. `unlimited` bytes disable a rule.
struct diagnosis_options {
    // fragmentation, in segments that are only released as a whole
    std::size_t fragmentation_bytes = 64_MiB;  ///< free bytes beside live blocks
    double fragmentation_largest = 0.25;       ///< largest free piece / these bytes, at most
    /// Bytes of the named blocks / free bytes between them, at most.
    double fragmentation_max_cost = 0.25;

    // leak and churn: of one tag and call site in one pool
    /// Last steps in a row with growth; from twice that on, a problem.
    std::size_t leak_steps = 3;
    std::size_t leak_bytes = 1_MiB;  ///< growth in these steps

    std::size_t churn_steps = 3;    ///< last steps in a row
    std::size_t churn_count = 100;  ///< blocks per step, all freed in it
    double churn_reuse = 4;         ///< allocated bytes per step / most live bytes

    // pinned memory and rounding
    std::size_t pinned_bytes = 16_MiB;    ///< used - requested bytes
    double pinned_ratio = 1.25;           ///< used / requested
    std::size_t rounding_bytes = 16_MiB;  ///< used - requested bytes of a tag in a pool
    double rounding_ratio = 1.25;         ///< used / requested

    std::size_t idle_steps = 10;      ///< last steps examined
    std::size_t idle_bytes = 64_MiB;  ///< least reserved - most live bytes
    double idle_share = 0.25;         ///< idle bytes / reserved bytes

    std::size_t pending_bytes = 64_MiB;  ///< pending bytes
    double pending_share = 0.25;         ///< pending bytes / live and pending bytes

    double budget_share = 0.95;  ///< bytes in use / limit, without idle bytes

    std::size_t external_growth = 256_MiB;  ///< growth of memory outside cuota since the baseline
    std::size_t external_bytes = 1_GiB;     ///< memory outside cuota, without such growth
    double external_ratio = 1;              ///< these bytes / cuota's bytes there

    std::size_t untagged_bytes = 16_MiB;  ///< live bytes without a tag
    double untagged_share = 0.5;          ///< these bytes / live bytes of the pool
    std::size_t peak_bytes = 16_MiB;      ///< one tag's bytes at a peak
    double peak_share = 0.5;              ///< these bytes / all bytes at the peak
};

namespace detail::diagnosis {

/// Throws: usage_error for 0 steps, or a negative or NaN share or ratio.
void check(diagnosis_options const& o, source_location where);

}  // namespace detail::diagnosis

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE void check(diagnosis_options const& o, source_location where) {
    auto const is_some = [&](std::size_t count, char const* name) {
        if (count == 0) detail::throw_usage_error(where, "diagnosis_options::{} must be at least 1", {name});
    };
    auto const is_positive = [&](double share, char const* name) {
        if (!(share >= 0))
            detail::throw_usage_error(where, "diagnosis_options::{} must not be negative, got {}",
                                      {name, share});
    };
    is_some(o.leak_steps, "leak_steps");
    is_some(o.churn_steps, "churn_steps");
    is_some(o.idle_steps, "idle_steps");
    is_positive(o.fragmentation_largest, "fragmentation_largest");
    is_positive(o.fragmentation_max_cost, "fragmentation_max_cost");
    is_positive(o.churn_reuse, "churn_reuse");
    is_positive(o.pinned_ratio, "pinned_ratio");
    is_positive(o.rounding_ratio, "rounding_ratio");
    is_positive(o.idle_share, "idle_share");
    is_positive(o.pending_share, "pending_share");
    is_positive(o.budget_share, "budget_share");
    is_positive(o.external_ratio, "external_ratio");
    is_positive(o.untagged_share, "untagged_share");
    is_positive(o.peak_share, "peak_share");
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
