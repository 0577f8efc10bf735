// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Formats a snapshot as one line of JSON.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/report/detail/export/budget_order.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>
#include <cuota/report/snapshot/tag_totals.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Options of summary_json.
struct summary_json_options {
    bool blocks = false;  ///< segments and blocks of pools, if the snapshot has them
};

namespace detail::screen {

[[nodiscard]] constexpr char const* name_of(block_use use) noexcept {
    switch (use) {
        case block_use::live: return "live";
        case block_use::pending: return "pending";
        case block_use::free: return "free";
        case block_use::releasing: return "releasing";
    }
    return "?";
}
[[nodiscard]] constexpr char const* name_of(lifetime_hint lifetime) noexcept {
    switch (lifetime) {
        case lifetime_hint::scratch: return "scratch";
        case lifetime_hint::step: return "step";
        case lifetime_hint::persistent: return "persistent";
    }
    return "?";
}
[[nodiscard]] constexpr char const* name_of(memory_kind kind) noexcept {
    switch (kind) {
        case memory_kind::device: return "device";
        case memory_kind::pinned: return "pinned";
        case memory_kind::managed: return "managed";
    }
    return "?";
}

template <class Number>
[[nodiscard]] std::string json_number(std::optional<Number> n) {
    return n ? std::to_string(*n) : "null";
}

[[nodiscard]] std::string json_budget(budget_entry const& e, std::size_t available);

[[nodiscard]] std::string json_stats(pool_stats const& s);

[[nodiscard]] std::string json_tag(tag_info const& t);

[[nodiscard]] std::string json_total(tag_total const& t);

[[nodiscard]] std::string json_block(block_info const& b);

[[nodiscard]] std::string json_segment(segment_info const& s);

[[nodiscard]] std::string json_pool(pool_info const& p, summary_json_options const& how);

[[nodiscard]] std::string json_holders(holder_info const& h);

[[nodiscard]] std::string json_of(memory_snapshot const& all, summary_json_options const& how);

}  // namespace detail::screen

/// Formats the snapshot as one line of JSON, without a newline. Sizes are integers in bytes; `unlimited` and unknown values are null.
/// "budget" and "parent" are indices in "budgets". "tags" are sums over the pools, as by tag_totals. "available" is as in `summary`.
/// "taken_ms" counts from 1970. Invalid UTF-8 becomes U+FFFD.
/// Throws: std::bad_alloc. Cost: about 200 bytes per block. Threads: any.
/// Example: std::puts(cuota::summary_json(cuota::snapshot_of(budget)).c_str());
[[nodiscard]] std::string summary_json(memory_snapshot const& all, summary_json_options how = {});

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::screen {

CUOTA_INLINE std::string json_budget(budget_entry const& e, std::size_t available) {
    return json_object{}
        .add("name", e.facts.name)
        .add("depth", e.depth)
        .add_json("parent", json_number(e.parent))
        .add("limit", e.facts.limit)
        .add("held", e.facts.held)
        .add("peak", e.facts.peak)
        .add("available", available)
        .add("reservation", e.facts.is_reservation)
        .add("released", e.facts.is_released)
        .text();
}

CUOTA_INLINE std::string json_stats(pool_stats const& s) {
    return json_object{}
        .add("requested", s.requested)
        .add("allocated", s.allocated)
        .add("active", s.active)
        .add("reserved", s.reserved)
        .add("peak_requested", s.peak_requested)
        .add("peak_allocated", s.peak_allocated)
        .add("peak_active", s.peak_active)
        .add("peak_reserved", s.peak_reserved)
        .add("live_blocks", s.live_blocks)
        .add("free_blocks", s.free_blocks)
        .add("largest_free", s.largest_free)
        .add("segments", s.segments)
        .add("thread_cache_hits", s.thread_cache_hits)
        .add("stream_waits", s.stream_waits)
        .text();
}

CUOTA_INLINE std::string json_tag(tag_info const& t) {
    return json_object{}
        .add("tag", t.name.text())
        .add("live_blocks", t.live_blocks)
        .add("requested", t.requested)
        .add("allocated", t.allocated)
        .add("oldest", t.oldest)
        .add_json("peak", json_number(t.peak))
        .text();
}

CUOTA_INLINE std::string json_total(tag_total const& t) {
    return json_object{}
        .add("tag", t.name.text())
        .add("pools", t.pools)
        .add("live_blocks", t.live_blocks)
        .add("requested", t.requested)
        .add("allocated", t.allocated)
        .add("oldest", t.oldest)
        .add_json("peak", t.peak ? json_size(*t.peak) : "null")
        .add("peak_is_exact", t.peak && t.is_peak_exact())
        .text();
}

CUOTA_INLINE std::string json_block(block_info const& b) {
    json_object block;
    block.add("address", b.address).add("size", b.size).add("use", name_of(b.use));
    if (b.use != block_use::live) return block.text();
    return block.add("requested", b.requested)
        .add("tag", b.name.text())
        .add_json("location", json_location(b.where))
        .add("lifetime", name_of(b.lifetime))
        .add("age", b.age)
        .add_json("stream", json_number(b.stream))
        .text();
}

CUOTA_INLINE std::string json_segment(segment_info const& s) {
    return json_object{}
        .add("address", s.address)
        .add("size", s.size)
        .add("paged", s.is_paged)
        .add_json("blocks", json_list(s.blocks, json_block))
        .text();
}

CUOTA_INLINE std::string json_pool(pool_info const& p, summary_json_options const& how) {
    json_object pool;
    pool.add("name", p.name).add_json("device", json_number(p.device)).add("memory", name_of(p.memory));
    pool.add("budget", p.budget).add_json("stats", json_stats(p.stats));
    pool.add_json("tags", json_list(p.tags, json_tag));
    if (how.blocks) pool.add_json("segments", json_list(p.segments, json_segment));
    return pool.text();
}

CUOTA_INLINE std::string json_holders(holder_info const& h) {
    return json_object{}
        .add("name", h.name)
        .add("budget", h.budget)
        .add_json("allocation_groups", json_list(h.allocation_groups, json_holder))
        .text();
}

CUOTA_INLINE std::string json_of(memory_snapshot const& all, summary_json_options const& how) {
    auto const taken =
        std::chrono::duration_cast<std::chrono::milliseconds>(all.taken.time_since_epoch()).count();
    std::vector<std::size_t> const available = available_of(all);
    std::size_t next = 0;
    return json_object{}
        .add_json("taken_ms", std::to_string(taken))
        .add_json(
            "budgets",
            json_list(all.budgets, [&](budget_entry const& e) { return json_budget(e, available[next++]); }))
        .add_json("pools", json_list(all.pools, [&](pool_info const& p) { return json_pool(p, how); }))
        .add_json("tags", json_list(tag_totals(all), json_total))
        .add_json("holders", json_list(all.holders, json_holders))
        .add_json("devices", json_list(all.devices, json_device))
        .text();
}

}  // namespace cuota::inline v0::detail::screen

namespace cuota::inline v0 {

CUOTA_INLINE std::string summary_json(memory_snapshot const& all, summary_json_options how) {
    return detail::screen::json_of(all, how);
}

}  // namespace cuota::inline v0

#endif
