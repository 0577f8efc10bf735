// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Random recordings, recordings of real pools, and a stream that fails: for tests of file formats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <streambuf>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>

namespace trace_samples {

using namespace cuota::literals;
using cuota::event_kind;

/// A budget (source 1), two pools in it (2 and 3), pinned memory (4); blocks from before the recording, which are known by their
/// deallocations or by the snapshot only; steps; events with equal times, and some whose times decrease slightly.
class random_recording {
public:
    explicit random_recording(std::uint64_t seed, std::size_t events) : random_{seed} {
        r_.sources.resize(5);
        r_.sources[1] = {cuota::source_kind::budget, "b"};
        r_.sources[1].limit = 1_GiB;
        r_.sources[2] = {cuota::source_kind::pool, "pool"};
        r_.sources[3] = {cuota::source_kind::pool, "pool"};
        r_.sources[4] = {cuota::source_kind::resource, "pinned", {}, cuota::memory_kind::pinned};
        r_.sources[2].budget = r_.sources[3].budget = 1;
        r_.sources[2].pool = 0;
        r_.sites = {{}, {"a", {"a.cpp", 1}}, {"b", {}}, {"c", {}}, {"d", {}}, {"a", {"a.cpp", 2}}};
        add_older();
        for (std::size_t i = 0; i != events; ++i) add_event();
    }
    [[nodiscard]] cuota::recording get() && { return std::move(r_); }

private:
    std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }
    void add_older() {
        cuota::segment_info segment{1 << 20, 1 << 20, false, {}};
        for (std::uint64_t i = 0, n = up_to(3); i != n; ++i) {
            cuota::block_info b;
            b.address = segment.address + i * 4096;
            b.size = 4096;
            b.requested = 4000;
            b.use = cuota::block_use::live;
            b.name = r_.sites[1].name;
            b.where = r_.sites[1].where;
            segment.blocks.push_back(b);
        }
        r_.final_snapshot.pools.resize(1);
        r_.final_snapshot.pools[0].segments.push_back(segment);
        for (std::uint64_t i = 0, n = up_to(3); i != n; ++i) live_.push_back(block());
    }
    cuota::memory_event block() {
        std::size_t const bytes = up_to(100'000);
        return {.kind = event_kind::allocated,
                .source = static_cast<std::uint16_t>(2 + up_to(2)),
                .site = static_cast<std::uint32_t>(up_to(5)),
                .at = 0,
                .address = ++next_ << 30,
                .bytes = bytes,
                .size = (bytes + 511) / 512 * 512};
    }
    void add_event() {
        at_ += up_to(2) * up_to(1000);
        std::uint64_t const kind = up_to(20);
        if (kind < 9) live_.push_back(say(block()));
        else if (kind < 16 && !live_.empty()) give_back();
        else if (kind == 16) step(2);
        else if (kind == 17) step(3);
        else if (kind == 18)
            say({.kind = event_kind::segment_allocated,
                 .source = 3,
                 .address = ++next_ << 30,
                 .bytes = 1_MiB});
        else if (kind == 19)
            say({.kind = event_kind::refused, .source = 1, .site = 2, .bytes = 1_GiB, .size = 5});
        else say({.kind = event_kind::marker, .site = 3});
    }
    cuota::memory_event say(cuota::memory_event e) {
        e.at = at_ - std::min(at_, up_to(1) * up_to(3));
        r_.events.push_back(e);
        return e;
    }
    void give_back() {
        std::swap(live_[up_to(live_.size() - 1)], live_.back());
        live_.back().kind = event_kind::free_requested;
        say(live_.back());
        live_.pop_back();
    }
    void step(std::uint16_t source) {
        say({.kind = is_open_[source] ? event_kind::step_ended : event_kind::step_begun, .source = source});
        is_open_[source] = !is_open_[source];
    }

    std::mt19937_64 random_;
    cuota::recording r_;
    std::uint64_t at_ = 0, next_ = 10;
    bool is_open_[4] = {};
    std::vector<cuota::memory_event> live_;
};

/// Records two pools: one block from before, four steps, a block that is live at the end, a refusal, a note.
[[nodiscard]] inline cuota::recording of_real_pools() {
    cuota::budget budget{"root", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool weights{budget, {.name = "weights"}};
    cuota::scoped_pool main{budget, {.name = "main"}};
    auto const take = [&](cuota::scoped_pool& pool, std::size_t bytes, cuota::tag name) {
        return std::pair{pool.allocate(stream, bytes, 256, name), bytes};
    };
    auto const give = [&](cuota::scoped_pool& pool, std::pair<void*, std::size_t> block) {
        pool.deallocate(stream, block.first, block.second);
    };
    auto const before = take(main, 3'000'001, "before");
    cuota::recorder recorder{budget};
    auto const kept = take(weights, 5'000'000, "weights");
    for (std::size_t i = 0; i != 4; ++i) {
        auto const step = main.begin_step();
        auto const activations = take(main, 1'000'003 * (i + 1), "activations");
        auto const gradients = take(main, 700'001, "gradients");
        give(main, activations);
        auto const workspace = take(main, 1'500'000, "workspace");
        give(main, workspace);
        give(main, gradients);
    }
    try {
        (void)main.allocate(stream, 100_MiB, 256, "too much");
    } catch (cuota::out_of_memory const&) { recorder.mark("refused, as it should be"); }
    auto const last = take(main, 12'345, "last");
    cuota::recording r = recorder.read();
    give(main, before);
    give(main, last);
    give(weights, kept);
    return r;
}

/// Accepts `room` bytes and then fails.
class full_stream : public std::streambuf {
public:
    explicit full_stream(std::size_t room) : room_{static_cast<std::streamsize>(room)} {}

private:
    std::streamsize xsputn(char const*, std::streamsize n) override {
        std::streamsize const taken = std::min(n, room_);
        room_ -= taken;
        return taken;
    }
    int overflow(int c) override { return room_-- > 0 ? c : traits_type::eof(); }

    std::streamsize room_;
};

}  // namespace trace_samples
