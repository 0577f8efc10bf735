// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes the timeline of a training of so many events, or of nothing, and its events beside it: for the browser's test.
///     make_timeline EVENTS page.html events.json

#include <cuota/report/timeline.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "report/timeline_samples.hpp"

namespace {

[[nodiscard]] std::string site_json(cuota::event_site const& s) {
    return "\n[\"" + std::string{s.name.text()} + "\",\"" + s.where.file + "\"," + std::to_string(s.where.line) + ']';
}
[[nodiscard]] std::string event_json(cuota::memory_event const& e) {
    std::string text = "\n[" + std::to_string(static_cast<int>(e.kind));
    for (std::uint64_t const n : {std::uint64_t{e.source}, std::uint64_t{e.site}, e.at, e.address,
                                  std::uint64_t{e.bytes}, std::uint64_t{e.size}})
        text += ',' + std::to_string(n);
    return text + ']';
}
// What the pool has at the end: address, size and tag of each live block.
[[nodiscard]] std::string held_json(cuota::recording const& r) {
    std::string text;
    for (cuota::pool_facts const& p : r.at_end.pools)
        for (cuota::segment_facts const& s : p.segments)
            for (cuota::block_facts const& b : s.blocks)
                if (b.use == cuota::block_use::live)
                    text += (text.empty() ? "\n[" : ",\n[") + std::to_string(b.address) + ',' + std::to_string(b.size) +
                            ",\"" + b.name.text() + "\"]";
    return text;
}
[[nodiscard]] std::string json(cuota::recording const& r) {
    return "{\"sites\":" + cuota::detail::json_list(r.sites, site_json) +
           ",\n\"events\":" + cuota::detail::json_list(r.events, event_json) + ",\n\"held\":[" + held_json(r) + "]}\n";
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 4) throw std::runtime_error{"usage: make_timeline EVENTS page.html events.json"};
    std::size_t const events = std::strtoull(arguments[1], nullptr, 10);
    cuota::recording const r =
        events == 0 ? cuota::recording{} : timeline_samples::training{events, events < 1000 ? 8U : 24U}.result();
    cuota::write_timeline_file(arguments[2], r, {.title = "Training on synthetic digits"});
    std::ofstream{arguments[3]} << json(r);
} catch (std::exception const& e) {
    std::fprintf(stderr, "make_timeline: %s\n", e.what());
    return 1;
}
