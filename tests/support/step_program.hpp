// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A program that repeats one step, sometimes with changes, and checks its memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"
#include "support/words.hpp"

namespace support {

/// Live blocks by address; checks that no two overlap.
class live_bytes {
public:
    void add(void const* p, std::size_t bytes) {
        auto const begin = reinterpret_cast<std::uintptr_t>(p);
        auto const above = by_begin_.lower_bound(begin);
        REQUIRE((above == by_begin_.end() || begin + bytes <= above->first));
        REQUIRE((above == by_begin_.begin() || std::prev(above)->second <= begin));
        by_begin_.emplace(begin, begin + bytes);
    }
    void remove(void const* p) { REQUIRE(by_begin_.erase(reinterpret_cast<std::uintptr_t>(p)) == 1); }

private:
    std::map<std::uintptr_t, std::uintptr_t> by_begin_;
};

/// One action of a step: allocates a block of `number` bytes, or frees the block of allocation number `number`.
struct step_action {
    bool takes;
    std::size_t number;  // bytes, or the number of the allocation
    std::size_t stream;
};

/// Makes random blocks, each on one of the streams; the actions are in order of time.
inline std::vector<step_action> random_step(std::mt19937_64& random, std::size_t blocks,
                                            std::size_t streams) {
    struct edge {
        std::uint64_t at;
        bool takes;
        std::size_t block;
    };
    auto const lifetimes = random_lifetimes(random, blocks, 2 * blocks, 20);
    std::vector<edge> edges;
    for (std::size_t i = 0; i != blocks; ++i) {
        edges.push_back({lifetimes[i].from, true, i});
        edges.push_back({lifetimes[i].until, false, i});
    }
    std::stable_sort(edges.begin(), edges.end(), [](edge const& a, edge const& b) {
        return a.at != b.at ? a.at < b.at : a.takes < b.takes;
    });
    std::vector<step_action> actions;
    std::vector<std::size_t> take_of(blocks), stream_of(blocks);
    std::size_t takes = 0;
    for (edge const& e : edges) {
        if (e.takes) {
            take_of[e.block] = takes++;
            stream_of[e.block] = pick(random, 0, streams - 1);
            actions.push_back({true, 1024 * (1 + lifetimes[e.block].size), stream_of[e.block]});
        } else {
            actions.push_back({false, take_of[e.block], stream_of[e.block]});
        }
    }
    return actions;
}

/// Runs actions against a plan. Each block is filled when it is allocated, and a kernel checks it when it is freed: `*wrong` is set if its
/// content has changed.
class step_program {
public:
    step_program(cuota::step_plan& plan, std::vector<cuota::stream> const& streams, word* wrong)
        : memory_{plan.resource()}, streams_{streams}, wrong_{wrong} {}

    void run(std::vector<step_action> const& actions) {
        std::vector<std::size_t> taken;
        for (step_action const& a : actions) {
            if (a.takes) {
                taken.push_back(++last_);
                take(last_, a.number, a.stream);
            } else if (auto const found = live_.find(taken[a.number]); found != live_.end()) {
                give(found, a.stream);
            }
        }
    }
    void give_all_but(std::size_t kept) {
        while (live_.size() > kept) give(live_.begin(), live_.begin()->second.stream);
    }
    [[nodiscard]] std::size_t live() const { return live_.size(); }

    void take(std::size_t name, std::size_t bytes, std::size_t stream) {
        auto const byte = static_cast<unsigned char>(++salt_);
        word const value = byte * 0x0101'0101U;
        void* const p = memory_.allocate(streams_[stream], bytes);
        shadow_.add(p, bytes);
        cuota::rt::fill_bytes(p, byte, bytes, streams_[stream]);  // an access that the race checker sees
        live_[name] = {p, bytes, stream, value};
    }

private:
    struct block {
        void* at;
        std::size_t bytes;
        std::size_t stream;
        word value;
    };
    void give(std::map<std::size_t, block>::iterator which, std::size_t stream) {
        block const b = which->second;
        cuota::for_each_index(streams_[b.stream], b.bytes / sizeof(word),
                              check_word{static_cast<word const*>(b.at), b.value, wrong_}, "check_word");
        if (stream != b.stream) streams_[stream].wait(cuota::event{streams_[b.stream]});
        shadow_.remove(b.at);
        live_.erase(which);
        memory_.deallocate(streams_[stream], b.at, b.bytes);
    }

    cuota::step_resource memory_;
    std::vector<cuota::stream> const& streams_;
    word* wrong_;
    live_bytes shadow_;
    std::map<std::size_t, block> live_;
    std::size_t last_ = 0;
    unsigned salt_ = 0;
};

}  // namespace support
