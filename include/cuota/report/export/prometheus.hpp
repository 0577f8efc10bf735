// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats a snapshot for Prometheus.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// Options of prometheus_text.
struct prometheus_options {
    bool open_metrics = false;  ///< OpenMetrics 1.0, not Prometheus' text format 0.0.4
    /// Labels of every series: {{"rank", "3"}}. Values may be any text.
    std::vector<std::pair<std::string, std::string>> labels{};
};

/// Returns the Content-Type of an HTTP response with the text.
[[nodiscard]] char const* prometheus_content_type(prometheus_options const& how = {}) noexcept;

namespace detail {

// Escapes a value; control characters other than newlines remain.
[[nodiscard]] std::string prometheus_value(std::string_view text);

[[nodiscard]] std::string with_label(std::string labels, std::string_view name, std::string_view escaped);

// Makes escaped names unique: the second use is "name#2".
class prometheus_names {
public:
    // `scope`: labels that distinguish names already.
    [[nodiscard]] std::string fresh(std::string const& scope, std::string const& escaped);

private:
    std::set<std::pair<std::string, std::string>> used_;
};

class prometheus_writer {
public:
    using series = std::pair<std::string, std::size_t>;  // labels and a value

    explicit prometheus_writer(bool open_metrics) noexcept : open_metrics_{open_metrics} {}

    // Writes a family. A counter's `name` is without _total.
    void gauge(std::string const& name, char const* help, std::vector<series> const& all);
    void counter(std::string const& name, char const* help, std::vector<series> const& all);
    [[nodiscard]] std::string text() &&;

private:
    void family(std::string const& name, std::string const& sample, char const* type, char const* help,
                std::vector<series> const& all);
    bool const open_metrics_;
    std::string text_;
};

using pool_figure = std::size_t pool_stats::*;  // nvcc would put parentheses around it
struct pool_metric {
    char const* name;
    char const* help;
    pool_figure figure;
};
inline constexpr std::array<pool_metric, 12> pool_gauges{{
    {"requested_bytes", "Live bytes, as requested.", &pool_stats::requested},
    {"allocated_bytes", "Live bytes, rounded up to the granularity of the pool.", &pool_stats::allocated},
    {"active_bytes", "Live bytes, and freed bytes that enqueued work may still use.", &pool_stats::active},
    {"reserved_bytes", "Bytes of pages and segments allocated from the device.", &pool_stats::reserved},
    {"requested_peak_bytes", "Peak of requested bytes.", &pool_stats::peak_requested},
    {"allocated_peak_bytes", "Peak of allocated bytes.", &pool_stats::peak_allocated},
    {"active_peak_bytes", "Peak of active bytes, as far as observed.", &pool_stats::peak_active},
    {"reserved_peak_bytes", "Peak of reserved bytes.", &pool_stats::peak_reserved},
    {"largest_free_bytes", "Size of the largest free block.", &pool_stats::largest_free},
    {"segments", "Segments, and runs of adjacent pages.", &pool_stats::segments},
    {"live_blocks", "Allocated blocks.", &pool_stats::live_blocks},
    {"free_blocks", "Free blocks.", &pool_stats::free_blocks},
}};
inline constexpr std::array<pool_metric, 2> pool_counters{{
    {"thread_cache_hits", "Allocations served from the thread's cache, without a lock.",
     &pool_stats::thread_cache_hits},
    {"stream_waits", "Waits inserted into streams before memory is reused on another stream.",
     &pool_stats::stream_waits},
}};

[[nodiscard]] char const* memory_name(memory_kind kind) noexcept;

class prometheus_text_of {
public:
    prometheus_text_of(memory_snapshot const& s, prometheus_options const& how);

    [[nodiscard]] std::string run() &&;

private:
    using all_series = std::vector<prometheus_writer::series>;

    // Throws: as prometheus_text.
    [[nodiscard]] static std::string checked_labels(prometheus_options const& how);
    [[nodiscard]] static bool is_label_name(std::string_view name) noexcept;
    [[nodiscard]] static std::string name_or(std::string_view name, char const* other);

    void name_budgets();
    [[nodiscard]] std::string in_budget(std::size_t index) const;

    void write_budgets();
    // Sums bytes by tag, without call sites: labels with many values are expensive for servers.
    void write_holders();
    void write_pools();
    void write_tags();
    void write_devices();

    memory_snapshot const& all_;
    prometheus_writer to_;
    std::string const common_;
    std::vector<std::string> paths_;  // of budgets, escaped
    std::vector<std::string> pools_;  // labels of pools
};

}  // namespace detail

/// Formats budgets, holders, pools, tags and devices as metrics: `cuota_budget_held_bytes{budget="trainer/loader"}`.
///
/// Budgets are named by their path. If two series would be equal (two pools of one name, budget and device), the later one in the snapshot
/// is "name#2". Bytes of holders are summed over call sites. `unlimited` is +Inf. Invalid UTF-8 becomes U+FFFD. Metrics ending in _total
/// are counters, all others gauges.
///
/// Throws: usage_error if a label name in `how` is invalid, a duplicate, or used by a series; std::bad_alloc.
/// Cost:   O(n log n) in budgets, pools and tags; blocks are not read.
/// Threads: any.
/// Example: examples/look.cpp
[[nodiscard]] std::string prometheus_text(memory_snapshot const& s, prometheus_options const& how = {});

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0 {

CUOTA_INLINE char const* prometheus_content_type(prometheus_options const& how) noexcept {
    return how.open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                            : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string prometheus_value(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at != text.size();) {
        std::size_t const length = utf8_length(text, at);
        if (length == 0) result += "\xEF\xBF\xBD";
        else if (text[at] == '\n') result += "\\n";
        else if (text[at] == '"' || text[at] == '\\') (result += '\\') += text[at];
        else result += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    return result;
}

CUOTA_INLINE std::string with_label(std::string labels, std::string_view name, std::string_view escaped) {
    return ((((labels += labels.empty() ? "" : ",") += name) += "=\"") += escaped) += '"';
}

CUOTA_INLINE std::string prometheus_names::fresh(std::string const& scope, std::string const& escaped) {
    std::string name = escaped;
    for (std::size_t n = 2; !used_.emplace(scope, name).second; ++n) name = escaped + '#' + std::to_string(n);
    return name;
}

CUOTA_INLINE void prometheus_writer::gauge(std::string const& name, char const* help,
                                           std::vector<series> const& all) {
    family(name, name, "gauge", help, all);
}

CUOTA_INLINE void prometheus_writer::counter(std::string const& name, char const* help,
                                             std::vector<series> const& all) {
    family(open_metrics_ ? name : name + "_total", name + "_total", "counter", help, all);
}

CUOTA_INLINE std::string prometheus_writer::text() && {
    if (open_metrics_) text_ += "# EOF\n";
    return std::move(text_);
}

CUOTA_INLINE void prometheus_writer::family(std::string const& name, std::string const& sample,
                                            char const* type, char const* help,
                                            std::vector<series> const& all) {
    if (all.empty()) return;
    text_ += "# HELP " + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
    if (open_metrics_ && name.ends_with("_bytes")) text_ += "# UNIT " + name + " bytes\n";
    for (auto const& [labels, value] : all) {
        text_ += sample;
        if (!labels.empty()) ((text_ += '{') += labels) += '}';
        ((text_ += ' ') += value == unlimited ? "+Inf" : std::to_string(value)) += '\n';
    }
}

CUOTA_INLINE char const* memory_name(memory_kind kind) noexcept {
    return kind == memory_kind::device ? "device" : kind == memory_kind::pinned ? "pinned" : "managed";
}

CUOTA_INLINE prometheus_text_of::prometheus_text_of(memory_snapshot const& s, prometheus_options const& how)
    : all_{s}, to_{how.open_metrics}, common_{checked_labels(how)} {
    name_budgets();
}

CUOTA_INLINE std::string prometheus_text_of::run() && {
    auto const since = std::chrono::duration_cast<std::chrono::seconds>(all_.taken.time_since_epoch());
    auto const seconds = static_cast<std::size_t>(since.count() > 0 ? since.count() : 0);
    to_.gauge("cuota_snapshot_timestamp_seconds", "Time of the snapshot, in seconds since 1970.",
              {{common_, seconds}});
    write_budgets();
    write_holders();
    write_pools();
    write_tags();
    write_devices();
    return std::move(to_).text();
}

CUOTA_INLINE std::string prometheus_text_of::checked_labels(prometheus_options const& how) {
    std::set<std::string_view> taken{"budget", "cached", "device", "holder",
                                     "memory", "model",  "pool",   "tag"};
    std::string labels;
    for (auto const& [name, value] : how.labels) {
        if (!is_label_name(name))
            throw_usage_error(
                "\"{}\" is not a valid Prometheus label name: use letters, digits and _, and do not "
                "start with a digit or __",
                {printable(name)});
        if (!taken.insert(name).second) throw_usage_error("duplicate Prometheus label name \"{}\"", {name});
        labels = with_label(std::move(labels), name, prometheus_value(value));
    }
    return labels;
}

CUOTA_INLINE bool prometheus_text_of::is_label_name(std::string_view name) noexcept {
    if (name.empty() || name.starts_with("__") || (name[0] >= '0' && name[0] <= '9')) return false;
    for (char const c : name)
        if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            return false;
    return true;
}

CUOTA_INLINE std::string prometheus_text_of::name_or(std::string_view name, char const* other) {
    return prometheus_value(name.empty() ? other : name);
}

CUOTA_INLINE void prometheus_text_of::name_budgets() {
    prometheus_names names;
    for (budget_entry const& b : all_.budgets) {
        std::string path = name_or(b.facts.name, "unnamed");
        if (b.parent && *b.parent < paths_.size()) path = paths_[*b.parent] + '/' + path;
        paths_.push_back(names.fresh("", path));
    }
}

CUOTA_INLINE std::string prometheus_text_of::in_budget(std::size_t index) const {
    return index < paths_.size() ? with_label(common_, "budget", paths_[index]) : common_;
}

CUOTA_INLINE void prometheus_text_of::write_budgets() {
    using fact = std::size_t budget_info::*;
    auto const write = [this](char const* name, char const* help, fact figure) {
        all_series found;
        for (std::size_t i = 0; i != all_.budgets.size(); ++i)
            found.push_back({in_budget(i), all_.budgets[i].facts.*figure});
        to_.gauge(name, help, found);
    };
    write("cuota_budget_limit_bytes", "Limit of a budget.", &budget_info::limit);
    write("cuota_budget_held_bytes", "Bytes charged to a budget and to those nested in it.",
          &budget_info::held);
    write("cuota_budget_peak_bytes", "Peak of the bytes charged to a budget.", &budget_info::peak);
}

CUOTA_INLINE void prometheus_text_of::write_holders() {
    std::map<std::string, std::size_t> sums;
    for (holder_info const& h : all_.holders)
        for (allocation_group const& held : h.allocation_groups) {
            std::string labels = with_label(in_budget(h.budget), "holder", name_or(h.name, "unnamed"));
            labels = with_label(std::move(labels), "tag", name_or(held.name.text(), "untagged"));
            labels = with_label(std::move(labels), "cached", held.is_cached ? "true" : "false");
            std::size_t& sum = sums[labels];
            sum = saturating_add(sum, held.bytes);
        }
    to_.gauge("cuota_holder_bytes", "Bytes of a budget held by holders other than pools.",
              {sums.begin(), sums.end()});
}

CUOTA_INLINE void prometheus_text_of::write_pools() {
    prometheus_names names;
    for (pool_info const& p : all_.pools) {
        std::string labels = in_budget(p.budget);
        if (p.device) labels = with_label(std::move(labels), "device", std::to_string(*p.device));
        labels = with_label(std::move(labels), "memory", memory_name(p.memory));
        std::string const name = names.fresh(labels, name_or(p.name, "unnamed"));
        pools_.push_back(with_label(labels, "pool", name));
    }
    auto const series_of = [this](pool_metric const& m) {
        all_series found;
        for (std::size_t i = 0; i != pools_.size(); ++i)
            found.push_back({pools_[i], all_.pools[i].stats.*m.figure});
        return found;
    };
    for (pool_metric const& m : pool_gauges)
        to_.gauge(std::string{"cuota_pool_"} + m.name, m.help, series_of(m));
    for (pool_metric const& m : pool_counters)
        to_.counter(std::string{"cuota_pool_"} + m.name, m.help, series_of(m));
}

CUOTA_INLINE void prometheus_text_of::write_tags() {
    all_series requested, allocated, peaks, blocks;
    for (std::size_t i = 0; i != pools_.size(); ++i) {
        prometheus_names names;
        for (tag_info const& t : all_.pools[i].tags) {
            std::string const labels =
                with_label(pools_[i], "tag", names.fresh("", name_or(t.name.text(), "untagged")));
            requested.push_back({labels, t.requested});
            allocated.push_back({labels, t.allocated});
            blocks.push_back({labels, t.live_blocks});
            if (t.peak) peaks.push_back({labels, *t.peak});
        }
    }
    to_.gauge("cuota_tag_requested_bytes", "Live bytes of a pool under a tag, as requested.", requested);
    to_.gauge("cuota_tag_allocated_bytes", "Live bytes of a pool under a tag, rounded up.", allocated);
    to_.gauge("cuota_tag_peak_bytes", "Peak of allocated bytes under a tag since recording started.", peaks);
    to_.gauge("cuota_tag_live_blocks", "Live blocks of a pool under a tag.", blocks);
}

CUOTA_INLINE void prometheus_text_of::write_devices() {
    prometheus_names names;
    std::array<all_series, 5> found;
    for (device_info const& d : all_.devices) {
        std::string labels = with_label(common_, "model", name_or(d.name, "unnamed"));
        labels = with_label(labels, "device", names.fresh(labels, std::to_string(d.ordinal)));
        std::array<std::size_t, 5> const figures{d.total, d.free, d.own, d.external(), d.baseline};
        for (std::size_t i = 0; i != figures.size(); ++i) found[i].push_back({labels, figures[i]});
    }
    to_.gauge("cuota_device_total_bytes", "Total memory of a device.", found[0]);
    to_.gauge("cuota_device_free_bytes", "Free memory of a device, as reported by the driver.", found[1]);
    to_.gauge("cuota_device_own_bytes", "Device memory held through cuota by this process.", found[2]);
    to_.gauge("cuota_device_external_bytes",
              "Device memory used outside cuota: other programs, the CUDA context, libraries.", found[3]);
    to_.gauge("cuota_device_baseline_bytes", "Device memory used outside cuota at the start.", found[4]);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string prometheus_text(memory_snapshot const& s, prometheus_options const& how) {
    return detail::prometheus_text_of{s, how}.run();
}

}  // namespace cuota::inline v0

#endif
