// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Extracts a picture's data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/export/svg_axis.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/recording/usage_series.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

struct svg_limit {
    std::string name{};
    std::size_t bytes = 0;
};

struct svg_step {
    std::uint64_t from = 0;
    std::uint64_t until = 0;
};

struct svg_data {
    usage_series all{};
    std::string title{};
    char const* by = "";
    std::vector<svg_limit> limits{};  ///< in ascending order
    std::vector<svg_step> steps{};    ///< of the pool with the most steps
    std::vector<memory_event const*> refusals{};
    std::vector<std::string> caption{};
};

class svg_data_builder {
public:
    svg_data_builder(recording const& r, usage_options options) : all_{r}, options_{std::move(options)} {}

    [[nodiscard]] svg_data run();

private:
    [[nodiscard]] static bool has_blocks(event_source const& s);
    void choose_sources();
    // Finds the budgets charged by the shown sources, and their ancestors; if none is known, all.
    void find_budgets();
    void find_steps();

    void write_words();
    [[nodiscard]] std::string refusal_words() const;
    [[nodiscard]] static std::string list_of(std::vector<std::string> const& names);

    recording const& all_;
    usage_options options_;
    std::vector<bool> shown_;  // by source
    std::vector<std::string> left_out_;
    svg_data found_;
};

[[nodiscard]] svg_data svg_data_of(recording const& r, usage_options options);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE svg_data svg_data_builder::run() {
    choose_sources();
    shown_.assign(all_.sources.size(), false);
    for (std::uint16_t const s : options_.sources) shown_[s] = true;
    found_.all = usage_over_time(all_, options_);
    find_budgets();
    find_steps();
    for (memory_event const& e : all_.events)
        if (e.kind == event_kind::refused && (e.source == 0 || shown_[e.source]))
            found_.refusals.push_back(&e);
    write_words();
    return std::move(found_);
}

CUOTA_INLINE bool svg_data_builder::has_blocks(event_source const& s) {
    return s.kind == source_kind::pool || s.kind == source_kind::resource;
}

CUOTA_INLINE void svg_data_builder::choose_sources() {
    if (!options_.sources.empty()) return;
    auto const is_device = [](event_source const& s) {
        return has_blocks(s) && s.memory == memory_kind::device;
    };
    bool const any = std::ranges::any_of(all_.sources, is_device);
    for (std::size_t i = 0; i != all_.sources.size(); ++i) {
        event_source const& s = all_.sources[i];
        if (!any || is_device(s)) options_.sources.push_back(static_cast<std::uint16_t>(i));
        else if (has_blocks(s)) left_out_.push_back(s.name);
    }
}

CUOTA_INLINE void svg_data_builder::find_budgets() {
    std::vector<bool> is_charged(all_.sources.size());
    bool any = false;
    for (std::uint16_t const s : options_.sources)
        for (auto b = all_.sources[s].budget; b && !is_charged[*b]; b = all_.sources[*b].parent)
            is_charged[*b] = any = true;
    for (std::size_t i = 0; i != all_.sources.size(); ++i) {
        event_source const& s = all_.sources[i];
        if (s.kind != source_kind::budget || (any && !is_charged[i])) continue;
        shown_[i] = true;
        if (s.limit != unlimited) found_.limits.push_back({s.name, s.limit});
    }
    sort_stably(found_.limits, {}, &svg_limit::bytes);
}

CUOTA_INLINE void svg_data_builder::find_steps() {
    std::vector<std::vector<svg_step>> of(all_.sources.size());
    std::vector<bool> is_open(all_.sources.size());
    for (memory_event const& e : all_.events) {
        bool const begins = e.kind == event_kind::step_begun;
        if (!shown_[e.source] || (!begins && e.kind != event_kind::step_ended)) continue;
        auto& steps = of[e.source];
        if (is_open[e.source]) steps.back().until = e.at;
        else if (!begins && steps.empty())
            steps.push_back({found_.all.from, e.at});  // begun before the first event
        if (begins) steps.push_back({e.at, found_.all.until});
        is_open[e.source] = begins;
    }
    auto const most = std::ranges::max_element(of, {}, &std::vector<svg_step>::size);
    if (most != of.end()) found_.steps = std::move(*most);
}

CUOTA_INLINE void svg_data_builder::write_words() {
    static constexpr char const* words[] = {"tag", "site", "source"};
    found_.by = words[static_cast<std::size_t>(options_.by)];
    found_.title = std::string{"Live memory by "} + found_.by;
    usage_series const& all = found_.all;
    if (all.total.peak != 0) {
        std::string line =
            "At the peak, " + bytes_text(all.total.peak) + " at " + time_text(all.total.peak_at);
        for (std::size_t i = 0; i != all.at_peak.size(); ++i)
            line += (i == 0 ? ": " : ", ") + all.at_peak[i].name + ' ' + bytes_text(all.at_peak[i].bytes);
        found_.caption.push_back(line + '.');
    }
    if (!found_.refusals.empty()) found_.caption.push_back(refusal_words());
    if (all_.dropped != 0)
        found_.caption.push_back(count_text(all_.dropped) + " earlier " +
                                 (all_.dropped == 1 ? "event was" : "events were") + " dropped.");
    if (!left_out_.empty())
        found_.caption.push_back("Not shown: host or managed memory (" + list_of(left_out_) + ").");
}

CUOTA_INLINE std::string svg_data_builder::refusal_words() const {
    memory_event const& first = *found_.refusals.front();
    tag const name = site_in(all_, first.site).name;
    return count_text(found_.refusals.size()) +
           (found_.refusals.size() == 1 ? " refusal: " : " refusals, the first: ") + bytes_text(first.bytes) +
           " for " + (name.is_empty() ? "untagged" : name.text()) + " by " + all_.sources[first.source].name +
           " at " + time_text(first.at) + '.';
}

CUOTA_INLINE std::string svg_data_builder::list_of(std::vector<std::string> const& names) {
    std::string result;
    for (std::string const& n : names) result += (result.empty() ? "" : ", ") + n;
    return result;
}

CUOTA_INLINE svg_data svg_data_of(recording const& r, usage_options options) {
    return svg_data_builder{r, std::move(options)}.run();
}

}  // namespace cuota::inline v0::detail

#endif
