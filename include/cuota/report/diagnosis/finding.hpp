// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a finding of a diagnosis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Kinds of findings, with the meaning of (`bytes`; `reference_bytes`; `count`).
enum class finding_kind {
    /// Requests were refused (largest shortfall, or request if unknown; largest request; refusals).
    refusals,
    /// Memory grows in each of `steps` (growth; in the last step; blocks that stayed).
    leak,
    /// Free memory is in pieces (free; largest piece; live blocks between pieces).
    fragmentation,
    /// A limit is nearly reached (in use; limit; 0).
    budget_full,
    /// Device memory is used outside cuota (growth, or all of it; cuota's bytes; 0).
    external,
    /// Pinned memory exceeds the request (excess; requested; 0).
    pinned,
    /// Blocks are rounded up by much (excess; requested; blocks).
    rounding,
    /// Reserved memory was unused for `steps` (idle; reserved; 0).
    idle,
    /// Freed memory is perhaps in use (pending; active; blocks).
    pending,
    /// Blocks are allocated and freed in each of `steps` (most at once; most in a step; fewest blocks in a step).
    churn,
    /// Most bytes have no tag (untagged; live; blocks).
    untagged,
    /// One tag has most of a peak (its bytes; all bytes; its blocks).
    peak
};

/// Returns the name: "leak".
[[nodiscard]] constexpr char const* name_of(finding_kind kind) noexcept {
    constexpr char const* names[] = {"refusals", "leak", "fragmentation", "budget_full", "external", "pinned",
                                     "rounding", "idle", "pending",       "churn",       "untagged", "peak"};
    return names[static_cast<std::size_t>(kind)];
}

/// Importance of a finding.
enum class severity {
    note,     ///< worth knowing
    warning,  ///< memory is wasted, or will be soon
    problem   ///< requests fail, or will fail
};

/// Returns the name: "warning".
[[nodiscard]] constexpr char const* name_of(severity level) noexcept {
    constexpr char const* names[] = {"note", "warning", "problem"};
    return names[static_cast<std::size_t>(level)];
}

/// A finding; see finding_kind. Units: bytes.
struct finding {
    finding_kind kind{};              ///< kind
    severity level = severity::note;  ///< importance
    std::string text{};               ///< one line for people
    std::size_t bytes = 0;            ///< see finding_kind
    std::string subject{};            ///< name of the pool, resource, budget or device
    tag name{};                       ///< tag of most of the bytes, if known
    source_location where{};          ///< call site, if known
    std::size_t reference_bytes = 0;  ///< see finding_kind
    std::size_t count = 0;            ///< see finding_kind
    std::size_t steps = 0;            ///< steps observed; 0 for one moment
    /// Fragmentation: the piece that would exist without `count` blocks, if they are small beside it; else 0.
    std::size_t coalesced_bytes = 0;
};

/// Sorts by descending severity, then by bytes; stable. Throws: std::bad_alloc; on failure, nothing has changed.
/// Cost: O(n log n).
void sort_findings(std::vector<finding>& findings);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0 {

CUOTA_INLINE void sort_findings(std::vector<finding>& findings) {
    detail::sort_stably(findings, [](finding const& a, finding const& b) {
        return a.level != b.level ? a.level > b.level : a.bytes > b.bytes;
    });
}

}  // namespace cuota::inline v0

#endif
