// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes, for the test in a browser, a timeline and its events: of a training with EVENTS events (0: an empty recording), of a recording
/// with hostile names, or of a crowded one.
///     make_timeline EVENTS|hostile|crowded page.html events.json

#include <cuota/report/export/timeline.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "report/timeline_samples.hpp"

namespace {

[[nodiscard]] std::string site_json(cuota::event_site const& s) {
    using cuota::detail::json_string;
    return "\n[" + json_string(s.name.text()) + ',' + json_string(s.where.file) + ',' +
           std::to_string(s.where.line) + ']';
}
[[nodiscard]] std::string event_json(cuota::memory_event const& e) {
    std::string text = "\n[" + std::to_string(static_cast<int>(e.kind));
    for (std::uint64_t const n : {std::uint64_t{e.source}, std::uint64_t{e.site}, e.at, e.address,
                                  std::uint64_t{e.bytes}, std::uint64_t{e.size}})
        text += ',' + std::to_string(n);
    return text + ']';
}
// The content of the pool at the end: address, size and tag of each live block, and "segment" for each segment.
[[nodiscard]] std::string held_json(cuota::recording const& r) {
    std::string text;
    auto const add = [&](std::uint64_t address, std::size_t size, char const* what) {
        text += (text.empty() ? "\n[" : ",\n[") + std::to_string(address) + ',' + std::to_string(size) +
                ",\"" + what + "\"]";
    };
    for (cuota::pool_info const& p : r.final_snapshot.pools)
        for (cuota::segment_info const& s : p.segments) {
            add(s.address, s.size, "segment");
            for (cuota::block_info const& b : s.blocks)
                if (b.use == cuota::block_use::live) add(b.address, b.size, b.name.text());
        }
    return text;
}
[[nodiscard]] std::string json(cuota::recording const& r) {
    return "{\"sites\":" + cuota::detail::json_list(r.sites, site_json) +
           ",\n\"events\":" + cuota::detail::json_list(r.events, event_json) + ",\n\"held\":[" +
           held_json(r) + "]}\n";
}

[[nodiscard]] cuota::recording sample(std::string const& which) {
    if (which == "hostile") return timeline_samples::hostile();
    if (which == "crowded") return timeline_samples::crowded();
    std::size_t const events = std::strtoull(which.c_str(), nullptr, 10);
    if (events == 0) return {};
    return timeline_samples::training{events, events < 1000 ? 8U : 24U}.result();
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 4) throw std::runtime_error{"usage: make_timeline EVENTS page.html events.json"};
    cuota::recording const r = sample(arguments[1]);
    cuota::write_timeline_file(arguments[2], r, {.title = "Training on synthetic digits"});
    std::ofstream{arguments[3]} << json(r);
} catch (std::exception const& e) {
    std::fprintf(stderr, "make_timeline: %s\n", e.what());
    return 1;
}
