// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Diagnoses snapshots and recordings.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/detail/diagnosis/fragmentation.hpp>
#include <cuota/report/detail/diagnosis/peak_rules.hpp>
#include <cuota/report/detail/diagnosis/snapshot_rules.hpp>
#include <cuota/report/detail/diagnosis/step_account.hpp>
#include <cuota/report/detail/diagnosis/step_rules.hpp>
#include <cuota/report/detail/diagnosis/usage_rules.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

namespace detail::diagnosis {

// `before` ends with the snapshot, or is null.
void find_in(memory_snapshot const& s, recording const* before, diagnosis_options const& o,
             std::vector<finding>& to);

}  // namespace detail::diagnosis

/// Diagnoses one moment. Sorted by severity, then by bytes. Fragmentation requires the blocks of pools.
/// Throws: usage_error for invalid options; std::bad_alloc. Cost: O(n log n) in blocks, tags and budgets. Threads: any.
/// Example: std::puts(cuota::diagnosis_text(cuota::diagnose(cuota::snapshot_of(budget))).c_str());
[[nodiscard]] std::vector<finding> diagnose(memory_snapshot const& s, diagnosis_options const& options = {},
                                            source_location where = source_location::current());

/// Diagnoses a recording. Leaks, churn and idle memory require steps (`scoped_pool::begin_step`). Dropped events do not cause findings.
/// Throws, threads: as above. Cost: O(n log n) in events and blocks, about 0.1 s for 100'000 events.
/// Example: examples/look.cpp
[[nodiscard]] std::vector<finding> diagnose(recording const& r, diagnosis_options const& options = {},
                                            source_location where = source_location::current());

/// Formats findings; "no findings" for an empty list.
///
///     1 problem, 2 notes
///       problem  leak in pool work: log (train.cpp:17) grew by 12.0 MiB in each of the last 10 steps, ...
///
/// Throws: std::bad_alloc. Threads: any.
[[nodiscard]] std::string diagnosis_text(std::vector<finding> const& findings);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE void find_in(memory_snapshot const& s, recording const* before, diagnosis_options const& o,
                          std::vector<finding>& to) {
    find_full_budgets(s, o, to);
    for (device_info const& d : s.devices) find_elsewhere(d, o, to);
    for (std::size_t i = 0; i != s.pools.size(); ++i) {
        pool_info const& p = s.pools[i];
        find_fragmentation(p, o, to);
        find_pinned(p, o, to);
        find_rounding(p, o, to);
        find_pending(p, before, i, o, to);
        find_untagged(p, o, to);
    }
}

}  // namespace cuota::inline v0::detail::diagnosis

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<finding> diagnose(memory_snapshot const& s, diagnosis_options const& options,
                                           source_location where) {
    detail::diagnosis::check(options, where);
    std::vector<finding> found;
    detail::diagnosis::find_in(s, nullptr, options, found);
    sort_findings(found);
    return found;
}

CUOTA_INLINE std::vector<finding> diagnose(recording const& r, diagnosis_options const& options,
                                           source_location where) {
    detail::check_recording(r, where);
    detail::diagnosis::check(options, where);
    std::vector<finding> found;
    detail::diagnosis::find_in(r.final_snapshot, &r, options, found);
    detail::diagnosis::find_refusals(r, found);
    detail::diagnosis::find_in_peaks(r, options, found);
    detail::diagnosis::step_account const steps{r};
    if (steps.has_steps()) {
        detail::diagnosis::find_leaks(r, steps, options, found);
        detail::diagnosis::find_churn(r, steps, options, found);
        detail::diagnosis::find_idle(r, steps, options, found);
    }
    sort_findings(found);
    return found;
}

CUOTA_INLINE std::string diagnosis_text(std::vector<finding> const& findings) {
    std::size_t by_level[3] = {};
    for (finding const& f : findings) ++by_level[static_cast<std::size_t>(f.level)];
    std::string text;
    for (severity const level : {severity::problem, severity::warning, severity::note})
        if (std::size_t const count = by_level[static_cast<std::size_t>(level)]; count != 0)
            text += (text.empty() ? "" : ", ") + detail::diagnosis::counted(count, name_of(level));
    if (text.empty()) return "no findings";
    for (finding const& f : findings) text += "\n  " + detail::padded(name_of(f.level), 9) + f.text;
    return text;
}

}  // namespace cuota::inline v0

#endif
