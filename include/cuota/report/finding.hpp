// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a diagnosis says: one thing that is wrong or worth knowing, in a sentence and in figures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/sort_stably.hpp>

namespace cuota::inline v0 {

/// What was found. In brackets what `bytes`, `of` and `count` of such a finding are.
enum class finding_kind {
    refusals,       ///< requests were refused (most missing at once; most asked at once; refusals)
    leak,           ///< grows in every step (growth over `steps`; in the last of them; blocks that stayed)
    fragmentation,  ///< free in pieces (free; the largest piece; blocks that hold `in_one_piece` apart)
    budget_full,    ///< nearly all of a limit is in use (what is in use; the limit; 0)
    elsewhere,      ///< device memory outside cuota (what grew, or all of it; what cuota holds; 0)
    pinned,         ///< pinned memory takes more than was asked (what it takes more; what was asked; 0)
    rounding,       ///< blocks are rounded up by much (what is lost; what was asked; blocks)
    idle,           ///< reserved, and not used for `steps` (idle; reserved; 0)
    pending,        ///< given back, and perhaps in use (pending; active; blocks)
    churn,          ///< taken and given back over and over in each of `steps` (at once; in a step; in a step)
    untagged,       ///< most bytes have no tag (untagged; live; blocks)
    peak            ///< most of a peak is one tag's (its; all at the peak; blocks)
};

/// "leak": the name of the kind.
[[nodiscard]] constexpr char const* name_of(finding_kind kind) noexcept {
    constexpr char const* names[] = {"refusals",  "leak",   "fragmentation", "budget_full",
                                     "elsewhere", "pinned", "rounding",      "idle",
                                     "pending",   "churn",  "untagged",      "peak"};
    return names[static_cast<std::size_t>(kind)];
}

/// How much it matters.
enum class severity {
    note,     ///< worth knowing
    warning,  ///< memory is lost, or soon will be
    problem   ///< requests fail, or will
};

/// "warning": the name of the severity.
[[nodiscard]] constexpr char const* name_of(severity level) noexcept {
    constexpr char const* names[] = {"note", "warning", "problem"};
    return names[static_cast<std::size_t>(level)];
}

/// One finding. Sizes are bytes; what they are of each kind stands at finding_kind.
struct finding {
    finding_kind kind{};              ///< which rule found it
    severity level = severity::note;  ///< how much it matters
    std::string text{};               ///< one line for people, with the figures that it rests on
    std::size_t bytes = 0;            ///< what is at stake
    std::string whose{};              ///< the pool, resource, budget or device, by name
    tag name{};                       ///< whose bytes, or most of them, where that is known
    place where{};                    ///< from where in the program
    std::size_t of = 0;               ///< what `bytes` is to be compared with
    std::size_t count = 0;            ///< see finding_kind
    std::size_t steps = 0;            ///< over how many steps it was seen; 0: it is of one moment
    std::size_t in_one_piece =
        0;  ///< of fragmentation: what would be free side by side without `count` blocks
};

/// Puts findings in the order to read them: most severe first, and then those with most bytes at stake. What is equal stays
/// in its order. Throws: std::bad_alloc, when nothing has changed.
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
