// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes a recording as a trace for Perfetto and Chrome.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/export/trace_stream.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/recording/usage_series.hpp>

namespace cuota::inline v0 {

/// Options of write_chrome_trace.
struct chrome_trace_options {
    group_by by = group_by::tag;  ///< grouping of counters
    std::size_t max_groups = 12;  ///< counters, by highest peak; one more sums the rest
    /// Indices of the sources to show. Empty: all.
    std::vector<std::uint16_t> sources{};
    std::size_t blocks = 0;  ///< largest blocks shown as slices
};

namespace detail {

/// Process 1 shows the totals; each source has a process with one thread. Readers treat 0 specially.
class trace_maker {
public:
    trace_maker(std::ostream& to, recording const& r, chrome_trace_options const& options);

    void run();

private:
    struct steps {
        std::optional<std::uint64_t> begun{};
        std::size_t count = 0;
    };

    [[nodiscard]] std::string about() const;
    [[nodiscard]] static std::size_t process_of(std::size_t source) { return source + 2; }
    void add_metadata(char const* what, std::size_t process, char const* key, std::string_view json);
    void add_names();
    void name(std::size_t process, std::string_view text);

    void add_counter(std::size_t process, std::string_view name, std::uint64_t at, std::size_t bytes);
    void add_curve(std::string const& name, usage_curve const& curve);
    void add_usage();
    void add_limits();

    // Makes timestamps monotonic as in usage_series.
    void add_happenings();
    void add_happening(memory_event const& e, std::uint64_t at);
    void add_reserved(memory_event const& e, std::uint64_t at, std::size_t bytes);
    // A step that began before the first event starts with it.
    void add_step(std::size_t source, std::uint64_t until, bool is_ended);
    void add_instant(memory_event const& e, std::uint64_t at);
    [[nodiscard]] event_site site_of(std::uint32_t site) const;

    void add_blocks();
    void add_block(block_lifetime const& b, std::size_t id);

    trace_stream to_;
    recording const& all_;
    chrome_trace_options const& options_;
    usage_series const levels_;
    memory_lifetimes const lives_;
    std::vector<bool> chosen_;                       // by source
    std::map<std::size_t, std::size_t> reserved_{};  // by source
    std::map<std::size_t, steps> steps_{};           // by source
};

}  // namespace detail

/// Writes Chrome's trace event format (JSON): counters of live bytes, reserved bytes of pools and budget limits; slices for steps and the
/// largest blocks; an instant per refusal, reclaim and note. Times are since recording::start_time. Refusals, reclaims, notes and limits
/// are written for all sources.
/// Throws: usage_error for an unknown source, before any output; data_error if the stream fails, which keeps the output so far;
/// std::bad_alloc. Cost: O(n log n) in the events.
/// Threads: any, one per stream. Example: examples/look.cpp
void write_chrome_trace(std::ostream& to, recording const& r, chrome_trace_options const& options = {},
                        source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE trace_maker::trace_maker(std::ostream& to, recording const& r,
                                      chrome_trace_options const& options)
    : to_{to},
      all_{r},
      options_{options},
      levels_{usage_over_time(r, {options.by, options.max_groups, options.sources})},
      lives_{lifetime_builder{r}.run()},
      chosen_(r.sources.size(), options.sources.empty()) {
    for (std::uint16_t const s : options.sources) chosen_[s] = true;
}

CUOTA_INLINE void trace_maker::run() {
    to_.put("{\"displayTimeUnit\":\"ns\",\"otherData\":" + about() + ",\"traceEvents\":[");
    add_names();
    add_usage();
    add_limits();
    add_happenings();
    for (std::size_t s = 0; s != chosen_.size(); ++s)
        if (steps_[s].begun) add_step(s, levels_.until, false);
    add_blocks();
    to_.put("\n]}\n");
    to_.flush();
}

CUOTA_INLINE std::string trace_maker::about() const {
    auto const began =
        std::chrono::duration_cast<std::chrono::milliseconds>(all_.start_time.time_since_epoch());
    return json_object{}
        .add("format", "cuota memory trace 1")
        .add_json("began_unix_ms", std::to_string(began.count()))
        .add_json("events", std::to_string(all_.events.size()))
        .add_json("events_dropped", std::to_string(all_.dropped))
        .add("peak_live_bytes", levels_.total.peak)
        .text();
}

CUOTA_INLINE void trace_maker::add_metadata(char const* what, std::size_t process, char const* key,
                                            std::string_view json) {
    to_.add(trace_event("M", process, what, 0).add_json("args", json_object{}.add_json(key, json).text()));
}

CUOTA_INLINE void trace_maker::add_names() {
    static constexpr char const* kinds[] = {"", "pool ", "resource ", "budget "};
    name(1, "cuota: live memory");
    for (std::size_t i = 0; i != all_.sources.size(); ++i) {
        event_source const& s = all_.sources[i];
        name(process_of(i), kinds[static_cast<std::size_t>(s.kind)] + s.name);
        if (s.kind == source_kind::budget && s.limit != unlimited)
            add_metadata("process_labels", process_of(i), "labels",
                         json_string("limit " + bytes_text(s.limit)));
    }
}

CUOTA_INLINE void trace_maker::name(std::size_t process, std::string_view text) {
    add_metadata("process_name", process, "name", json_string(text));
    add_metadata("process_sort_index", process, "sort_index", std::to_string(process));
    add_metadata("thread_name", process, "name", json_string(process == 1 ? "all" : "steps, events"));
}

CUOTA_INLINE void trace_maker::add_counter(std::size_t process, std::string_view name, std::uint64_t at,
                                           std::size_t bytes) {
    to_.add(trace_event("C", process, name, at)
                .add_json("args", json_object{}.add_json("bytes", std::to_string(bytes)).text()));
}

CUOTA_INLINE void trace_maker::add_curve(std::string const& name, usage_curve const& curve) {
    for (usage_point const p : curve.points) add_counter(1, name, p.at, p.bytes);
}

CUOTA_INLINE void trace_maker::add_usage() {
    add_curve("live", levels_.total);
    add_curve("reserved", levels_.reserved);
    std::map<std::string, std::size_t> seen;  // readers merge counters of equal name
    for (usage_curve const& part : levels_.parts) {
        std::string name = "live: " + part.name;
        if (part.merged != 0) name = "live, others: " + std::to_string(part.merged);
        while (seen[json_string(name)]++ != 0) name += " #" + std::to_string(seen[json_string(name)]);
        add_curve(name, part);
    }
}

CUOTA_INLINE void trace_maker::add_limits() {
    for (std::size_t i = 0; i != all_.sources.size(); ++i)
        if (all_.sources[i].kind == source_kind::budget && all_.sources[i].limit != unlimited)
            add_counter(process_of(i), "limit", levels_.from, all_.sources[i].limit);
    for (segment_lifetime const& s : lives_.segments)
        if (!s.from) reserved_[s.source] += s.bytes;
    for (std::size_t i = 0; i != all_.sources.size(); ++i)
        if (all_.sources[i].kind == source_kind::pool && chosen_[i])
            add_counter(process_of(i), "reserved", levels_.from, reserved_[i]);
}

CUOTA_INLINE void trace_maker::add_happenings() {
    std::uint64_t now = levels_.from;
    for (memory_event const& e : all_.events) {
        now = std::max(now, e.at);
        add_happening(e, now);
    }
}

CUOTA_INLINE void trace_maker::add_happening(memory_event const& e, std::uint64_t at) {
    switch (e.kind) {
        case event_kind::segment_allocated: return add_reserved(e, at, reserved_[e.source] + e.bytes);
        case event_kind::segment_freed: return add_reserved(e, at, reserved_[e.source] - e.bytes);
        case event_kind::step_begun:
            if (steps_[e.source].begun) add_step(e.source, at, false);
            steps_[e.source].begun = at;
            return;
        case event_kind::step_ended: return add_step(e.source, at, true);
        case event_kind::refused:
        case event_kind::reclaimed:
        case event_kind::marker: return add_instant(e, at);
        default: return;
    }
}

CUOTA_INLINE void trace_maker::add_reserved(memory_event const& e, std::uint64_t at, std::size_t bytes) {
    reserved_[e.source] = bytes;
    if (chosen_[e.source]) add_counter(process_of(e.source), "reserved", at, bytes);
}

CUOTA_INLINE void trace_maker::add_step(std::size_t source, std::uint64_t until, bool is_ended) {
    steps& s = steps_[source];
    std::uint64_t const from = s.begun.value_or(levels_.from);
    s.begun.reset();
    ++s.count;
    if (!chosen_[source]) return;
    to_.add(trace_event("X", process_of(source), "step " + std::to_string(s.count), from)
                .add_json("dur", trace_time(until - from))
                .add_json("args", json_object{}.add("ended", is_ended).text()));
}

CUOTA_INLINE void trace_maker::add_instant(memory_event const& e, std::uint64_t at) {
    event_site const site = site_of(e.site);
    std::string const who = site.name.is_empty() ? "untagged" : site.name.text();
    json_object facts;
    std::string name = who;
    if (e.kind != event_kind::marker) {
        bool const is_refused = e.kind == event_kind::refused;
        name = (is_refused ? "refused " : "reclaimed ") + bytes_text(e.bytes) +
               (is_refused ? " for " : " of ") + who;
        facts.add("bytes", e.bytes).add("tag", site.name.text());
        if (is_refused) facts.add("held", e.size).add("limit", all_.sources[e.source].limit);
    }
    facts.add("location", source_location_text(site.where));
    to_.add(trace_event("i", process_of(e.source), name, at).add("s", "p").add_json("args", facts.text()));
}

CUOTA_INLINE event_site trace_maker::site_of(std::uint32_t site) const { return site_in(all_, site); }

CUOTA_INLINE void trace_maker::add_blocks() {
    std::vector<block_lifetime const*> order;
    for (block_lifetime const& b : lives_.blocks)
        if (chosen_[b.source]) order.push_back(&b);
    sort_stably(order, std::greater{}, [](block_lifetime const* b) { return b->size; });
    if (order.size() > options_.blocks) order.resize(options_.blocks);
    for (std::size_t i = 0; i != order.size(); ++i) add_block(*order[i], i);
}

CUOTA_INLINE void trace_maker::add_block(block_lifetime const& b, std::size_t id) {
    event_site const site = site_of(b.site);
    std::string const name = site.name.is_empty() ? "untagged" : site.name.text();
    std::uint64_t const from = std::max(b.from.value_or(levels_.from), levels_.from);
    json_object facts;
    facts.add("bytes", b.bytes).add("size", b.size).add("location", source_location_text(site.where));
    facts.add("address", std::to_string(b.address));  // a JSON number would be rounded
    facts.add("from_before", !b.from).add("live_at_end", !b.until);
    if (b.stream != memory_event::no_stream) facts.add("stream", std::to_string(b.stream));
    for (auto const& [phase, at] :
         {std::pair{"b", from}, std::pair{"e", std::max(b.until.value_or(levels_.until), from)}}) {
        json_object e = trace_event(phase, process_of(b.source), name, at);
        e.add("cat", "block").add("id", std::to_string(id + 1));
        to_.add(e.add_json("args", *phase == 'b' ? facts.text() : "{}"));
    }
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_chrome_trace(std::ostream& to, recording const& r,
                                     chrome_trace_options const& options, source_location where) {
    detail::check_recording(r, where);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            detail::throw_usage_error(where, "source index {} is out of range: the recording has {} sources",
                                      {s, r.sources.size()});
    detail::trace_maker{to, r, options}.run();
}

}  // namespace cuota::inline v0

#endif
