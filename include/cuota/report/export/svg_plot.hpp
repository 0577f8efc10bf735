// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Plots a recording.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/report/detail/export/svg_data.hpp>
#include <cuota/report/detail/export/svg_text.hpp>
#include <cuota/report/export/svg_canvas.hpp>
#include <cuota/report/recording/usage_series.hpp>

namespace cuota::inline v0 {

/// Contents and size of a picture.
struct svg_options {
    std::string title{};          ///< empty: describes the contents
    group_by by = group_by::tag;  ///< grouping of blocks
    std::size_t max_groups = 12;  ///< areas, if the legend has space
    /// Indices of the sources. Empty: all device memory, or, without any, all memory.
    std::vector<std::uint16_t> sources{};
    svg_theme theme = svg_theme::automatic;  ///< colors
    unsigned width = 960;                    ///< pixels; from 560 to 4096
    unsigned height = 460;                   ///< pixels; from 280 to 4096
};

namespace detail {

class svg_plot : public svg_canvas {
public:
    svg_plot(svg_options const& options, svg_data facts);

    // If changes outnumber the pixels, each column shows the moment with the most bytes.
    void add_areas();
    void add_lines();

protected:
    static constexpr double left = 76;
    static constexpr double top = 60;
    static constexpr double row_height = 19;

    [[nodiscard]] double x_after(double nanoseconds) const noexcept;
    // Subtracts integers: times may exceed the precision of a double.
    [[nodiscard]] double x_of(std::uint64_t at) const noexcept;
    [[nodiscard]] double y_of(double bytes) const noexcept;
    [[nodiscard]] double y_of(std::size_t bytes) const noexcept { return y_of(static_cast<double>(bytes)); }
    [[nodiscard]] std::size_t columns(double width) const;
    [[nodiscard]] bool is_drawn(svg_limit const& l) const noexcept;
    [[nodiscard]] std::string color_of(std::size_t layer) const;

    svg_data facts_;
    double width_;
    double height_;
    double right_;
    double bottom_;
    double under_ = facts_.steps.empty() ? 0 : 20;  // between the plot and its times
    double highest_ = 1;                            // bytes, at `top`
    double span_ = 1;                               // nanoseconds, from `left` to right_
    std::vector<usage_curve const*> layers_;        // from bottom to top
    bool is_outlined_ = false;
    bool is_dense_ = false;
    bool has_lowest_ = false;

private:
    static constexpr double column = 2;          // pixels, with at most four points each
    static constexpr double least_width = 0.45;  // of a change, to be visible
    static constexpr std::size_t most_area_bytes = 150'000;

    void choose_scale();
    // Puts steady layers below varying ones, and "others" on top.
    void order_layers();
    // Returns the mean over time / the peak.
    [[nodiscard]] double mean_of_peak(usage_curve const& curve) const noexcept;
    struct moment {
        double x;
        std::uint64_t at;
    };
    // Returns the times when a part changes, with the total.
    [[nodiscard]] std::vector<usage_point> changes() const;
    // Returns the best moment of each column by `better`, at the column's left side.
    template <class Better>
    [[nodiscard]] std::vector<moment> best_of_columns(std::vector<usage_point> const& points, double width,
                                                      Better better) const {
        std::vector<moment> result;
        std::size_t best = 0;
        for (usage_point const& p : points) {
            double const x = left + std::floor((x_of(p.at) - left) / width) * width;
            if (result.empty() || result.back().x != x) result.push_back({x, p.at});
            else if (better(p.bytes, best)) result.back().at = p.at;
            else continue;
            best = p.bytes;
        }
        if (!result.empty()) result.push_back({std::min(result.back().x + width, right_), facts_.all.until});
        return result;
    }
    [[nodiscard]] std::vector<moment> with_width(std::vector<usage_point> const& points, double width) const;
    // Draws the minimum of each column, if columns contain whole steps.
    void add_lowest(std::vector<usage_point> const& all);
    // Draws the uppermost area first, each down to the bottom: no seams appear.
    [[nodiscard]] std::string areas(std::vector<moment> const& when) const;
    [[nodiscard]] std::string area(std::vector<moment> const& when, std::vector<double> const& below,
                                   std::vector<double> const& above) const;
    void add_run(std::string& path, std::vector<moment> const& when, std::vector<double> const& bytes,
                 std::size_t first, std::size_t end) const;
    [[nodiscard]] std::string steps_of(usage_curve const& curve) const;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE svg_plot::svg_plot(svg_options const& options, svg_data facts)
    : svg_canvas{options.width, options.height, options.theme,
                 options.title.empty() ? facts.title : options.title},
      facts_{std::move(facts)},
      width_{options.width * 1.0},
      height_{options.height * 1.0},
      right_{width_ - std::clamp(width_ / 4, 190.0, 240.0)},  // then the legend
      bottom_{height_ - (facts_.steps.empty() ? 90 : 110)} {
    choose_scale();
}

CUOTA_INLINE void svg_plot::add_areas() {
    order_layers();
    std::vector<usage_point> const all = changes();
    std::vector<usage_point> const few = thinned(all, columns(column));
    is_outlined_ = few.size() < columns(column);
    is_dense_ = few.size() > 5 * columns(column) / 2;
    std::string result;
    for (double width = column; width < 100; width *= 1.5) {
        result = areas(is_dense_ ? best_of_columns(all, width, std::greater{})
                                 : with_width(thinned(all, columns(width)), width));
        if (result.size() <= most_area_bytes) break;
    }
    add(result);
    if (is_dense_) add_lowest(all);
}

CUOTA_INLINE void svg_plot::add_lines() {
    for (svg_limit const& l : facts_.limits)
        if (is_drawn(l)) add_line("line limit", left, y_of(l.bytes), right_, y_of(l.bytes));
    if (is_outlined_ && facts_.all.total.peak != 0)
        add("<path class=\"line total\" d=\"" + steps_of(facts_.all.total) + "\"/>");
    if (facts_.all.reserved.peak != 0)
        add("<path class=\"line reserved\" d=\"" + steps_of(facts_.all.reserved) + "\"/>");
}

CUOTA_INLINE double svg_plot::x_after(double nanoseconds) const noexcept {
    return left + nanoseconds / span_ * (right_ - left);
}

CUOTA_INLINE double svg_plot::x_of(std::uint64_t at) const noexcept {
    return x_after(static_cast<double>(at - facts_.all.from));
}

CUOTA_INLINE double svg_plot::y_of(double bytes) const noexcept {
    return bottom_ - bytes / highest_ * (bottom_ - top);
}

CUOTA_INLINE std::size_t svg_plot::columns(double width) const {
    return static_cast<std::size_t>((right_ - left) / width);
}

CUOTA_INLINE bool svg_plot::is_drawn(svg_limit const& l) const noexcept {
    return static_cast<double>(l.bytes) <= highest_;
}

CUOTA_INLINE std::string svg_plot::color_of(std::size_t layer) const {
    return layers_[layer]->merged != 0 ? "others" : color(layer);
}

CUOTA_INLINE void svg_plot::choose_scale() {
    usage_series const& all = facts_.all;
    highest_ = static_cast<double>(std::max({all.total.peak, all.reserved.peak, std::size_t{1}}));
    double const room = 1.6 * highest_;  // higher limits are named, not drawn
    for (svg_limit const& l : facts_.limits)
        if (static_cast<double>(l.bytes) <= room) highest_ = std::max(highest_, static_cast<double>(l.bytes));
    highest_ *= 1.08;
    // So that the last level is visible.
    span_ = std::max(static_cast<double>(all.until - all.from), 1.0) * 1.01;
}

CUOTA_INLINE void svg_plot::order_layers() {
    std::vector<std::pair<double, usage_curve const*>> order;
    for (usage_curve const& part : facts_.all.parts)
        if (part.peak != 0) order.emplace_back(part.merged != 0 ? 2.0 : 1.0 - mean_of_peak(part), &part);
    sort_stably(order, {}, &std::pair<double, usage_curve const*>::first);
    for (auto const& [swing, part] : order) layers_.push_back(part);
}

CUOTA_INLINE double svg_plot::mean_of_peak(usage_curve const& curve) const noexcept {
    double area = 0;
    for (std::size_t i = 0; i != curve.points.size(); ++i) {
        bool const is_last = i + 1 == curve.points.size();
        std::uint64_t const until = is_last ? facts_.all.until : curve.points[i + 1].at;
        double const time = static_cast<double>(until - curve.points[i].at) + (is_last ? 1.0 : 0.0);
        area += time * static_cast<double>(curve.points[i].bytes);
    }
    double const whole = static_cast<double>(facts_.all.until - facts_.all.from) + 1.0;
    return area / whole / static_cast<double>(curve.peak);
}

CUOTA_INLINE std::vector<usage_point> svg_plot::changes() const {
    std::vector<usage_point> all;
    for (usage_curve const& part : facts_.all.parts)
        all.insert(all.end(), part.points.begin(), part.points.end());
    if (all.empty()) return all;
    all.push_back({facts_.all.until, 0});
    std::ranges::sort(all, {}, &usage_point::at);
    auto const is_same = [](usage_point a, usage_point b) { return a.at == b.at; };
    all.erase(std::unique(all.begin(), all.end(), is_same), all.end());
    for (usage_point& p : all) p.bytes = usage_at(facts_.all.total, p.at);
    return all;
}

CUOTA_INLINE auto svg_plot::with_width(std::vector<usage_point> const& points, double width) const
    -> std::vector<moment> {
    std::vector<moment> result;
    for (usage_point const& p : points) {
        double const least = result.empty() ? left : result.back().x + width / column * least_width;
        result.push_back({std::min(std::max(x_of(p.at), least), right_), p.at});
    }
    return result;
}

CUOTA_INLINE void svg_plot::add_lowest(std::vector<usage_point> const& all) {
    std::vector<moment> const high = best_of_columns(all, column, std::greater{});
    std::vector<moment> const low = best_of_columns(all, column, std::less{});
    double between = 0;
    std::string path;
    for (std::size_t i = 0; i != low.size(); ++i) {
        std::size_t const least = usage_at(facts_.all.total, low[i].at);
        between += static_cast<double>(usage_at(facts_.all.total, high[i].at) - least);
        std::string const y = svg_number(y_of(least));
        path += i == 0 ? 'M' + svg_number(left) + ' ' + y : 'H' + svg_number(low[i].x) + 'V' + y;
    }
    auto const [least, most] = std::ranges::minmax(all, {}, &usage_point::bytes);
    double const swing = static_cast<double>(most.bytes - least.bytes);
    has_lowest_ = between > swing / 2 * static_cast<double>(low.size());
    if (has_lowest_) add("<path class=\"line total\" d=\"" + path + 'H' + svg_number(right_) + "\"/>");
}

CUOTA_INLINE std::string svg_plot::areas(std::vector<moment> const& when) const {
    std::vector<std::vector<double>> tops(layers_.size() + 1, std::vector<double>(when.size()));
    for (std::size_t k = 0; k != layers_.size(); ++k)
        for (std::size_t i = 0; i != when.size(); ++i)
            tops[k + 1][i] = tops[k][i] + static_cast<double>(usage_at(*layers_[k], when[i].at));
    std::string result;
    for (std::size_t k = layers_.size(); k-- != 0;)
        result += "<path class=\"area " + color_of(k) + "\" d=\"" + area(when, tops[k], tops[k + 1]) +
                  "\"><title>" + xml_text(layers_[k]->name) + "</title></path>\n";
    return result;
}

CUOTA_INLINE std::string svg_plot::area(std::vector<moment> const& when, std::vector<double> const& below,
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

CUOTA_INLINE void svg_plot::add_run(std::string& path, std::vector<moment> const& when,
                                    std::vector<double> const& bytes, std::size_t first,
                                    std::size_t end) const {
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

CUOTA_INLINE std::string svg_plot::steps_of(usage_curve const& curve) const {
    std::vector<usage_point> all = curve.points;
    all.push_back({facts_.all.until, all.back().bytes});
    auto const points = thinned(all, columns(column));
    auto const when = with_width(points, column);
    std::string path = 'M' + svg_number(left) + ' ' + svg_number(y_of(points.front().bytes));
    for (std::size_t i = 1; i != points.size(); ++i)
        if (points[i].bytes != points[i - 1].bytes)
            path += 'H' + svg_number(when[i].x) + 'V' + svg_number(y_of(points[i].bytes));
    return path + 'H' + svg_number(right_);
}

}  // namespace cuota::inline v0::detail

#endif
