// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `timeline`: converts a recording to the page's JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// Escapes JSON for a script element: `<` could end it, and old parsers reject Unicode line separators.
[[nodiscard]] std::string json_in_html(std::string_view json);

/// A range of addresses. Addresses are written as offsets in it, because doubles hold 53 of 64 bits.
struct timeline_region {
    std::uint16_t source = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;  ///< one past its end
};

/// The regions of all lifetimes; adjacent ones of one source are merged.
class timeline_regions {
public:
    explicit timeline_regions(memory_lifetimes const& all);

    [[nodiscard]] std::vector<timeline_region> const& all() const noexcept { return regions_; }
    [[nodiscard]] std::size_t index_of(std::uint16_t source, std::uint64_t address) const;

private:
    [[nodiscard]] static timeline_region run(std::uint16_t source, std::uint64_t first, std::uint64_t bytes);
    void add(timeline_region const& r);
    std::vector<timeline_region> regions_;
};

class timeline_names {
public:
    [[nodiscard]] std::size_t number_of(std::string_view name);
    [[nodiscard]] std::string json() const;

private:
    std::map<std::string, std::size_t, std::less<>> numbers_;
    std::vector<std::string> names_;
};

/// The page's data as one JSON object. Times are nanoseconds since recording::start_time, -1 for none; lifetimes are columns.
class timeline_data {
public:
    timeline_data(recording const& r, std::string_view title)
        : all_{r}, title_{title}, lives_{lifetime_builder{r}.run()}, regions_{lives_} {}

    [[nodiscard]] std::string json();

private:
    [[nodiscard]] std::uint64_t first() const;
    [[nodiscard]] std::uint64_t last() const;

    template <class Number>
    [[nodiscard]] static std::string number(std::optional<Number> n) {
        return n ? std::to_string(*n) : "-1";
    }
    template <class Items, class Fact>
    [[nodiscard]] static std::string column(Items const& items, Fact fact) {
        return json_list(items, [&](auto const& item) { return std::string{fact(item)}; });
    }

    [[nodiscard]] static char const* name_of(source_kind kind);
    [[nodiscard]] static char const* name_of(memory_kind kind);
    [[nodiscard]] pool_info const* pool_of(event_source const& s) const;
    [[nodiscard]] std::string source(event_source const& s) const;
    [[nodiscard]] std::string sources() const;

    [[nodiscard]] std::string site(event_site const& s);
    [[nodiscard]] std::string sites();

    [[nodiscard]] static std::string region(timeline_region const& r);
    template <class Life>
    [[nodiscard]] json_object where_and_when(std::vector<Life> const& all) const {
        auto const region = [&](Life const& l) { return regions_.index_of(l.source, l.address); };
        json_object columns;
        columns.add_json("region", column(all, [&](Life const& l) { return std::to_string(region(l)); }));
        columns.add_json("offset", column(all, [&](Life const& l) {
                             return std::to_string(l.address - regions_.all()[region(l)].first);
                         }));
        columns.add_json("bytes", column(all, [](Life const& l) { return std::to_string(l.bytes); }));
        columns.add_json("from", column(all, [](Life const& l) { return number(l.from); }));
        columns.add_json("until", column(all, [](Life const& l) { return number(l.until); }));
        return columns;
    }
    [[nodiscard]] std::string segments() const { return where_and_when(lives_.segments).text(); }
    [[nodiscard]] std::string blocks();

    [[nodiscard]] static char const* mark_of(event_kind kind);
    [[nodiscard]] static std::string mark(memory_event const& e);
    [[nodiscard]] std::string marks() const;

    recording const& all_;
    std::string_view title_;
    memory_lifetimes lives_;
    timeline_regions regions_;
    timeline_names tags_;
    timeline_names streams_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string json_in_html(std::string_view json) {
    std::string result;
    result.reserve(json.size() + 64);
    for (std::size_t i = 0; i != json.size(); ++i) {
        std::string_view const rest = json.substr(i, 3);
        bool const is_line_end = rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9";
        if (json[i] == '<') result += "\\u003c";
        else if (json[i] == '>') result += "\\u003e";
        else if (json[i] == '&') result += "\\u0026";
        else if (is_line_end) result += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
        else result += json[i];
        if (is_line_end) i += 2;
    }
    return result;
}

CUOTA_INLINE timeline_regions::timeline_regions(memory_lifetimes const& all) {
    std::vector<timeline_region> runs;
    runs.reserve(all.blocks.size() + all.segments.size());
    for (segment_lifetime const& s : all.segments) runs.push_back(run(s.source, s.address, s.bytes));
    for (block_lifetime const& b : all.blocks)
        runs.push_back(run(b.source, b.address, std::max(b.bytes, b.size)));
    std::ranges::sort(runs, [](timeline_region const& a, timeline_region const& b) {
        return a.source != b.source ? a.source < b.source : a.first < b.first;
    });
    for (timeline_region const& r : runs) add(r);
}

CUOTA_INLINE std::size_t timeline_regions::index_of(std::uint16_t source, std::uint64_t address) const {
    auto const is_after = [&](timeline_region const& r) {
        return r.source != source ? r.source > source : r.first > address;
    };
    auto const after = std::ranges::partition_point(regions_, [&](auto const& r) { return !is_after(r); });
    return static_cast<std::size_t>(after - regions_.begin()) - 1;
}

CUOTA_INLINE timeline_region timeline_regions::run(std::uint16_t source, std::uint64_t first,
                                                   std::uint64_t bytes) {
    return {source, first, checked_add(first, bytes).value_or(unlimited)};
}

CUOTA_INLINE void timeline_regions::add(timeline_region const& r) {
    bool const touches =
        !regions_.empty() && regions_.back().source == r.source && r.first <= regions_.back().last;
    if (touches) regions_.back().last = std::max(regions_.back().last, r.last);
    else regions_.push_back(r);
}

CUOTA_INLINE std::size_t timeline_names::number_of(std::string_view name) {
    auto const [at, is_new] = numbers_.try_emplace(std::string{name}, names_.size());
    if (is_new) names_.push_back(at->first);
    return at->second;
}

CUOTA_INLINE std::string timeline_names::json() const {
    return json_list(names_, [](std::string const& name) { return json_string(name); });
}

CUOTA_INLINE std::string timeline_data::json() {
    auto const began =
        std::chrono::duration_cast<std::chrono::milliseconds>(all_.start_time.time_since_epoch());
    json_object page;
    page.add("format", std::size_t{1}).add("title", title_);
    page.add_json("began", std::to_string(began.count()));
    page.add_json("from", std::to_string(first())).add_json("to", std::to_string(last()));
    page.add("events", all_.events.size()).add_json("dropped", std::to_string(all_.dropped));
    page.add_json("sources", sources()).add_json("sites", sites());
    page.add_json("regions", json_list(regions_.all(), region));
    page.add_json("segments", segments()).add_json("blocks", blocks()).add_json("marks", marks());
    page.add_json("tags", tags_.json()).add_json("streams", streams_.json());
    return json_in_html(page.text());
}

CUOTA_INLINE std::uint64_t timeline_data::first() const {
    std::uint64_t at = all_.events.empty() ? 0 : all_.events.front().at;
    for (memory_event const& e : all_.events) at = std::min(at, e.at);
    return at;
}

CUOTA_INLINE std::uint64_t timeline_data::last() const {
    std::uint64_t at = 0;
    for (memory_event const& e : all_.events) at = std::max(at, e.at);
    return at;
}

CUOTA_INLINE char const* timeline_data::name_of(source_kind kind) {
    switch (kind) {
        case source_kind::pool: return "pool";
        case source_kind::resource: return "resource";
        case source_kind::budget: return "budget";
        default: return "program";
    }
}

CUOTA_INLINE char const* timeline_data::name_of(memory_kind kind) {
    switch (kind) {
        case memory_kind::pinned: return "pinned";
        case memory_kind::managed: return "managed";
        default: return "device";
    }
}

CUOTA_INLINE pool_info const* timeline_data::pool_of(event_source const& s) const {
    return s.pool && *s.pool < all_.final_snapshot.pools.size() ? &all_.final_snapshot.pools[*s.pool]
                                                                : nullptr;
}

CUOTA_INLINE std::string timeline_data::source(event_source const& s) const {
    pool_info const* const pool = pool_of(s);
    auto const is_paged = [](segment_info const& segment) { return segment.is_paged; };
    return json_object{}
        .add("kind", name_of(s.kind))
        .add("name", s.name)
        .add_json("device", number(s.device))
        .add("memory", name_of(s.memory))
        .add("limit", s.limit)
        .add_json("budget", number(s.budget))
        .add_json("parent", number(s.parent))
        .add("gone", s.kind == source_kind::pool && pool == nullptr)
        .add("paged", pool != nullptr && std::ranges::any_of(pool->segments, is_paged))
        .text();
}

CUOTA_INLINE std::string timeline_data::sources() const {
    return json_list(all_.sources, [&](event_source const& s) { return source(s); });
}

CUOTA_INLINE std::string timeline_data::site(event_site const& s) {
    return json_object{}
        .add("tag", tags_.number_of(s.name.text()))
        .add("file", s.where.file)
        .add("line", std::size_t{s.where.line})
        .text();
}

// An empty recording's page has the empty site.
CUOTA_INLINE std::string timeline_data::sites() {
    if (all_.sites.empty()) return '[' + site({}) + ']';
    return json_list(all_.sites, [&](event_site const& s) { return site(s); });
}

CUOTA_INLINE std::string timeline_data::region(timeline_region const& r) {
    static constexpr char const* digits = "0123456789abcdef";
    std::string address;
    for (std::uint64_t left = r.first; left != 0 || address.empty(); left >>= 4)
        address.insert(address.begin(), digits[left & 15]);
    return json_object{}
        .add("source", std::size_t{r.source})
        .add("address", "0x" + address)
        .add_json("bytes", std::to_string(r.last - r.first))
        .text();
}

CUOTA_INLINE std::string timeline_data::blocks() {
    auto const stream = [&](block_lifetime const& b) {
        if (b.stream == memory_event::no_stream) return std::string{"-1"};
        return std::to_string(streams_.number_of(std::to_string(b.stream)));
    };
    auto const size = [](block_lifetime const& b) { return std::to_string(std::max(b.bytes, b.size)); };
    auto const completed = [](block_lifetime const& b) { return number(b.completed); };
    return where_and_when(lives_.blocks)
        .add_json("size", column(lives_.blocks, size))
        .add_json("site",
                  column(lives_.blocks, [](block_lifetime const& b) { return std::to_string(b.site); }))
        .add_json("stream", column(lives_.blocks, stream))
        .add_json("completed", column(lives_.blocks, completed))
        .text();
}

CUOTA_INLINE char const* timeline_data::mark_of(event_kind kind) {
    switch (kind) {
        case event_kind::refused: return "refused";
        case event_kind::reclaimed: return "reclaimed";
        case event_kind::step_begun: return "step_begun";
        case event_kind::step_ended: return "step_ended";
        case event_kind::marker: return "marker";
        default: return nullptr;
    }
}

CUOTA_INLINE std::string timeline_data::mark(memory_event const& e) {
    return json_object{}
        .add("kind", mark_of(e.kind))
        .add("source", std::size_t{e.source})
        .add("site", std::size_t{e.site})
        .add_json("at", std::to_string(e.at))
        .add("bytes", e.bytes)
        .add_json("held", std::to_string(e.size))
        .text();
}

CUOTA_INLINE std::string timeline_data::marks() const {
    std::vector<memory_event> found;
    std::ranges::copy_if(all_.events, std::back_inserter(found),
                         [](memory_event const& e) { return mark_of(e.kind) != nullptr; });
    return json_list(found, mark);
}

}  // namespace cuota::inline v0::detail

#endif
