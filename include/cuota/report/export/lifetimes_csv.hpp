// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes lifetimes of blocks as CSV.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/planning/lifetimes.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// Units of lifetimes.
enum class lifetimes_by {
    event,  ///< one per event of the recording
    /// Nanoseconds since recording::start_time; an event at its predecessor's time gets 1 more.
    time,
};

/// Options of write_lifetimes_csv.
struct lifetimes_csv_options {
    lifetimes_by by = lifetimes_by::event;  ///< unit of lifetimes
    std::optional<std::uint16_t> source{};  ///< index in recording::sources; none: all
    /// Only blocks of this step of `source`, counted from the first complete one.
    std::optional<std::size_t> step{};
    bool with_facts = true;  ///< more columns: bytes, source, tag, location
};

namespace detail {

struct recorded_lifetime {
    lifetime life{};
    std::size_t bytes = 0;  // as requested
    std::uint16_t source = 0;
    std::uint32_t site = 0;
};

/// No two events have one time, so a plan's lower bound equals the recording's peak.
class lifetime_finder {
public:
    lifetime_finder(recording const& r, lifetimes_csv_options const& options, source_location where)
        : all_{r}, options_{options}, where_{where} {}

    [[nodiscard]] std::vector<recorded_lifetime> run();

private:
    static constexpr std::uint64_t still_live = ~std::uint64_t{0};
    struct span {
        std::uint64_t from = 0;
        std::uint64_t until = 0;
    };

    void check_source() const;
    void apply(memory_event const& e, std::uint64_t now);
    void end(memory_event const& e, std::uint64_t now);
    [[nodiscard]] span chosen_step() const;
    void cut_to(span step);

    recording const& all_;
    lifetimes_csv_options const& options_;
    source_location where_;
    std::vector<recorded_lifetime> found_;
    std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> open_;  // indices in found_
    std::optional<std::uint64_t> begun_{};                                 // beginning of the open step
    std::vector<span> steps_;
};

/// Replaces separators, quotes, controls and a leading =, +, - or @ (a formula in spreadsheets) by '_': simple readers do not support
/// quotes.
[[nodiscard]] std::string csv_field(std::string_view text);

[[nodiscard]] std::string csv_line(recording const& r, recorded_lifetime const& l, std::size_t id,
                                   bool with_facts);

}  // namespace detail

/// Writes a header, then a line per block: `id,lower,upper,size`, for examples/plan_trace.cpp. A block lives in [lower, upper) and has
/// `size` bytes, rounded up.
///
/// Blocks live before the first event begin at 0; those live at the end end one after the last event. If a step is chosen, blocks are cut
/// to it, and it begins at 0. Lines are sorted by `lower`; ids count from 0. Device and host memory do not share a slab: choose one source.
///
/// Throws: usage_error for an unknown source or step, or a step without a source, before any output; data_error if the stream fails;
/// std::bad_alloc. Cost: O(n log n) in the events.
/// Threads: any, one per stream. Example: examples/look.cpp
void write_lifetimes_csv(std::ostream& to, recording const& r, lifetimes_csv_options const& options = {},
                         source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<recorded_lifetime> lifetime_finder::run() {
    check_source();
    std::uint64_t now = 0;
    for (memory_event const& e : all_.events) {
        now = options_.by == lifetimes_by::event ? now + 1 : std::max(e.at, now + 1);
        if (!options_.source || e.source == *options_.source) apply(e, now);
    }
    memory_lifetimes const all = lifetime_builder{all_}.run();
    for (block_lifetime const& b : all.blocks)
        if (!b.from && !b.until && (!options_.source || b.source == *options_.source))
            found_.push_back({{0, still_live, b.size}, b.bytes, b.source, b.site});
    for (recorded_lifetime& l : found_) l.life.until = std::min(l.life.until, now + 1);
    sort_stably(found_, {}, [](recorded_lifetime const& l) { return l.life.from; });
    if (options_.step) cut_to(chosen_step());
    return std::move(found_);
}

CUOTA_INLINE void lifetime_finder::check_source() const {
    if (options_.step && !options_.source)
        throw_usage_error(where_, "lifetimes of step {}: the source is not set; name the pool",
                          {*options_.step});
    if (options_.source && *options_.source >= all_.sources.size())
        throw_usage_error(where_, "source index {} is out of range: the recording has {} sources",
                          {*options_.source, all_.sources.size()});
}

CUOTA_INLINE void lifetime_finder::apply(memory_event const& e, std::uint64_t now) {
    switch (e.kind) {
        case event_kind::allocated:
            open_[{e.source, e.address}] = found_.size();
            found_.push_back({{now, still_live, e.size}, e.bytes, e.source, e.site});
            return;
        case event_kind::free_requested: return end(e, now);
        case event_kind::step_begun: begun_ = now; return;
        case event_kind::step_ended:
            if (begun_) steps_.push_back({*begun_, now});
            begun_.reset();
            return;
        default: return;
    }
}

CUOTA_INLINE void lifetime_finder::end(memory_event const& e, std::uint64_t now) {
    auto const open = open_.find({e.source, e.address});
    if (open == open_.end()) {  // as in lifetimes_of, described by its free event
        found_.push_back({{0, now, e.size}, e.bytes, e.source, e.site});
        return;
    }
    found_[open->second].life.until = now;
    open_.erase(open);
}

CUOTA_INLINE auto lifetime_finder::chosen_step() const -> span {
    if (*options_.step >= steps_.size())
        throw_usage_error(where_, "step index {} of {} is out of range: the recording has {} complete steps",
                          {*options_.step, all_.sources[*options_.source].name, steps_.size()});
    return steps_[*options_.step];
}

CUOTA_INLINE void lifetime_finder::cut_to(span step) {
    std::erase_if(found_, [&](recorded_lifetime const& l) {
        return l.life.from >= step.until || l.life.until <= step.from;
    });
    for (recorded_lifetime& l : found_) {
        l.life.from = std::max(l.life.from, step.from) - step.from;
        l.life.until = std::min(l.life.until, step.until) - step.from;
    }
}

CUOTA_INLINE std::string csv_field(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at != text.size();) {
        std::size_t const length = utf8_length(text, at);
        auto const code = static_cast<unsigned char>(text[at]);
        bool const is_plain = length != 0 && code >= 0x20 && code != 0x7F && code != ',' && code != '"';
        bool const is_formula = at == 0 && std::string_view{"=+-@"}.find(text[at]) != std::string_view::npos;
        if (is_plain && !is_formula) result += text.substr(at, length);
        else result += '_';
        at += length == 0 ? 1 : length;
    }
    return result;
}

CUOTA_INLINE std::string csv_line(recording const& r, recorded_lifetime const& l, std::size_t id,
                                  bool with_facts) {
    std::string line = std::to_string(id) + ',' + std::to_string(l.life.from) + ',' +
                       std::to_string(l.life.until) + ',' + std::to_string(l.life.size);
    if (!with_facts) return line + '\n';
    event_site const site = site_in(r, l.site);
    return line + ',' + std::to_string(l.bytes) + ',' + csv_field(r.sources[l.source].name) + ',' +
           csv_field(site.name.text()) + ',' + csv_field(source_location_text(site.where)) + '\n';
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_lifetimes_csv(std::ostream& to, recording const& r,
                                      lifetimes_csv_options const& options, source_location where) {
    detail::check_recording(r, where);
    std::string csv =
        options.with_facts ? "id,lower,upper,size,bytes,source,tag,location\n" : "id,lower,upper,size\n";
    std::size_t id = 0;
    for (detail::recorded_lifetime const& l : detail::lifetime_finder{r, options, where}.run())
        csv += detail::csv_line(r, l, id++, options.with_facts);
    if (!to.write(csv.data(), static_cast<std::streamsize>(csv.size())).flush())
        detail::throw_data_error("lifetimes CSV", 0, "writing {} bytes failed", {csv.size()});
}

}  // namespace cuota::inline v0

#endif
