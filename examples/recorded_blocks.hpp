// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a recording, for replays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <cuota/pool/planning/lifetimes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace trace {

struct recorded_block {
    /// Its times are numbers of events, from 1, because many events have the same microsecond. 0: before the recording.
    cuota::lifetime life;
    std::uint16_t source;  ///< index in recording::sources
    cuota::event_site by;  ///< empty: unknown
};

/// Returns all blocks. Those that are live at the end live until events.size() + 1.
[[nodiscard]] inline std::vector<recorded_block> recorded_blocks(cuota::recording const& r) {
    std::uint64_t const end = r.events.size() + 1;
    std::vector<recorded_block> found;
    std::map<std::pair<std::uint16_t, std::uint64_t>, std::size_t> open;  // by source and address
    for (std::size_t i = 0; i != r.events.size(); ++i) {
        cuota::memory_event const& e = r.events[i];
        std::pair const at{e.source, e.address};
        auto const known = open.find(at);
        if (e.kind == cuota::event_kind::allocated) {
            if (known != open.end()) found[known->second].life.until = i + 1;
            open[at] = found.size();
            found.push_back({{i + 1, end, e.bytes}, e.source, r.sites.at(e.site)});
        } else if (e.kind == cuota::event_kind::free_requested) {
            if (known == open.end()) {
                found.push_back({{0, i + 1, e.bytes}, e.source, r.sites.at(e.site)});
            } else {
                found[known->second].life.until = i + 1;
                open.erase(known);
            }
        }
    }
    for (std::size_t source = 0; source != r.sources.size(); ++source) {
        if (!r.sources[source].pool) continue;
        auto const number = static_cast<std::uint16_t>(source);
        for (auto const& segment : r.final_snapshot.pools[*r.sources[source].pool].segments)
            for (auto const& block : segment.blocks)
                if (block.use == cuota::block_use::live && !open.contains({number, block.address}))
                    found.push_back({{0, end, block.requested}, number, {block.name, block.where}});
    }
    return found;
}

}  // namespace trace
