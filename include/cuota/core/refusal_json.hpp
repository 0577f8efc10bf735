// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as one line of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/suggestions.hpp>

namespace cuota::inline v0 {

namespace detail {

// Uses whole paths, because readers of logs may not have the file.
[[nodiscard]] std::string json_location(source_location where);

[[nodiscard]] std::string json_holder(allocation_group const& h);

[[nodiscard]] std::string json_budget(budget_info const& b);

[[nodiscard]] std::string json_device(device_info const& d);

[[nodiscard]] std::string json_reclaimer(reclaimer_info const& r);

[[nodiscard]] std::string json_limit(raised_limit const& l);

[[nodiscard]] std::string json_suggestion(suggestion const& s, std::size_t most);

// Adds the number and the bytes of the holders after the first `most`.
void add_rest(json_object& to, std::vector<allocation_group> const& holders, std::size_t most);

}  // namespace detail

/// Returns the refusal and its suggestions as one line of JSON, without a newline. Keys are the fields' names; sizes are integers in bytes,
/// null for `unlimited`. Invalid UTF-8 becomes U+FFFD.
///
/// `max_holders` bounds the lists of holders; "other_holders" and "other_bytes" have the number and the bytes of the rest.
/// Throws: std::bad_alloc. Cost: microseconds. Example: tests/core/refusal_json.cpp
[[nodiscard]] std::string refusal_json(refusal const& r, std::size_t max_holders = 32);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string json_location(source_location where) {
    if (where.line == 0) return "null";
    return json_object{}.add("file", where.file).add("line", std::size_t{where.line}).text();
}

CUOTA_INLINE std::string json_holder(allocation_group const& h) {
    return json_object{}
        .add("tag", h.name.text())
        .add_json("location", json_location(h.where))
        .add("bytes", h.bytes)
        .add("cached", h.is_cached)
        .text();
}

CUOTA_INLINE std::string json_budget(budget_info const& b) {
    std::size_t const free = b.limit == unlimited ? unlimited : b.free();
    return json_object{}
        .add("name", b.name)
        .add("limit", b.limit)
        .add("held", b.held)
        .add("free", free)
        .add("peak", b.peak)
        .add("reservation", b.is_reservation)
        .add("released", b.is_released)
        .text();
}

CUOTA_INLINE std::string json_device(device_info const& d) {
    return json_object{}
        .add_json("ordinal", std::to_string(d.ordinal))
        .add("name", d.name)
        .add("total", d.total)
        .add("free", d.free)
        .add("own", d.own)
        .add("external", d.external())
        .add("baseline", d.baseline)
        .add("pooled", d.pooled)
        .add("soft_limit", d.soft_limit)
        .add("soft_limit_used", d.soft_limit_used)
        .text();
}

CUOTA_INLINE std::string json_reclaimer(reclaimer_info const& r) {
    return json_object{}
        .add("name", r.name)
        .add("requested", r.requested)
        .add("released", r.released)
        .add("reclaimable", r.reclaimable)
        .text();
}

CUOTA_INLINE std::string json_limit(raised_limit const& l) {
    return json_object{}
        .add("budget", l.budget)
        .add("level", l.level)
        .add("limit", l.limit)
        .add("grow_by", l.grow_by)
        .text();
}

CUOTA_INLINE std::string json_suggestion(suggestion const& s, std::size_t most) {
    return json_object{}
        .add("kind", name_of(s.kind))
        .add("suffices", s.suffices)
        .add("text", s.text)
        .add("bytes", s.bytes)
        .add("count", s.count)
        .add_json("holders", json_list(s.holders, json_holder, most))
        .add_json("limits", json_list(s.limits, json_limit))
        .text();
}

CUOTA_INLINE void add_rest(json_object& to, std::vector<allocation_group> const& holders, std::size_t most) {
    std::size_t bytes = 0;
    for (std::size_t i = most; i < holders.size(); ++i) bytes = saturating_add(bytes, holders[i].bytes);
    to.add("other_holders", holders.size() > most ? holders.size() - most : 0).add("other_bytes", bytes);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string refusal_json(refusal const& r, std::size_t max_holders) {
    using namespace detail;
    json_object line;
    line.add("requested", r.requested).add("charged", r.charged).add("granularity", r.granularity);
    line.add("tag", r.request.name.text()).add_json("location", json_location(r.request.where));
    line.add("unit", r.request.unit).add("unit_bytes", r.request.unit_bytes);
    line.add("shortfall", r.shortfall()).add("max_fit", r.max_fit).add("max_fit_count", r.max_fit_count());
    line.add("growth_available", r.growth_available);
    line.add_json("new_limit", r.new_limit ? std::to_string(*r.new_limit) : "null");
    line.add_json("refused_by", r.shortfall() == 0 ? "null" : std::to_string(r.refused_by));
    line.add_json("budgets", json_list(r.budgets, json_budget));
    line.add_json("device", r.device ? json_device(*r.device) : "null");
    line.add_json("holders", json_list(r.holders, json_holder, max_holders));
    add_rest(line, r.holders, max_holders);
    line.add("reclaimed", r.reclaimed).add("reclaimable", r.reclaimable);
    line.add_json("reclaimers", r.reclaimers ? json_list(*r.reclaimers, json_reclaimer) : "null");
    line.add("largest_free", r.largest_free).add("cause", r.cause);
    line.add_json("suggestions", json_list(suggestions(r), [&](suggestion const& s) {
                      return json_suggestion(s, max_holders);
                  }));
    return line.text();
}

}  // namespace cuota::inline v0

#endif
