// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Applies the rules on steps: leaks and churn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/detail/diagnosis/step_account.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// Returns how many last steps in a row satisfy `is_so`, without step 0: see step_account.
template <class IsSo>
[[nodiscard]] std::size_t last_steps_that(site_account const& a, std::size_t steps, IsSo is_so) {
    std::size_t run = 0;
    for (auto s = a.steps.rbegin(); s != a.steps.rend() && s->step != 0; ++s) {
        if (s->step + run + 1 != steps || !is_so(*s)) break;
        ++run;
    }
    return run;
}

/// Formats "in each of the last 10 steps".
[[nodiscard]] std::string last_steps_text(std::size_t steps);

/// Formats "pool work".
[[nodiscard]] std::string words_for(event_source const& s);

/// Reports tags and call sites that leak: in each of the last steps, more bytes were allocated than freed, and a block of the step is still
/// live. This excludes growth that stops, replaced blocks, a full cache, and a block reallocated slightly larger in each step. A cache that
/// is still filling looks like a leak.
void find_leaks(recording const& r, step_account const& steps, diagnosis_options const& o,
                std::vector<finding>& to);

void find_churn(recording const& r, step_account const& steps, diagnosis_options const& o,
                std::vector<finding>& to);

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE std::string last_steps_text(std::size_t steps) {
    return steps == 1 ? "in the last step" : "in each of the last " + count_text(steps) + " steps";
}

CUOTA_INLINE std::string words_for(event_source const& s) {
    return words_for(s.kind == source_kind::pool     ? "pool"
                     : s.kind == source_kind::budget ? "budget"
                                                     : "resource",
                     s.name);
}

CUOTA_INLINE void find_leaks(recording const& r, step_account const& steps, diagnosis_options const& o,
                             std::vector<finding>& to) {
    for (site_account const& a : steps.sites()) {
        std::size_t const run = last_steps_that(
            a, steps.steps_of(a.source), [](site_step const& s) { return s.growth > 0 && s.stayed != 0; });
        if (run < o.leak_steps) continue;
        std::size_t grown = 0, stayed = 0, least = unlimited, most = 0;
        for (auto s = a.steps.end() - static_cast<std::ptrdiff_t>(run); s != a.steps.end(); ++s) {
            auto const growth = static_cast<std::size_t>(s->growth);
            grown = saturating_add(grown, growth);
            least = std::min(least, growth);
            most = std::max(most, growth);
            stayed += s->stayed;
        }
        if (grown < o.leak_bytes) continue;
        event_source const& source = r.sources[a.source];
        event_site const site = site_in(r, a.site);
        std::string const low = bytes_text(least), high = bytes_text(most);
        finding f{finding_kind::leak, run / 2 >= o.leak_steps ? severity::problem : severity::warning};
        f.text = "leak in " + words_for(source) + ": " + words_for(site.name, site.where) + " grew by " +
                 (low == high ? low : low + " to " + high) + ' ' + last_steps_text(run) + ", " +
                 bytes_text(grown) + " in total; " + counted(stayed, "block") + " still live";
        f.bytes = grown;
        f.subject = source.name;
        f.name = site.name;
        f.where = site.where;
        f.reference_bytes = static_cast<std::size_t>(a.steps.back().growth);
        f.count = stayed;
        f.steps = run;
        to.push_back(std::move(f));
    }
}

CUOTA_INLINE void find_churn(recording const& r, step_account const& steps, diagnosis_options const& o,
                             std::vector<finding>& to) {
    for (site_account const& a : steps.sites()) {
        std::size_t const run = last_steps_that(a, steps.steps_of(a.source), [&](site_step const& s) {
            return s.taken >= o.churn_count && s.given == s.taken &&
                   is_share(s.taken_bytes, o.churn_reuse, s.at_once);
        });
        if (run < o.churn_steps) continue;
        std::size_t least = unlimited, at_once = 0, bytes = 0;
        for (auto s = a.steps.end() - static_cast<std::ptrdiff_t>(run); s != a.steps.end(); ++s) {
            least = std::min(least, s->taken);
            at_once = std::max(at_once, s->at_once);
            bytes = std::max(bytes, s->taken_bytes);
        }
        event_source const& source = r.sources[a.source];
        event_site const site = site_in(r, a.site);
        finding f{finding_kind::churn, severity::note};
        f.text = "churn in " + words_for(source) + ": " + words_for(site.name, site.where) +
                 " was allocated and freed at least " + counted(least, "time") + ' ' + last_steps_text(run) +
                 ", at most " + bytes_text(at_once) + " at once: allocate it once and reuse it";
        f.bytes = at_once;
        f.subject = source.name;
        f.name = site.name;
        f.where = site.where;
        f.reference_bytes = bytes;
        f.count = least;
        f.steps = run;
        to.push_back(std::move(f));
    }
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
