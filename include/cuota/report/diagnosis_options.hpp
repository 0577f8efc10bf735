// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// From where on something is worth a line in a diagnosis.
#pragma once

#include <cstddef>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Thresholds, all inclusive: of a rule that has several, each has to be reached. Bytes, counts, and shares from 0 to 1;
/// a ratio may be more. A rule is switched off by a threshold that nothing reaches: `unlimited` bytes.
struct diagnosis_options {
    // fragmentation: what is free between live blocks of segments that can only be given back as a whole
    std::size_t fragmentation_bytes = 64_MiB;  ///< so much is free there
    double fragmentation_largest = 0.25;       ///< and the largest free piece is at most this share of it
    double fragmentation_price =
        0.25;  ///< blocks that are named are at most this share of what they hold apart

    // leak: of one tag and place, in one pool
    std::size_t leak_steps =
        3;  ///< it grew in each of so many steps, up to the last; from twice that on a problem
    std::size_t leak_bytes = 1_MiB;  ///< and by so much in all

    // churn: of one tag and place, in one pool
    std::size_t churn_steps = 3;    ///< in each of so many steps, up to the last,
    std::size_t churn_count = 100;  ///< so many blocks were taken, and all given back
    double churn_reuse = 4;         ///< of so many times the bytes that there ever were at once

    // what was asked, and what it takes
    std::size_t pinned_bytes = 16_MiB;    ///< pinned memory takes so much more
    double pinned_ratio = 1.25;           ///< and so many times what was asked
    std::size_t rounding_bytes = 16_MiB;  ///< as these, of the live blocks of a tag in a pool
    double rounding_ratio = 1.25;         ///< see pinned_ratio

    // idle: what a pool has reserved and not used
    std::size_t idle_steps = 10;      ///< in so many steps, up to the last
    std::size_t idle_bytes = 64_MiB;  ///< it is so much
    double idle_share = 0.25;         ///< and this share of what is reserved

    // pending: given back, and perhaps still in use by work that was enqueued before
    std::size_t pending_bytes = 64_MiB;  ///< it is so much
    double pending_share = 0.25;         ///< of what is live or pending

    double budget_share = 0.95;  ///< of a limit that is in use, without what pools and caches hold free

    std::size_t elsewhere_growth = 256_MiB;  ///< outside cuota there is so much more than at the start
    std::size_t elsewhere_bytes = 1_GiB;     ///< or so much
    double elsewhere_ratio = 1;              ///< and so many times what cuota holds there

    std::size_t untagged_bytes = 16_MiB;  ///< live without a tag
    double untagged_share = 0.5;          ///< of all that is live in the pool
    std::size_t peak_bytes = 16_MiB;      ///< of one tag at a peak
    double peak_share = 0.5;              ///< of all at that peak, of which another tag has a part
};

namespace detail::diagnosis {

/// Throws: misuse for a count of steps that is 0, a share or ratio below 0, or none.
void check(diagnosis_options const& o, place where);

}  // namespace detail::diagnosis

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE void check(diagnosis_options const& o, place where) {
    auto const is_some = [&](std::size_t count, char const* name) {
        if (count == 0) detail::throw_misuse(where, "diagnosis_options::{} is 0", {name});
    };
    auto const is_positive = [&](double share, char const* name) {
        if (!(share >= 0)) detail::throw_misuse(where, "diagnosis_options::{} is {}", {name, share});
    };
    is_some(o.leak_steps, "leak_steps");
    is_some(o.churn_steps, "churn_steps");
    is_some(o.idle_steps, "idle_steps");
    is_positive(o.fragmentation_largest, "fragmentation_largest");
    is_positive(o.fragmentation_price, "fragmentation_price");
    is_positive(o.churn_reuse, "churn_reuse");
    is_positive(o.pinned_ratio, "pinned_ratio");
    is_positive(o.rounding_ratio, "rounding_ratio");
    is_positive(o.idle_share, "idle_share");
    is_positive(o.pending_share, "pending_share");
    is_positive(o.budget_share, "budget_share");
    is_positive(o.elsewhere_ratio, "elsewhere_ratio");
    is_positive(o.untagged_share, "untagged_share");
    is_positive(o.peak_share, "peak_share");
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
