// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a finding of a diagnosis: a problem, or a fact worth knowing, in a sentence and in numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/sort_stably.hpp>

namespace cuota::inline v0 {

/// Kinds of findings. In parentheses: the meaning of `bytes`, `of` and `count`.
enum class finding_kind {
    /// Requests were refused (largest shortfall, or largest request if none fell short; largest request; refusals).
    refusals,
    /// Memory grows in every step (growth over `steps`; growth in the last step; blocks that stayed live).
    leak,
    /// Free memory is in pieces (free bytes; largest piece; live blocks that separate `in_one_piece` bytes, or lie in the segment with most
    /// free bytes).
    fragmentation,
    /// A limit is nearly reached (bytes in use; limit; 0).
    budget_full,
    /// Device memory is used outside cuota (its growth, or all of it; bytes held by cuota; 0).
    elsewhere,
    /// Pinned memory is larger than requested (difference; requested; 0).
    pinned,
    /// Blocks are rounded up by much (difference; requested; blocks).
    rounding,
    /// Memory is reserved and was not used for `steps` (idle; reserved; 0).
    idle,
    /// Memory is freed and perhaps still in use (pending; active; blocks).
    pending,
    /// Blocks are allocated and freed repeatedly in each of `steps` (most live at once; most bytes, and fewest blocks, allocated in a
    /// step).
    churn,
    /// Most live bytes have no tag (untagged; live; blocks).
    untagged,
    /// One tag has most of a peak (its bytes; bytes of all tags at the peak; its blocks).
    peak
};

/// Returns the name of the kind: "leak".
[[nodiscard]] constexpr char const* name_of(finding_kind kind) noexcept {
    constexpr char const* names[] = {"refusals",  "leak",   "fragmentation", "budget_full",
                                     "elsewhere", "pinned", "rounding",      "idle",
                                     "pending",   "churn",  "untagged",      "peak"};
    return names[static_cast<std::size_t>(kind)];
}

/// Importance of a finding.
enum class severity {
    note,     ///< worth knowing
    warning,  ///< memory is wasted, or will be soon
    problem   ///< requests fail, or will fail
};

/// Returns the name of the severity: "warning".
[[nodiscard]] constexpr char const* name_of(severity level) noexcept {
    constexpr char const* names[] = {"note", "warning", "problem"};
    return names[static_cast<std::size_t>(level)];
}

/// One finding. Sizes are bytes; their meaning depends on the kind, see finding_kind.
struct finding {
    finding_kind kind{};              ///< rule that made the finding
    severity level = severity::note;  ///< importance
    std::string text{};               ///< one line for people, with the numbers behind the finding
    std::size_t bytes = 0;            ///< bytes at stake
    std::string whose{};              ///< name of the pool, resource, budget or device
    tag name{};                       ///< tag of the bytes, or of most of them, if known
    place where{};                    ///< call site of the allocations, if known
    std::size_t of = 0;               ///< reference for `bytes`
    std::size_t count = 0;            ///< see finding_kind
    std::size_t steps = 0;            ///< number of steps observed; 0: the finding is about one moment
    /// Fragmentation: size of the contiguous free piece that would exist without `count` blocks; 0 if these are too large to name.
    std::size_t in_one_piece = 0;
};

/// Sorts findings by descending severity, then by descending bytes; stable. Throws: std::bad_alloc; on failure, nothing has changed.
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
