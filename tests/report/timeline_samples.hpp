// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Handmade recordings for the tests of timelines, such as that of a training of any length.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/report/recording/recording.hpp>

namespace timeline_samples {

using namespace cuota::literals;
using cuota::event_kind;
using cuota::event_source;
using cuota::memory_event;
using cuota::recording;
using cuota::source_kind;

/// A first-fit pool that appends its events to a recording.
class pool {
public:
    pool(recording& r, std::uint16_t source, std::uint64_t base, std::size_t segment)
        : out_{r}, source_{source}, next_{base}, segment_{segment} {}

    std::uint64_t take(std::uint64_t at, std::uint32_t site, std::size_t bytes, bool is_heard = true) {
        std::size_t const size = (bytes + 511) / 512 * 512;
        std::uint64_t const address = place(at, size, is_heard);
        taken_[address] = {site, bytes, size};
        if (is_heard) add({event_kind::allocated, source_, site, at, address, bytes, size, 7});
        return address;
    }
    void give(std::uint64_t at, std::uint64_t address, std::uint64_t until_completed = 0) {
        auto const gone = taken_.extract(address).mapped();
        add({event_kind::free_requested, source_, gone.site, at, address, gone.bytes, gone.size, 7});
        if (until_completed != 0)
            add({event_kind::free_completed, source_, gone.site, at + until_completed, address, gone.bytes,
                 gone.size, 7});
    }
    /// Returns its present state, as in a snapshot.
    [[nodiscard]] cuota::pool_info facts(std::string name) const {
        cuota::pool_info result;
        result.name = std::move(name);
        for (auto const& [address, size] : segments_) {
            cuota::segment_info segment{address, size, false, {}};
            std::uint64_t known = address;
            for (auto at = taken_.lower_bound(address); at != taken_.end() && at->first < address + size;
                 ++at) {
                if (known < at->first) segment.blocks.push_back({known, at->first - known});
                segment.blocks.push_back({at->first, at->second.size, at->second.bytes,
                                          cuota::block_use::live, out_.sites[at->second.site].name,
                                          out_.sites[at->second.site].where, cuota::lifetime_hint::scratch, 0,
                                          7});
                known = at->first + at->second.size;
            }
            if (known < address + size) segment.blocks.push_back({known, address + size - known});
            result.segments.push_back(std::move(segment));
        }
        return result;
    }

private:
    struct block {
        std::uint32_t site;
        std::size_t bytes;
        std::size_t size;
    };
    void add(memory_event const& e) { out_.events.push_back(e); }
    [[nodiscard]] std::uint64_t place(std::uint64_t at, std::size_t size, bool is_heard) {
        for (auto const& [first, bytes] : segments_) {
            std::uint64_t known = first;
            for (auto b = taken_.lower_bound(first); b != taken_.end() && b->first < first + bytes; ++b) {
                if (b->first - known >= size) return known;
                known = b->first + b->second.size;
            }
            if (first + bytes - known >= size) return known;
        }
        std::size_t const bytes = std::max(segment_, (size + 2_MiB - 1) / 2_MiB * 2_MiB);
        std::uint64_t const address = next_;
        next_ += bytes + 64_MiB;
        segments_[address] = bytes;
        if (is_heard) add({event_kind::segment_allocated, source_, 0, at, address, bytes, bytes});
        return address;
    }
    recording& out_;
    std::uint16_t source_;
    std::uint64_t next_;
    std::size_t segment_;
    std::map<std::uint64_t, block> taken_;
    std::map<std::uint64_t, std::size_t> segments_;
};

/// Steps of a training with `layers` layers, until the recording has `events` events. Weights and Adam's moments are allocated before the
/// first step; in each step activations grow and shrink, a workspace is allocated and freed, and batches are staged.
class training {
public:
    explicit training(std::size_t events, std::size_t layers = 24) : layers_{layers} {
        name_everything();
        before();
        for (std::uint64_t step = 0; step < 2 || out_.events.size() < events; ++step) run_step(step);
        finish();
    }
    [[nodiscard]] recording const& result() const noexcept { return out_; }

private:
    enum : std::uint32_t {
        nobody,
        weights,
        adam,
        acts,
        attention,
        work,
        grads,
        staged,
        logits,
        resume,
        said
    };

    void name_everything() {
        out_.start_time = std::chrono::system_clock::time_point{std::chrono::seconds{1'790'000'000}};
        out_.sites = {{},
                      {"weights", {"/home/me/net/model.cpp", 41}},
                      {"adam", {"/home/me/net/optimizer.cpp", 88}},
                      {"activations", {"/home/me/net/layer.cpp", 120}},
                      {"attention", {"/home/me/net/attention.cpp", 64}},
                      {"workspace", {"/home/me/net/gemm.cpp", 17}},
                      {"gradients", {"/home/me/net/layer.cpp", 166}},
                      {"staging", {"/home/me/net/loader.cpp", 52}},
                      {"logits", {"/home/me/net/head.cpp", 33}},
                      {"activations", {"/home/me/net/checkpoint.cpp", 75}},
                      {"warm-up over", {"/home/me/net/train.cpp", 210}}};
        out_.sources = {
            {.kind = source_kind::program},
            {.kind = source_kind::budget, .name = "GPU 0", .device = 0, .limit = 80_GiB},
            {.kind = source_kind::budget, .name = "training", .device = 0, .limit = 10_GiB, .parent = 1},
            {.kind = source_kind::pool, .name = "main", .device = 0, .budget = 2, .pool = 0},
            {.kind = source_kind::resource, .name = "staging", .memory = cuota::memory_kind::pinned}};
    }
    void before() {
        for (std::size_t i = 0; i != layers_; ++i) main_.take(0, weights, 48_MiB + i % 3 * 4_MiB, false);
        for (std::size_t i = 0; i != layers_; ++i) main_.take(0, adam, 96_MiB + i % 3 * 8_MiB, false);
    }
    [[nodiscard]] std::uint64_t tick() { return now_ += 180'000 + random_() % 240'000; }
    void add(event_kind kind, std::uint16_t source, std::uint32_t site, std::size_t bytes = 0,
             std::size_t held = 0) {
        out_.events.push_back({kind, source, site, tick(), 0, bytes, held});
    }
    void run_step(std::uint64_t step) {
        add(event_kind::step_begun, 3, 0);
        stage(step);
        std::vector<std::uint64_t> kept;
        for (std::size_t i = 0; i != layers_; ++i) forward(kept, step);
        std::uint64_t const top = main_.take(tick(), logits, 480_MiB);
        if (step == 1) refuse();
        std::uint64_t gradient = main_.take(tick(), grads, 200_MiB);
        main_.give(tick(), top, 400'000);
        while (!kept.empty()) gradient = backward(kept, gradient);
        main_.give(tick(), gradient, 300'000);
        add(event_kind::step_ended, 3, 0);
        if (step == 0) add(event_kind::marker, 0, said);
        now_ += 4'000'000;
    }
    void stage(std::uint64_t step) {
        std::uint64_t const slot = 0x7f20'0000'0000 + step % 2 * 64_MiB;
        if (step >= 2)
            out_.events.push_back({event_kind::free_requested, 4, staged, tick(), slot, 48_MiB, 48_MiB});
        out_.events.push_back({event_kind::allocated, 4, staged, tick(), slot, 48_MiB, 48_MiB});
    }
    void forward(std::vector<std::uint64_t>& kept, std::uint64_t step) {
        std::size_t const varied = step % 4 * 3_MiB + random_() % 1_MiB;
        std::uint64_t const scratch = main_.take(tick(), work, 256_MiB);
        kept.push_back(main_.take(tick(), attention, 28_MiB + varied));
        kept.push_back(main_.take(tick(), kept.size() % 6 == 1 ? resume : acts, 64_MiB + varied));
        main_.give(tick(), scratch, 250'000);
    }
    std::uint64_t backward(std::vector<std::uint64_t>& kept, std::uint64_t gradient) {
        std::uint64_t const scratch = main_.take(tick(), work, 320_MiB);
        std::uint64_t const next = main_.take(tick(), grads, 120_MiB + random_() % 80_MiB);
        main_.give(tick(), gradient);
        for (int i = 0; i != 2; ++i) {
            main_.give(tick(), kept.back(), 500'000);
            kept.pop_back();
        }
        main_.give(tick(), scratch, 250'000);
        return next;
    }
    void refuse() {
        add(event_kind::refused, 2, logits, 3_GiB, 9_GiB + 204_MiB);
        add(event_kind::reclaimed, 2, 0, 64_MiB);
    }
    void finish() {
        std::ranges::stable_sort(out_.events, {}, &memory_event::at);
        out_.final_snapshot.pools.push_back(main_.facts("main"));
    }

    recording out_;
    std::size_t layers_;
    std::mt19937 random_{4};
    std::uint64_t now_ = 1'000'000;
    pool main_{out_, 3, 0x7f40'0000'0000, 1_GiB};
};

/// A recording of a few microseconds in which everything with a label coincides: forty tags with long names, two pools (one of pages), and
/// limits, notes and refusals close to each other.
[[nodiscard]] inline recording crowded() {
    recording r;
    r.dropped = 1234;
    r.sites = {{}};
    for (unsigned i = 0; i != 40; ++i)
        r.sites.push_back(
            {cuota::tag::named("a tag with quite a long name, that of layer " + std::to_string(i)),
             {"/a/long/path/to/some_source_file_with_a_long_name.cpp", 100 + i}});
    r.sources = {{.kind = source_kind::program},
                 {.kind = source_kind::budget, .name = "a device with a rather long name", .limit = 12_MiB},
                 {.kind = source_kind::budget, .name = "service", .limit = 11_MiB + 512_KiB, .parent = 1},
                 {.kind = source_kind::budget, .name = "tenant", .limit = 11_MiB + 256_KiB, .parent = 2},
                 {.kind = source_kind::pool, .name = "pages", .device = 0, .budget = 3, .pool = 0},
                 {.kind = source_kind::pool, .name = "segments", .device = 0, .budget = 2}};
    for (std::uint64_t i = 0; i != 4; ++i)
        r.events.push_back(
            {event_kind::segment_allocated, 4, 0, 50 * i, 0x10'0000 + i * 2_MiB, 2_MiB, 2_MiB});
    r.events.push_back({event_kind::segment_allocated, 5, 0, 210, 0x9000'0000, 2_MiB, 2_MiB});
    for (std::uint32_t i = 0; i != 40; ++i) {
        std::uint16_t const source = i % 5 == 0 ? 5 : 4;
        std::uint64_t const base = source == 5 ? 0x9000'0000 : 0x10'0000;
        r.events.push_back({event_kind::allocated, source, 1 + i, 220 + 20 * i,
                            base + i * 200_KiB / (source == 5 ? 4 : 1), 150_KiB + i * 1_KiB,
                            150_KiB + i * 1_KiB, i % 3});
    }
    // Two events at one instant: the bytes change their owner and must not be counted twice.
    r.events.push_back({event_kind::free_requested, 5, 1, 1050, 0x9000'0000, 150_KiB, 150_KiB});
    r.events.push_back({event_kind::allocated, 5, 1, 1050, 0x9000'0000, 150_KiB, 150_KiB});
    for (std::uint32_t i = 0; i != 40; ++i) {
        r.events.push_back({event_kind::marker, 0, 1 + i, 1100 + 7 * i});
        r.events.push_back({event_kind::refused, 3, 1 + i, 1103 + 7 * i, 0, 5_MiB, 11_MiB});
        r.events.push_back({event_kind::reclaimed, 2, 0, 1104 + 7 * i, 0, 1_MiB});
    }
    for (std::uint64_t i = 0; i != 30; ++i)
        r.events.push_back(
            {i % 2 == 0 ? event_kind::step_begun : event_kind::step_ended, 4, 0, 1400 + 40 * i});
    r.final_snapshot.pools.push_back({});
    r.final_snapshot.pools[0].segments.push_back({0x10'0000, 8_MiB, true, {}});
    r.final_snapshot.pools[0].stats.live_blocks = 32;  // the blocks themselves are not in the snapshot
    return r;
}

/// A recording with names that try to break out of the page that displays them.
[[nodiscard]] inline recording hostile() {
    recording r;
    r.sites = {{},
               {"</script><script>window.broken=1</script>",
                {"</title><img src=x onerror='window.broken=2'>.cpp", 1}},
               {"<!--<script>", {"a\"b'c`d${window.broken=3}\\", 2}},
               {"line\xE2\x80\xA8"
                "ends\xE2\x80\xA9"
                "here",
                {"", 3}},
               {"bell\a null? \x1B[31m \x7F\r\n\t", {"tab\t.cpp", 4}},
               {"not utf-8 \xFF\xC0\xAF\xED\xA0\x80", {"\xFE.cpp", 5}},
               {"__proto__", {"constructor", 6}},
               {"&lt;b&gt; & \xE2\x80\xAEtfel", {"x.cpp", 7}}};
    r.sources = {{.kind = source_kind::program},
                 {.kind = source_kind::pool,
                  .name = "</option><script>window.broken=4</script>",
                  .budget = 2,
                  .pool = {}},
                 {.kind = source_kind::budget, .name = "<b>budget</b>", .limit = 2_MiB}};
    for (std::uint32_t site = 0; site != r.sites.size(); ++site)
        r.events.push_back(
            {event_kind::allocated, 1, site, 1000 * (site + 1), 4096 * (site + 1), 4000, 4096});
    for (std::uint32_t site = 1; site != r.sites.size(); ++site) {
        r.events.push_back({event_kind::marker, 0, site, 20'000 + 1000 * site});
        r.events.push_back({event_kind::refused, 2, site, 40'000 + 1000 * site, 0, 4_MiB, 1_MiB});
    }
    return r;
}

}  // namespace timeline_samples
