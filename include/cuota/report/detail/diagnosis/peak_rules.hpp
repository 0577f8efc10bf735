// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Applies the rules on peaks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/detail/diagnosis/snapshot_rules.hpp>
#include <cuota/report/detail/diagnosis/step_rules.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail::diagnosis {

struct recorded_peak {
    std::size_t size = 0;             ///< rounded up
    std::size_t bytes = 0;            ///< as requested
    std::vector<std::size_t> blocks;  ///< indices in memory_lifetimes::blocks
};

struct block_change {
    std::uint64_t at = 0;  ///< nanoseconds + 1; 0: before the recording
    bool is_taken = false;
    std::size_t block = 0;  ///< index in memory_lifetimes::blocks
};

/// Sorts by time; at equal times, frees precede allocations.
[[nodiscard]] std::vector<block_change> changes_of(recording const& r, memory_lifetimes const& all);

[[nodiscard]] std::vector<recorded_peak> peaks_of(recording const& r, memory_lifetimes const& all);

struct peak_share_of_tag {
    event_site first{};
    std::size_t size = 0;
    std::size_t blocks = 0;
    bool is_one_place = true;

    void add(block_lifetime const& b, source_location where);
};

/// Reports the largest tag of a source's peak, if another tag has a part.
void find_peak(recording const& r, memory_lifetimes const& all, std::uint16_t source,
               recorded_peak const& peak, diagnosis_options const& o, std::vector<finding>& to);

/// Pinned pools are checked in the snapshot.
void find_in_peaks(recording const& r, diagnosis_options const& o, std::vector<finding>& to);

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE std::vector<block_change> changes_of(recording const& r, memory_lifetimes const& all) {
    std::vector<block_change> changes;
    for (std::size_t i = 0; i != all.blocks.size(); ++i) {
        block_lifetime const& b = all.blocks[i];
        if (b.source >= r.sources.size()) continue;
        if (b.from && b.until && *b.until <= *b.from) continue;  // freed within the same clock tick
        changes.push_back({b.from ? *b.from + 1 : 0, true, i});
        if (b.until) changes.push_back({*b.until + 1, false, i});
    }
    sort_stably(changes, [](block_change const& a, block_change const& b) {
        return a.at != b.at ? a.at < b.at : a.is_taken < b.is_taken;
    });
    return changes;
}

CUOTA_INLINE std::vector<recorded_peak> peaks_of(recording const& r, memory_lifetimes const& all) {
    std::vector<block_change> const changes = changes_of(r, all);
    std::vector<std::size_t> now(r.sources.size());
    std::vector<std::size_t> peak_after(r.sources.size());  // in number of changes
    std::vector<recorded_peak> peaks(r.sources.size());
    std::vector<std::size_t> ends(all.blocks.size(), changes.size());
    for (std::size_t i = 0; i != changes.size(); ++i) {
        block_lifetime const& b = all.blocks[changes[i].block];
        std::size_t& level = now[b.source];
        level = changes[i].is_taken ? saturating_add(level, b.size) : beyond(level, b.size);
        if (!changes[i].is_taken) ends[changes[i].block] = i;
        if (level <= peaks[b.source].size) continue;
        peaks[b.source].size = level;
        peak_after[b.source] = i + 1;
    }
    for (std::size_t i = 0; i != changes.size(); ++i) {
        block_lifetime const& b = all.blocks[changes[i].block];
        std::size_t const after = peak_after[b.source];
        if (!changes[i].is_taken || i >= after || ends[changes[i].block] < after) continue;
        peaks[b.source].bytes = saturating_add(peaks[b.source].bytes, b.bytes);
        peaks[b.source].blocks.push_back(changes[i].block);
    }
    return peaks;
}

CUOTA_INLINE void peak_share_of_tag::add(block_lifetime const& b, source_location where) {
    size = saturating_add(size, b.size);
    ++blocks;
    is_one_place &= std::string_view{first.where.file} == where.file && first.where.line == where.line;
}

CUOTA_INLINE void find_peak(recording const& r, memory_lifetimes const& all, std::uint16_t source,
                            recorded_peak const& peak, diagnosis_options const& o, std::vector<finding>& to) {
    std::map<std::string_view, peak_share_of_tag> by_tag;
    for (std::size_t const i : peak.blocks) {
        block_lifetime const& b = all.blocks[i];
        event_site const site = site_in(r, b.site);
        by_tag.try_emplace(site.name.text(), peak_share_of_tag{site}).first->second.add(b, site.where);
    }
    if (by_tag.size() < 2) return;
    auto const most = std::ranges::max_element(
        by_tag, [](auto const& a, auto const& b) { return a.second.size < b.second.size; });
    peak_share_of_tag const& s = most->second;
    if (s.first.name.is_empty() || s.size < o.peak_bytes || !is_share(s.size, o.peak_share, peak.size))
        return;
    source_location const where = s.is_one_place ? s.first.where : source_location{};
    finding f{finding_kind::peak, severity::note};
    f.text = words_for(r.sources[source]) + ": at its peak of " + bytes_text(peak.size) + ", " +
             percent_text(s.size, peak.size) + " was " + words_for(s.first.name, where) + ": " +
             bytes_text(s.size) + " in " + counted(s.blocks, "block");
    f.bytes = s.size;
    f.subject = r.sources[source].name;
    f.name = s.first.name;
    f.where = where;
    f.reference_bytes = peak.size;
    f.count = s.blocks;
    to.push_back(std::move(f));
}

CUOTA_INLINE void find_in_peaks(recording const& r, diagnosis_options const& o, std::vector<finding>& to) {
    memory_lifetimes const all = lifetime_builder{r}.run();
    std::vector<recorded_peak> const peaks = peaks_of(r, all);
    for (std::size_t i = 0; i != peaks.size(); ++i) {
        event_source const& source = r.sources[i];
        find_peak(r, all, static_cast<std::uint16_t>(i), peaks[i], o, to);
        if (source.kind == source_kind::resource && source.memory == memory_kind::pinned)
            add_pinned(words_for(source), source.name, peaks[i].bytes, peaks[i].size, o, to);
    }
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
