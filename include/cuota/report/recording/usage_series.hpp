// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Computes live bytes over time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// A step of a curve.
struct usage_point {
    std::uint64_t at = 0;   ///< nanoseconds since recording::start_time
    std::size_t bytes = 0;  ///< until the next point

    friend bool operator==(usage_point, usage_point) noexcept = default;  ///< compares both members
};

/// Groupings of blocks.
enum class group_by {
    tag,     ///< text of the tag
    site,    ///< tag, file and line
    source,  ///< pool or resource
};

/// Options of usage_over_time.
struct usage_options {
    group_by by = group_by::tag;  ///< grouping of blocks
    std::size_t max_groups = 12;  ///< curves, by highest peak; the others are summed
    /// Indices of the counted sources. Empty: all.
    std::vector<std::uint16_t> sources{};
};

/// A step function. The first point is at usage_series::from; the others are changes. If several points have one time, the last one counts.
/// An event earlier than its predecessor gets the predecessor's time.
struct usage_curve {
    std::string name{};                 ///< group, or "others"
    std::vector<usage_point> points{};  ///< by time
    std::size_t peak = 0;               ///< bytes
    std::uint64_t peak_at = 0;          ///< when it was first reached
    std::size_t merged = 0;             ///< number of curves in "others"
};

/// Bytes of one curve at one time.
struct usage_share {
    std::string name{};     ///< name of the curve
    std::size_t bytes = 0;  ///< live bytes
};

/// Live bytes over time, as rounded up. The parts add up to `total`.
struct usage_series {
    std::uint64_t from = 0;   ///< time of the first event
    std::uint64_t until = 0;  ///< time of the last event
    /// Sorted by descending peak, then by name; "others" is last.
    std::vector<usage_curve> parts{};
    usage_curve total{};                 ///< live bytes
    usage_curve reserved{};              ///< segments and pages of pools
    std::vector<usage_share> at_peak{};  ///< parts of `total` at its peak, by descending bytes
};

/// Returns the value at time `at`; 0 before the first point. Cost: O(log n). Threads: any.
[[nodiscard]] std::size_t usage_at(usage_curve const& curve, std::uint64_t at) noexcept;

namespace detail {

class usage_series_builder {
public:
    usage_series_builder(recording const& r, usage_options const& options) : all_{r}, options_{options} {}

    [[nodiscard]] usage_series run();

private:
    struct change {
        std::uint64_t at;
        std::size_t group;
        std::size_t bytes;
        bool is_more;

        [[nodiscard]] std::size_t after(std::size_t before) const noexcept;
    };
    struct group {
        std::string name;
        std::size_t older = 0;  // bytes live before the first event
        std::size_t now = 0;
        std::size_t peak = 0;
        std::size_t part = 0;  // index in usage_series::parts
    };
    struct open_block {
        std::size_t of;
        std::size_t bytes;
    };
    using key = std::tuple<std::string_view, std::string_view, std::size_t>;

    void collect_older();
    void collect(memory_event const& e, std::uint64_t at);
    // A block may have only a free event, as in lifetimes_of.
    [[nodiscard]] open_block close(memory_event const& e);

    [[nodiscard]] std::size_t group_of(std::uint16_t source, std::uint32_t site);
    [[nodiscard]] key key_of(std::uint16_t source, std::uint32_t site) const;
    [[nodiscard]] std::string name_of(std::uint16_t source, std::uint32_t site) const;

    void find_peaks();
    // Groups from `max_groups` on share a part.
    void choose_parts();

    void draw();
    void start(usage_curve& curve, std::size_t bytes) const;
    // Returns whether the point is a new maximum.
    static bool add(usage_curve& curve, std::uint64_t at, std::size_t bytes);
    void tell_peak(std::vector<std::size_t> const& bytes);

    recording const& all_;
    usage_options const& options_;
    std::vector<bool> chosen_;  // by source
    std::vector<change> blocks_;
    std::vector<change> segments_;
    std::size_t older_segments_ = 0;
    std::vector<group> groups_;
    std::map<key, std::size_t> found_;  // indices in groups_
    std::map<std::pair<std::uint16_t, std::uint64_t>, open_block> open_;
    usage_series made_;
};

}  // namespace detail

/// Returns the usage over time of a recording. Blocks live before the first event are found as by `lifetimes_of`.
///
/// Throws: usage_error for an unknown source; std::bad_alloc. Cost: O(n log n) in the events, plus O(p) per new maximum of the total, for p
/// parts. Threads: any.
/// Example: std::size_t const peak = cuota::usage_over_time(recorder.read()).total.peak;
[[nodiscard]] usage_series usage_over_time(recording const& r, usage_options const& options = {},
                                           source_location where = source_location::current());

namespace detail {

// Appends the first, lowest, highest and last point, each once.
void add_extremes(std::vector<usage_point>& to, std::span<usage_point const> run);

// Returns at most four points for each of `stretches` equal intervals.
[[nodiscard]] std::vector<usage_point> thinned(std::span<usage_point const> points, std::size_t stretches);

}  // namespace detail

/// Returns at most n points: the first, last, lowest and highest of each of n/4 equal intervals, so that a chart n/4 pixels wide looks the
/// same (Jugel et al., "M4", VLDB 2014). n or fewer points are returned unchanged.
///
/// Throws: usage_error for n below 4; std::bad_alloc. Cost: O(points). Threads: any.
/// Example: auto const few = cuota::downsample(cuota::usage_over_time(recording).total.points, 4 * pixels);
[[nodiscard]] std::vector<usage_point> downsample(std::span<usage_point const> points, std::size_t n,
                                                  source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t usage_at(usage_curve const& curve, std::uint64_t at) noexcept {
    auto const after = std::ranges::upper_bound(curve.points, at, {}, &usage_point::at);
    return after == curve.points.begin() ? 0 : (after - 1)->bytes;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE usage_series usage_series_builder::run() {
    chosen_.assign(all_.sources.size(), options_.sources.empty());
    for (std::uint16_t const s : options_.sources) chosen_[s] = true;
    collect_older();
    if (!all_.events.empty()) made_.from = made_.until = all_.events.front().at;
    for (memory_event const& e : all_.events) {
        made_.until = std::max(made_.until, e.at);
        if (chosen_[e.source]) collect(e, made_.until);
    }
    find_peaks();
    choose_parts();
    draw();
    return std::move(made_);
}

CUOTA_INLINE std::size_t usage_series_builder::change::after(std::size_t before) const noexcept {
    return is_more ? before + bytes : before - bytes;
}

CUOTA_INLINE void usage_series_builder::collect_older() {
    memory_lifetimes const all = lifetime_builder{all_}.run();
    for (block_lifetime const& b : all.blocks) {
        if (b.from) break;
        if (chosen_[b.source]) groups_[group_of(b.source, b.site)].older += b.size;
    }
    for (segment_lifetime const& s : all.segments) {
        if (s.from) break;
        if (chosen_[s.source]) older_segments_ += s.bytes;
    }
}

CUOTA_INLINE void usage_series_builder::collect(memory_event const& e, std::uint64_t at) {
    switch (e.kind) {
        case event_kind::allocated: {
            open_block const b{group_of(e.source, e.site), e.size};
            open_[{e.source, e.address}] = b;
            blocks_.push_back({at, b.of, b.bytes, true});
            return;
        }
        case event_kind::free_requested: {
            open_block const b = close(e);
            blocks_.push_back({at, b.of, b.bytes, false});
            return;
        }
        case event_kind::segment_allocated: segments_.push_back({at, 0, e.bytes, true}); return;
        case event_kind::segment_freed: segments_.push_back({at, 0, e.bytes, false}); return;
        default: return;
    }
}

CUOTA_INLINE auto usage_series_builder::close(memory_event const& e) -> open_block {
    auto const found = open_.find({e.source, e.address});
    if (found == open_.end()) return {group_of(e.source, e.site), e.size};
    open_block const b = found->second;
    open_.erase(found);
    return b;
}

CUOTA_INLINE std::size_t usage_series_builder::group_of(std::uint16_t source, std::uint32_t site) {
    key const k = key_of(source, site);
    auto const [at, is_new] = found_.try_emplace(k, groups_.size());
    if (is_new) groups_.push_back({name_of(source, site)});
    return at->second;
}

CUOTA_INLINE auto usage_series_builder::key_of(std::uint16_t source, std::uint32_t site) const -> key {
    if (options_.by == group_by::source) return {{}, {}, source};
    event_site const s = site_in(all_, site);
    if (options_.by == group_by::tag) return {s.name.text(), {}, 0};
    return {s.name.text(), s.where.file, s.where.line};
}

CUOTA_INLINE std::string usage_series_builder::name_of(std::uint16_t source, std::uint32_t site) const {
    if (options_.by == group_by::source) return all_.sources[source].name;
    event_site const s = site_in(all_, site);
    std::string const name = s.name.is_empty() ? "untagged" : s.name.text();
    std::string const where = options_.by == group_by::site ? source_location_text(s.where) : "";
    return where.empty() ? name : name + " (" + where + ')';
}

CUOTA_INLINE void usage_series_builder::find_peaks() {
    for (group& g : groups_) g.peak = g.now = g.older;
    for (change const& c : blocks_) {
        group& g = groups_[c.group];
        g.now = c.after(g.now);
        g.peak = std::max(g.peak, g.now);
    }
}

CUOTA_INLINE void usage_series_builder::choose_parts() {
    std::vector<group*> order;
    for (group& g : groups_) order.push_back(&g);
    sort_stably(order, [](group const* a, group const* b) {
        return std::tie(b->peak, a->name) < std::tie(a->peak, b->name);
    });
    for (std::size_t i = 0; i != order.size(); ++i) {
        order[i]->part = std::min(i, options_.max_groups);
        if (i <= options_.max_groups) made_.parts.emplace_back();
        usage_curve& part = made_.parts[order[i]->part];
        part.name = i < options_.max_groups ? order[i]->name : "others";
        if (i >= options_.max_groups) ++part.merged;
    }
}

CUOTA_INLINE void usage_series_builder::draw() {
    std::vector<std::size_t> now(made_.parts.size());
    std::size_t total = 0;
    for (group const& g : groups_) {
        now[g.part] += g.older;
        total += g.older;
    }
    for (std::size_t i = 0; i != now.size(); ++i) start(made_.parts[i], now[i]);
    start(made_.total, total);
    std::vector<std::size_t> at_peak = now;
    for (change const& c : blocks_) {
        std::size_t const part = groups_[c.group].part;
        now[part] = c.after(now[part]);
        total = c.after(total);
        add(made_.parts[part], c.at, now[part]);
        if (add(made_.total, c.at, total)) at_peak = now;
    }
    tell_peak(at_peak);
    start(made_.reserved, older_segments_);
    std::size_t reserved = older_segments_;
    for (change const& c : segments_) add(made_.reserved, c.at, reserved = c.after(reserved));
    made_.total.name = "total";
    made_.reserved.name = "reserved";
}

CUOTA_INLINE void usage_series_builder::start(usage_curve& curve, std::size_t bytes) const {
    curve.points.push_back({made_.from, bytes});
    curve.peak = bytes;
    curve.peak_at = made_.from;
}

CUOTA_INLINE bool usage_series_builder::add(usage_curve& curve, std::uint64_t at, std::size_t bytes) {
    if (curve.points.back().bytes != bytes) curve.points.push_back({at, bytes});
    if (bytes <= curve.peak) return false;
    curve.peak = bytes;
    curve.peak_at = at;
    return true;
}

CUOTA_INLINE void usage_series_builder::tell_peak(std::vector<std::size_t> const& bytes) {
    for (std::size_t i = 0; i != bytes.size(); ++i)
        if (bytes[i] != 0) made_.at_peak.push_back({made_.parts[i].name, bytes[i]});
    sort_stably(made_.at_peak, std::greater{}, &usage_share::bytes);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE usage_series usage_over_time(recording const& r, usage_options const& options,
                                          source_location where) {
    detail::check_recording(r, where);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            detail::throw_usage_error(where, "source index {} is out of range: the recording has {} sources",
                                      {s, r.sources.size()});
    return detail::usage_series_builder{r, options}.run();
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void add_extremes(std::vector<usage_point>& to, std::span<usage_point const> run) {
    auto const low = std::ranges::min_element(run, {}, &usage_point::bytes);
    auto const high = std::ranges::max_element(run, {}, &usage_point::bytes);
    std::ptrdiff_t kept[] = {0, low - run.begin(), high - run.begin(), std::ssize(run) - 1};
    std::ranges::sort(kept);
    auto const end = std::unique(std::begin(kept), std::end(kept));
    for (auto at = std::begin(kept); at != end; ++at) to.push_back(run[static_cast<std::size_t>(*at)]);
}

CUOTA_INLINE std::vector<usage_point> thinned(std::span<usage_point const> points, std::size_t stretches) {
    if (points.empty()) return {};
    std::uint64_t const from = points.front().at;
    double const per_time =
        static_cast<double>(stretches) / (static_cast<double>(points.back().at - from) + 1.0);
    auto const stretch_of = [&](usage_point p) {
        return std::min(static_cast<std::size_t>(static_cast<double>(p.at - from) * per_time), stretches - 1);
    };
    std::vector<usage_point> result;
    for (std::size_t at = 0; at != points.size();) {
        std::size_t end = at + 1;
        while (end != points.size() && stretch_of(points[end]) == stretch_of(points[at])) ++end;
        add_extremes(result, points.subspan(at, end - at));
        at = end;
    }
    return result;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<usage_point> downsample(std::span<usage_point const> points, std::size_t n,
                                                 source_location where) {
    if (n < 4)
        detail::throw_usage_error(where, "downsample: the number of points must be at least 4, got {}", {n});
    if (points.size() <= n) return {points.begin(), points.end()};
    return detail::thinned(points, n / 4);
}

}  // namespace cuota::inline v0

#endif
