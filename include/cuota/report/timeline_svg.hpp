// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A recording as a picture for papers, READMEs and slides: what was live when, for whom, and under which limits.
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
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/levels.hpp>
#include <cuota/report/recording.hpp>
#include <cuota/report/svg_axis.hpp>
#include <cuota/report/svg_facts.hpp>
#include <cuota/report/svg_text.hpp>

namespace cuota::inline v0 {

/// Whom the picture is for.
enum class svg_theme {
    automatic,  ///< light or dark, as the reader's browser is; light where it does not say, and in print
    light,
    dark,
};

/// What to draw, and how large.
struct svg_options {
    std::string title{};  ///< empty: what the picture shows
    levels_by by = levels_by::tag;
    std::size_t most = 12;  ///< areas of their own, and fewer where the legend has no room for them
    std::vector<std::uint16_t>
        sources{};  ///< as in levels_options; empty: all device memory, or all where none is
    svg_theme theme = svg_theme::automatic;
    unsigned width = 960;   ///< pixels; from 480 to 4096
    unsigned height = 460;  ///< pixels; from 280 to 4096
};

namespace detail {

class timeline_picture {
public:
    timeline_picture(recording const& r, svg_options const& options)
        : options_{options}, right_{options.width - legend_width - 14.0}, bottom_{options.height - 108.0} {
        std::size_t const rows = static_cast<std::size_t>((options.height - 108.0) / row_height);
        std::size_t const most = std::min(options.most, rows > 8 ? rows - 6 : 2);
        facts_ = svg_facts_of(r, {options.by, most, options.sources});
        choose_scale();
    }

    [[nodiscard]] std::string text() {
        std::string const areas = all_areas();
        add_head();
        add_axes();
        text_ += areas;
        add_lines();
        add_steps();
        add_refusals();
        add_labels();
        add_legend();
        add_caption();
        return std::move(text_) + "</svg>\n";
    }

private:
    static constexpr double left = 76;
    static constexpr double top = 60;
    static constexpr double legend_width = 226;
    static constexpr double row_height = 19;
    static constexpr double column = 2;          // of pixels, with at most four points each
    static constexpr double least_width = 0.45;  // what lasts no time is seen nevertheless
    static constexpr std::size_t most_area_bytes = 150'000;
    // Okabe and Ito's, and some between: neighbours differ in lightness, and in hue for all kinds of eyes.
    static constexpr char const* colours[] = {"0072b2", "e69f00", "6a5acd", "cc79a7", "ddcc77", "d55e00",
                                              "ffb8a8", "1e6e78", "999933", "88ccee", "aa4499", "56b4e9"};

    // ---- scale

    void choose_scale() {
        levels const& all = facts_.all;
        highest_ = static_cast<double>(std::max({all.total.peak, all.reserved.peak, std::size_t{1}}));
        double const room = 1.6 * highest_;  // a limit above that is said, not drawn
        for (svg_limit const& l : facts_.limits)
            if (static_cast<double>(l.bytes) <= room)
                highest_ = std::max(highest_, static_cast<double>(l.bytes));
        highest_ *= 1.08;
        from_ = static_cast<double>(all.from);
        span_ = std::max(static_cast<double>(all.until - all.from), 1.0) * 1.01;  // the last level is seen
    }
    [[nodiscard]] double x_of(double at) const noexcept {
        return left + (at - from_) / span_ * (right_ - left);
    }
    [[nodiscard]] double x_of(std::uint64_t at) const noexcept { return x_of(static_cast<double>(at)); }
    [[nodiscard]] double y_of(double bytes) const noexcept {
        return bottom_ - bytes / highest_ * (bottom_ - top);
    }
    [[nodiscard]] double y_of(std::size_t bytes) const noexcept { return y_of(static_cast<double>(bytes)); }

    // ---- areas

    struct moment {
        double x;
        std::uint64_t at;
    };
    // When a part changes, with the total then; of each column of pixels the extremes.
    [[nodiscard]] std::vector<moment> moments(double width) const {
        std::vector<level_point> all;
        for (level_curve const& part : facts_.all.parts)
            all.insert(all.end(), part.points.begin(), part.points.end());
        if (all.empty()) return {};
        all.push_back({facts_.all.until, 0});
        std::ranges::sort(all, {}, &level_point::at);
        all.erase(std::ranges::unique(all, {}, &level_point::at).begin(), all.end());
        for (level_point& p : all) p.bytes = level_at(facts_.all.total, p.at);
        return with_width(thinned(all, static_cast<std::size_t>((right_ - left) / width)), width);
    }
    [[nodiscard]] std::vector<moment> with_width(std::vector<level_point> const& points, double width) const {
        std::vector<moment> result;
        for (level_point const& p : points) {
            double const least = result.empty() ? left : result.back().x + width / column * least_width;
            result.push_back({std::min(std::max(x_of(p.at), least), right_), p.at});
        }
        return result;
    }
    // As fine as the size of the picture allows.
    [[nodiscard]] std::string all_areas() {
        order_layers();
        for (double width = column;; width *= 1.5) {
            std::string result = areas(moments(width));
            if (result.size() <= most_area_bytes || width > 100) return result;
        }
    }
    // What hardly changes lies below what comes and goes, so that its edges are straight; "others" on top.
    void order_layers() {
        std::vector<std::pair<double, std::size_t>> order;
        for (std::size_t i = 0; i != facts_.all.parts.size(); ++i) {
            level_curve const& part = facts_.all.parts[i];
            if (part.peak == 0) continue;
            std::size_t const least = std::ranges::min(part.points, {}, &level_point::bytes).bytes;
            double const swing = 1.0 - static_cast<double>(least) / static_cast<double>(part.peak);
            order.emplace_back(part.merged != 0 ? 2.0 : swing, i);
        }
        std::ranges::stable_sort(order, {}, &std::pair<double, std::size_t>::first);
        for (auto const& [swing, i] : order) layers_.push_back(&facts_.all.parts[i]);
    }
    // The uppermost first, each down to the bottom: those below are drawn over it, and no seam shows.
    [[nodiscard]] std::string areas(std::vector<moment> const& when) const {
        std::vector<std::vector<double>> tops(layers_.size() + 1, std::vector<double>(when.size()));
        for (std::size_t k = 0; k != layers_.size(); ++k)
            for (std::size_t i = 0; i != when.size(); ++i)
                tops[k + 1][i] = tops[k][i] + static_cast<double>(level_at(*layers_[k], when[i].at));
        std::string result;
        for (std::size_t k = layers_.size(); k-- != 0;)
            result += "<path class=\"area " + colour_of(k) + "\" d=\"" + area(when, tops[k], tops[k + 1]) +
                      "\"><title>" + xml_text(layers_[k]->name) + "</title></path>\n";
        return result;
    }
    [[nodiscard]] std::string area(std::vector<moment> const& when, std::vector<double> const& below,
                                   std::vector<double> const& above) const {
        std::string path;
        for (std::size_t i = 0; i != when.size();) {
            std::size_t end = i;
            while (end != when.size() && above[end] > below[end]) ++end;
            if (end != i) add_run(path, when, above, i, end);
            i = end == i ? i + 1 : end;
        }
        return path;
    }
    void add_run(std::string& path, std::vector<moment> const& when, std::vector<double> const& bytes,
                 std::size_t first, std::size_t end) const {
        path += 'M' + svg_number(when[first].x) + ' ' + svg_number(bottom_);
        std::string last;
        for (std::size_t i = first; i != end; ++i) {
            std::string const y = svg_number(y_of(bytes[i]));
            if (y == last) continue;
            if (i != first) path += 'H' + svg_number(when[i].x);
            path += 'V' + y;
            last = y;
        }
        path += 'H' + svg_number(end == when.size() ? right_ : when[end].x) + 'V' + svg_number(bottom_) + 'Z';
    }
    [[nodiscard]] std::string colour_of(std::size_t layer) const {
        if (layers_[layer]->merged != 0) return "others";
        return 'c' + std::to_string(layer % std::size(colours));
    }

    // ---- elements

    void add(std::string_view xml) { (text_ += xml) += '\n'; }
    void add_line(char const* kind, double x1, double y1, double x2, double y2) {
        add("<path class=\"" + std::string{kind} + "\" d=\"M" + svg_number(x1) + ' ' + svg_number(y1) + 'L' +
            svg_number(x2) + ' ' + svg_number(y2) + "\"/>");
    }
    void add_rect(std::string const& kind, svg_box b) {
        add("<rect class=\"" + kind + "\" x=\"" + svg_number(b.x) + "\" y=\"" + svg_number(b.y) +
            "\" width=\"" + svg_number(b.width) + "\" height=\"" + svg_number(b.height) + "\"/>");
    }
    // `drawn` is drawable, and fits where it is put.
    void add_text(double x, double y, std::string_view drawn, char const* kind = "",
                  char const* anchor = "") {
        std::string element = "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + '"';
        if (*kind != '\0') element += std::string{" class=\""} + kind + '"';
        if (*anchor != '\0') element += std::string{" text-anchor=\""} + anchor + '"';
        add(element + '>' + xml_text(drawn) + "</text>");
    }

    void add_head() {
        std::string const width = std::to_string(options_.width);
        std::string const height = std::to_string(options_.height);
        std::string const title = options_.title.empty() ? facts_.title : options_.title;
        add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
            "\" viewBox=\"0 0 " + width + ' ' + height +
            "\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">");
        add("<title>" + xml_text(title) + "</title>");
        add("<style>" + style() + "</style>");
        add_rect("paper", {0, 0, options_.width * 1.0, options_.height * 1.0});
        add_text(16, 26, fitted(title, options_.width - 32.0, 17), "title");
    }
    [[nodiscard]] std::string style() const {
        std::string result = "text{font-variant-numeric:tabular-nums}.title{font-size:16px;font-weight:600}"
                             ".small{font-size:10px}.halo{stroke-width:3px;stroke-linejoin:round;"
                             "paint-order:stroke;font-size:11px}.line{fill:none}.total{stroke-width:.8}"
                             ".reserved{stroke-width:1.6;stroke-dasharray:5 3}"
                             ".limit{stroke-width:1.4;stroke-dasharray:9 3 2 3}.refusal{stroke-width:1}";
        for (std::size_t i = 0; i != std::size(colours); ++i)
            result += ".c" + std::to_string(i) + "{fill:#" + colours[i] + '}';
        if (options_.theme != svg_theme::dark) result += light();
        if (options_.theme == svg_theme::dark) result += dark();
        if (options_.theme == svg_theme::automatic)
            result += ":root{color-scheme:light dark}@media(prefers-color-scheme:dark){" + dark() + '}';
        return result;
    }
    [[nodiscard]] static std::string light() {
        return ".paper{fill:#fff}text{fill:#1b1b1b}.quiet{fill:#5a5a5a}.grid{stroke:#e2e2e2}.axis{stroke:#"
               "5a5a5a}"
               ".total,.reserved{stroke:#1b1b1b}.limit,.refusal{stroke:#b3001b}.mark,.warning{fill:#b3001b}"
               ".halo{stroke:#fff}.others{fill:#b5b5b5}.even{fill:#dcdfe4}.odd{fill:#c3c8d0}.peak{fill:#fff;"
               "stroke:#1b1b1b}";
    }
    [[nodiscard]] static std::string dark() {
        return ".paper{fill:#16181c}text{fill:#ececec}.quiet{fill:#a8a8a8}.grid{stroke:#2b2f36}"
               ".axis{stroke:#a8a8a8}.total,.reserved{stroke:#ececec}.limit,.refusal{stroke:#ff7b72}"
               ".mark,.warning{fill:#ff7b72}.halo{stroke:#16181c}.others{fill:#6f747c}.even{fill:#2f343c}"
               ".odd{fill:#434a55}.peak{fill:#16181c;stroke:#ececec}";
    }

    // ---- what stands around the areas

    void add_axes() {
        axis_ticks const bytes = byte_ticks(highest_, 7);
        for (axis_tick const& t : bytes.ticks) {
            double const y = y_of(t.value);
            add_line(t.value == 0 ? "axis" : "grid", left, y, right_, y);
            add_text(left - 7, y + 4, t.value == 0 ? "0" : t.text + ' ' + bytes.unit, "quiet", "end");
        }
        // Where times would be long numbers, they begin at 0 with the picture.
        bool const is_late = from_ > 20 * span_;
        double const zero = is_late ? from_ : 0;
        auto const most = static_cast<std::size_t>((right_ - left) / 76);
        axis_ticks const times = time_ticks(from_ - zero, from_ - zero + span_, most);
        for (axis_tick const& t : times.ticks) {
            double const x = x_of(t.value + zero);
            add_line("axis", x, bottom_, x, bottom_ + 4);
            add_text(x, bottom_ + 38, t.text, "quiet", "middle");
        }
        std::string const unit = std::string{times.unit};
        add_text((left + right_) / 2, bottom_ + 54,
                 is_late ? unit + ", from " + time_text(facts_.all.from) + " on" : unit, "quiet", "middle");
    }
    void add_lines() {
        for (svg_limit const& l : facts_.limits)
            if (is_drawn(l)) add_line("line limit", left, y_of(l.bytes), right_, y_of(l.bytes));
        if (facts_.all.total.peak != 0)
            add("<path class=\"line total\" d=\"" + steps_of(facts_.all.total) + "\"/>");
        if (facts_.all.reserved.peak != 0)
            add("<path class=\"line reserved\" d=\"" + steps_of(facts_.all.reserved) + "\"/>");
    }
    [[nodiscard]] bool is_drawn(svg_limit const& l) const noexcept {
        return static_cast<double>(l.bytes) <= highest_;
    }
    [[nodiscard]] std::string steps_of(level_curve const& curve) const {
        std::vector<level_point> all = curve.points;
        all.push_back({facts_.all.until, all.back().bytes});
        auto const points = thinned(all, static_cast<std::size_t>((right_ - left) / column));
        auto const when = with_width(points, column);
        std::string path = 'M' + svg_number(left) + ' ' + svg_number(y_of(points.front().bytes));
        for (std::size_t i = 1; i != points.size(); ++i)
            if (points[i].bytes != points[i - 1].bytes)
                path += 'H' + svg_number(when[i].x) + 'V' + svg_number(y_of(points[i].bytes));
        return path + 'H' + svg_number(right_);
    }

    void add_steps() {
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
        for (std::size_t i = 0; i != facts_.steps.size(); ++i) {
            double const first = x_of(facts_.steps[i].from);
            double const width = std::max(x_of(facts_.steps[i].until) - first, 0.5);
            add_rect(i % 2 == 0 ? "even" : "odd", {first, y, width, 16});
            std::string const number = std::to_string(i + 1);
            if (text_width(number, 10) + 2 <= width)
                add_text(first + width / 2, y + 12, number, "small", "middle");
        }
    }
    // A triangle above the plot and a line down; those that would touch have one.
    void add_refusals() {
        double last = -100;
        for (memory_event const* e : facts_.refusals) {
            double const x = x_of(e->at);
            if (x < last + 10) continue;
            last = x;
            add_line("line refusal", x, top, x, bottom_);
            add("<path class=\"mark\" d=\"M" + svg_number(x) + ' ' + svg_number(top) + "l-5-9h10z\"/>");
        }
    }

    void add_labels() {
        board_ = label_board{{left + 2, top + 1, right_ - left - 4, bottom_ - top - 2}};
        add_peak();
        double above = top + 2;
        for (svg_limit const& l : facts_.limits) {
            std::string const bytes = ": " + bytes_text(l.bytes);
            std::string const name = fitted("limit of " + l.name, 230, 11) + bytes;
            std::string const drawn = is_drawn(l) ? name : "\xE2\x86\x91 " + name;
            double const y = is_drawn(l) ? y_of(l.bytes) : above + 15;
            if (!put_label(drawn, y, left + 8, right_ - 8, "halo warning")) unsaid_limits_.push_back(name);
        }
    }
    void add_peak() {
        levels const& all = facts_.all;
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
    // Above a height or below it, from `first` to the right or up to `last`, or between.
    bool put_label(std::string const& drawn, double y, double first, double last, char const* kind) {
        double const width = text_width(drawn, 11);
        std::vector<svg_box> wishes;
        for (double const x : {first, last - width, (first + last - width) / 2})
            for (double const from : {y - 17, y + 3}) wishes.push_back({x, from, width, 14});
        for (double const down : {16, 32, 48}) wishes.push_back({first, y + 3 + down, width, 14});
        auto const box = board_.place(wishes);
        if (box) add_text(box->x, box->y + 11, drawn, kind);
        return box.has_value();
    }

    // ---- legend and caption

    void add_legend() {
        double const x = right_ + 24;
        double y = top + 10;
        add_text(x, y, facts_.by, "quiet");
        add_text(options_.width - 16.0, y, "peak", "quiet", "end");
        for (std::size_t k = layers_.size(); k-- != 0;) {
            y += row_height;
            add_rect(colour_of(k), {x, y - 10, 12, 12});
            std::string const name =
                layers_[k]->merged == 0 ? layers_[k]->name : count_text(layers_[k]->merged) + " others";
            add_entry(x, y, name, bytes_text(layers_[k]->peak));
        }
        y += 8;
        for (auto const& [kind, curve] :
             {std::pair{"line total", &facts_.all.total}, std::pair{"line reserved", &facts_.all.reserved}}) {
            if (curve->peak == 0) continue;
            y += row_height;
            add_line(kind, x - 3, y - 4, x + 14, y - 4);
            add_entry(x, y, curve == &facts_.all.total ? "live, in total" : "reserved",
                      bytes_text(curve->peak));
        }
        if (facts_.refusals.empty()) return;
        y += row_height;
        add("<path class=\"mark\" d=\"M" + svg_number(x + 6) + ' ' + svg_number(y) + "l-5-9h10z\"/>");
        add_entry(x, y, "refused", count_text(facts_.refusals.size()));
    }
    void add_entry(double x, double y, std::string_view name, std::string const& figure) {
        double const end = options_.width - 16.0;
        double const room = end - (x + 20) - text_width(figure, 12) - 8;
        add_text(x + 20, y, fitted(name, room, 12));
        add_text(end, y, figure, "", "end");
    }
    void add_caption() {
        std::vector<std::string> lines = facts_.caption;
        if (!unsaid_limits_.empty()) {
            std::string more = "Not drawn:";
            for (std::string const& l : unsaid_limits_) more += (more.back() == ':' ? " " : ", ") + l;
            lines.push_back(more);
        }
        double y = options_.height - 36.0;
        for (std::size_t i = 0; i != std::min<std::size_t>(lines.size(), 3); ++i, y += 15)
            add_text(16, y, fitted(lines[i], options_.width - 32.0, 11), "quiet caption");
    }

    svg_options const& options_;
    double right_;
    double bottom_;
    svg_facts facts_;
    double highest_ = 1;  // bytes, at `top`
    double from_ = 0;     // nanoseconds, at `left`
    double span_ = 1;
    std::vector<level_curve const*> layers_;  // from below
    std::vector<std::string> unsaid_limits_;
    label_board board_{{}};
    std::string text_;
};

}  // namespace detail

/// Writes the picture: live bytes as stacked areas, what pools reserved as a line above, the limits of budgets that
/// they are charged to (one far above all use is only told), steps, refusals, a legend with peaks, and a caption with
/// what was live at the peak and what the recording lacks. It needs nothing but itself, has at most 200 KiB however
/// many events there are, and is the same for the same recording, byte for byte.
///
/// Throws: misuse for a size out of range or a source that the recording does not have, before anything is written;
/// data_error when the stream takes no more; std::bad_alloc. Cost: O(n log n) in the events.
inline void write_timeline_svg(std::ostream& to, recording const& r, svg_options const& options = {},
                               place where = place::here()) {
    auto const check = [&](char const* what, unsigned pixels, unsigned least) {
        if (pixels < least || pixels > 4096)
            throw misuse{"a timeline " + std::to_string(pixels) + " pixels " + what + ": from " +
                             std::to_string(least) + " to 4096",
                         where};
    };
    check("wide", options.width, 480);
    check("high", options.height, 280);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            throw misuse{"a timeline of source " + std::to_string(s) + ": the recording has " +
                             std::to_string(r.sources.size()),
                         where};
    std::string const svg = detail::timeline_picture{r, options}.text();
    if (!to.write(svg.data(), static_cast<std::streamsize>(svg.size())).flush())
        throw data_error{"timeline SVG", 0,
                         "the stream took not all of its " + count_text(svg.size()) + " bytes"};
}

}  // namespace cuota::inline v0
