// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory of holders that are not pools, in a recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/guard/detail/budget_observer.hpp>
#include <cuota/report/detail/recording/recorder_state.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail {

/// Records each piece of memory as a block of a resource. Holders with the same tag, memory kind and budget are one resource.
///
/// Requires the recorder's lock.
class held_pieces {
public:
    struct piece {
        held_piece what;
        std::uint16_t source;
    };

    /// The recorder's state must live as long.
    explicit held_pieces(recorder_state& to) noexcept : to_{to} {}

    /// Records a piece of a holder that is charged to the budget with this source. Throws: usage_error for too many sources; std::bad_alloc.
    void add(held_piece const& what, std::uint16_t budget);
    /// Records that a piece was freed, if there is one.
    void remove(void const* which) noexcept;

    [[nodiscard]] std::vector<piece> const& all() const noexcept { return all_; }

    /// Adds allocations at the first event's time for pieces with overwritten events, because snapshots do not contain them. Requires no
    /// lock.
    static void add_older(recording& r, std::vector<piece> const& pieces);

private:
    struct resource {
        tag name;
        memory_kind memory;
        std::uint16_t budget;
        std::uint16_t id;
    };
    [[nodiscard]] std::uint16_t source_of(held_piece const& what, std::uint16_t budget);
    [[nodiscard]] static std::uint32_t site_of(recording const& r, piece const& p);
    void put(event_kind kind, piece const& p) noexcept;

    recorder_state& to_;
    std::vector<piece> all_;
    std::vector<resource> resources_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

#include <algorithm>
#include <string_view>
#include <utility>

namespace cuota::inline v0::detail {

CUOTA_INLINE void held_pieces::add(held_piece const& what, std::uint16_t budget) {
    all_.push_back({what, source_of(what, budget)});
    put(event_kind::allocated, all_.back());
}

CUOTA_INLINE void held_pieces::remove(void const* which) noexcept {
    auto const at = std::ranges::find(all_, which, [](piece const& p) { return p.what.which; });
    if (at == all_.end()) return;
    put(event_kind::free_requested, *at);
    put(event_kind::free_completed, *at);
    all_.erase(at);
}

CUOTA_INLINE void held_pieces::add_older(recording& r, std::vector<piece> const& pieces) {
    for (piece const& p : pieces) {
        std::uint64_t const address = reinterpret_cast<std::uintptr_t>(p.what.which);
        auto const is_told = [&](memory_event const& e) {
            return e.address == address && e.source == p.source;
        };
        if (std::ranges::any_of(r.events, is_told)) continue;
        memory_event e;
        e.kind = event_kind::allocated;
        e.source = p.source;
        e.site = site_of(r, p);
        e.at = r.events.empty() ? 0 : r.events.front().at;
        e.address = address;
        e.bytes = e.size = p.what.bytes;
        r.events.insert(r.events.begin(), e);
    }
}

CUOTA_INLINE std::uint16_t held_pieces::source_of(held_piece const& what, std::uint16_t budget) {
    for (resource const& known : resources_)
        if (known.name == what.name && known.memory == what.memory && known.budget == budget) return known.id;
    event_source facts;
    facts.kind = source_kind::resource;
    facts.name = what.name.text();
    facts.device = what.device;
    facts.memory = what.memory;
    facts.budget = budget;
    resources_.reserve(resources_.size() + 1);
    std::uint16_t const id = to_.add_source(std::move(facts));
    resources_.push_back({what.name, what.memory, budget, id});
    return id;
}

CUOTA_INLINE std::uint32_t held_pieces::site_of(recording const& r, piece const& p) {
    for (std::size_t i = 0; i != r.sites.size(); ++i)
        if (r.sites[i].name == p.what.name && r.sites[i].where.line == p.what.where.line &&
            std::string_view{r.sites[i].where.file} == p.what.where.file)
            return static_cast<std::uint32_t>(i);
    return 0;
}

CUOTA_INLINE void held_pieces::put(event_kind kind, piece const& p) noexcept {
    to_.put(kind, p.source, p.what.name, p.what.where, reinterpret_cast<std::uintptr_t>(p.what.which),
            p.what.bytes, p.what.bytes, memory_event::no_stream);
}

}  // namespace cuota::inline v0::detail

#endif
