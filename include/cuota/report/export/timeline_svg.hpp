// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Draws a recording as SVG.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/export/svg_axis.hpp>
#include <cuota/report/detail/export/svg_data.hpp>
#include <cuota/report/detail/export/svg_text.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/export/svg_plot.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/recording/usage_series.hpp>

namespace cuota::inline v0 {

namespace detail {

class timeline_picture : svg_plot {
public:
    timeline_picture(recording const& r, svg_options const& options);

    [[nodiscard]] std::string text();

private:
    // The number is limited by the legend's rows.
    [[nodiscard]] static std::size_t max_areas(svg_options const& options);
    void add_axes();
    void add_steps();
    // Skips a number that would touch the previous one.
    void add_step_number(std::size_t i, double y);
    // Refusals that would touch share a triangle.
    void add_refusals();

    // Names the limits that are not drawn.
    void add_far_limits();
    void add_labels();
    void add_peak();
    // Puts a label above or below `y`: after `first`, before `last`, or centered. Returns false if no position is free.
    bool put_label(std::string const& drawn, double y, double first, double last, char const* kind);

    // ---- legend and caption

    void add_legend();
    void add_entry(double x, double y, std::string_view name, std::string const& figure);
    void add_caption();
    // Joins sentences in a line if they fit; the last line contains the rest.
    [[nodiscard]] std::vector<std::string> caption_lines() const;

    double numbered_until_ = 0;
    std::string unsaid_limits_;
    label_layout board_{{}};
};

}  // namespace detail

/// Draws live bytes as stacked areas, reserved bytes and budget limits as lines, steps, refusals, a legend with peaks, and a caption. The
/// file is self-contained and reproducible, and has at most 200 KiB.
///
/// Throws: usage_error for a size out of range or an unknown source, before any output; data_error if the stream fails; std::bad_alloc.
/// Cost: O(n log n) in the events.
/// Threads: any, one per stream. Example: examples/look.cpp
void write_timeline_svg(std::ostream& to, recording const& r, svg_options const& options = {},
                        source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE timeline_picture::timeline_picture(recording const& r, svg_options const& options)
    : svg_plot{options, svg_data_of(r, {options.by, max_areas(options), options.sources})} {}

CUOTA_INLINE std::string timeline_picture::text() {
    add_axes();
    add_areas();
    add_lines();
    add_steps();
    add_refusals();
    add_far_limits();
    add_labels();
    add_legend();
    add_caption();
    return take();
}

CUOTA_INLINE std::size_t timeline_picture::max_areas(svg_options const& options) {
    auto const rows = static_cast<std::size_t>((options.height - top - 62) / row_height);
    return std::min(options.max_groups, rows - 6);
}

CUOTA_INLINE void timeline_picture::add_axes() {
    axis_ticks const bytes = byte_ticks(highest_, 7);
    for (axis_tick const& t : bytes.ticks) {
        double const y = y_of(t.value);
        add_line(t.value == 0 ? "axis" : "grid", left, y, right_, y);
        add_text(left - 7, y + 4, t.value == 0 ? "0" : t.text + ' ' + bytes.unit, "quiet", "end");
    }
    // Late times count from the picture's beginning.
    auto const from = static_cast<double>(facts_.all.from);
    bool const is_late = from > 20 * span_;
    double const first = is_late ? 0 : from;
    axis_ticks const times = time_ticks(first, first + span_, columns(60));
    for (axis_tick const& t : times.ticks) {
        double const x = x_after(t.value - first);
        add_line("axis", x, bottom_, x, bottom_ + 4);
        add_text(x, bottom_ + under_ + 18, t.text, "quiet", "middle");
    }
    std::string const since =
        is_late ? " from " + time_text(facts_.all.from) + " on" : " since the recording began";
    add_text((left + right_) / 2, bottom_ + under_ + 34, times.unit + since, "quiet", "middle");
}

CUOTA_INLINE void timeline_picture::add_steps() {
    if (facts_.steps.empty()) return;
    double const y = bottom_ + 6;
    add_text(left - 7, y + 12, "steps", "quiet", "end");
    double const each = (right_ - left) / static_cast<double>(facts_.steps.size());
    if (each < 3) {
        double const first = x_of(facts_.steps.front().from);
        add_rect("even", {first, y, x_of(facts_.steps.back().until) - first, 16});
        std::string const count = count_text(facts_.steps.size()) + " steps";
        return add_text((left + right_) / 2, y + 12, count, "small", "middle");
    }
    std::size_t each_with_number = 1;
    while (static_cast<double>(each_with_number) * each < 30)
        each_with_number = each_with_number == 1 ? 5 : each_with_number * 2;
    for (std::size_t i = 0; i != facts_.steps.size(); ++i) {
        double const first = x_of(facts_.steps[i].from);
        double const width = std::max(x_of(facts_.steps[i].until) - first, 0.5);
        add_rect(i % 2 == 0 ? "even" : "odd", {first, y, width, 16});
    }
    for (std::size_t i = each_with_number - 1; i < facts_.steps.size(); i += each_with_number)
        add_step_number(i, y + 12);
}

CUOTA_INLINE void timeline_picture::add_step_number(std::size_t i, double y) {
    std::string const number = std::to_string(i + 1);
    double const middle = (x_of(facts_.steps[i].from) + x_of(facts_.steps[i].until)) / 2;
    double const half = text_width(number, 10) / 2;
    if (middle - half < numbered_until_ + 3 || middle + half > right_) return;
    numbered_until_ = middle + half;
    add_text(middle, y, number, "small", "middle");
}

CUOTA_INLINE void timeline_picture::add_refusals() {
    double last = -100;
    for (memory_event const* e : facts_.refusals) {
        double const x = x_of(e->at);
        if (x < last + 10) continue;
        last = x;
        add_line("line refusal", x, top, x, bottom_);
        add_triangle(x, top);
    }
}

CUOTA_INLINE void timeline_picture::add_far_limits() {
    std::string line;
    for (svg_limit const& l : facts_.limits)
        if (!is_drawn(l))
            line += (line.empty() ? "\xE2\x86\x91 limit of " : ", of ") + fitted(l.name, 200, 11) + ": " +
                    bytes_text(l.bytes);
    if (!line.empty()) add_text(left, 46, fitted_head(line, right_ - left, 11), "warning small");
}

CUOTA_INLINE void timeline_picture::add_labels() {
    board_ = label_layout{{left + 2, top + 1, right_ - left - 4, bottom_ - top - 2}};
    for (svg_limit const& l : facts_.limits)  // a label on another limit's line would be misread
        if (is_drawn(l)) board_.take({left, y_of(l.bytes) - 1, right_ - left, 2});
    add_peak();
    for (svg_limit const& l : facts_.limits) {
        if (!is_drawn(l)) continue;
        std::string const drawn = fitted("limit of " + l.name, 230, 11) + ": " + bytes_text(l.bytes);
        if (!put_label(drawn, y_of(l.bytes), left + 8, right_ - 8, "halo warning"))
            unsaid_limits_ += (unsaid_limits_.empty() ? "Unlabelled lines: " : ", ") + drawn;
    }
}

CUOTA_INLINE void timeline_picture::add_peak() {
    usage_series const& all = facts_.all;
    if (all.total.peak == 0) {
        if (all.reserved.peak == 0)
            add_text((left + right_) / 2, (top + bottom_) / 2, "no memory in this recording", "quiet",
                     "middle");
        return;
    }
    double const x = std::clamp(x_of(all.total.peak_at), left, right_);
    double const y = y_of(all.total.peak);
    add("<circle class=\"peak\" cx=\"" + svg_number(x) + "\" cy=\"" + svg_number(y) + "\" r=\"3\"/>");
    put_label("peak " + bytes_text(all.total.peak), y - 3, x + 5, x - 5, "halo");
}

CUOTA_INLINE bool timeline_picture::put_label(std::string const& drawn, double y, double first, double last,
                                              char const* kind) {
    double const width = text_width(drawn, 11);
    std::vector<svg_box> wishes;
    for (double const x : {first, last - width, (first + last - width) / 2})
        for (double const from : {y - 17, y + 3}) wishes.push_back({x, from, width, 14});
    auto const box = board_.place(wishes);
    if (box) add_text(box->x, box->y + 11, drawn, kind);
    return box.has_value();
}

CUOTA_INLINE void timeline_picture::add_legend() {
    double const x = right_ + 24;
    double y = top + 10;
    add_text(x, y, facts_.by, "quiet");
    add_text(width_ - 16, y, "peak", "quiet", "end");
    for (std::size_t k = layers_.size(); k-- != 0;) {
        y += row_height;
        add_rect(color_of(k), {x, y - 10, 12, 12});
        std::string const name =
            layers_[k]->merged == 0 ? layers_[k]->name : count_text(layers_[k]->merged) + " others";
        add_entry(x, y, name, bytes_text(layers_[k]->peak));
    }
    y += 8;
    for (auto const& [kind, curve] : {std::pair{is_outlined_ ? "line total" : "", &facts_.all.total},
                                      std::pair{"line reserved", &facts_.all.reserved}}) {
        if (curve->peak == 0) continue;
        y += row_height;
        if (*kind != '\0') add_line(kind, x - 3, y - 4, x + 14, y - 4);
        add_entry(x, y, curve == &facts_.all.total ? "live, total" : "reserved", bytes_text(curve->peak));
    }
    if (facts_.refusals.empty()) return;
    y += row_height;
    add_triangle(x + 6, y);
    add_entry(x, y, "refused", count_text(facts_.refusals.size()));
}

CUOTA_INLINE void timeline_picture::add_entry(double x, double y, std::string_view name,
                                              std::string const& figure) {
    double const end = width_ - 16;
    double const room = end - (x + 20) - text_width(figure, 12) - 8;
    add_text(x + 20, y, fitted(name, room, 12));
    add_text(end, y, figure, "", "end");
}

CUOTA_INLINE void timeline_picture::add_caption() {
    if (is_dense_) facts_.caption.emplace_back("Each 2 pixels show the maximum in their time.");
    if (has_lowest_) facts_.caption.emplace_back("Thin line: the minimum.");
    if (!unsaid_limits_.empty()) facts_.caption.push_back(unsaid_limits_ + '.');
    double y = height_ - 38;
    for (std::string const& line : caption_lines()) {
        add_text(16, y, fitted_head(line, width_ - 32, 11), "quiet caption");
        y += 14.5;
    }
}

CUOTA_INLINE std::vector<std::string> timeline_picture::caption_lines() const {
    std::vector<std::string> lines;
    for (std::string const& next : facts_.caption) {
        bool const fits =
            !lines.empty() && text_width(drawable(lines.back() + ' ' + next), 11) <= width_ - 32;
        if (fits || lines.size() == 3) lines.back() += ' ' + next;
        else lines.push_back(next);
    }
    return lines;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_timeline_svg(std::ostream& to, recording const& r, svg_options const& options,
                                     source_location where) {
    detail::check_recording(r, where);
    auto const check = [&](char const* what, unsigned pixels, unsigned least) {
        if (pixels < least || pixels > 4096)
            detail::throw_usage_error(where, "timeline_svg: {} of {} pixels is out of range [{}, 4096]",
                                      {what, pixels, least});
    };
    check("width", options.width, 560);
    check("height", options.height, 280);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            detail::throw_usage_error(where, "source index {} is out of range: the recording has {} sources",
                                      {s, r.sources.size()});
    std::string const svg = detail::timeline_picture{r, options}.text();
    if (!to.write(svg.data(), static_cast<std::streamsize>(svg.size())).flush())
        detail::throw_data_error("timeline SVG", 0, "writing {} bytes failed",
                                 {detail::as_count(svg.size())});
}

}  // namespace cuota::inline v0

#endif
