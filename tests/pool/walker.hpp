// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Operations of one thread of a random walk through a pool, mirrored in the pool's shadow. CUOTA_STRESS=<operations> sets the total
/// number, and CUOTA_SEED=<number> chooses other walks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "pool/shadow.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"

namespace pool_tests {

using namespace cuota::literals;

/// Returns `percent` of CUOTA_STRESS, or `in_the_suite` if that is not set.
inline std::uint64_t share_of(double percent, std::uint64_t in_the_suite) {
    char const* const told = std::getenv("CUOTA_STRESS");
    if (!told) return in_the_suite;
    return static_cast<std::uint64_t>(static_cast<double>(std::strtoull(told, nullptr, 10)) * percent / 100);
}

/// Returns the seed of a walk.
inline std::uint64_t seed_of(std::uint64_t walk) {
    char const* const told = std::getenv("CUOTA_SEED");
    return walk + 1'000'000 * (told ? std::strtoull(told, nullptr, 10) : 0);
}

inline void tell(std::string const& what, std::size_t streams, std::string const& figures) {
    if (std::getenv("CUOTA_STRESS"))
        std::printf("%s, %zu streams: %s\n", what.c_str(), streams, figures.c_str());
}

struct held {
    void* p;
    std::size_t bytes;
    std::size_t stream;  // stream in whose order it may be used
};

/// Streams of a walk. If they are more than two, the first is a native one.
class streams {
public:
    explicit streams(std::size_t count) : owned_(count) {
        if (count > 2) cuota::rt::check(cudaStreamCreate(&foreign_), "cudaStreamCreate");
    }
    streams(streams const&) = delete;
    streams& operator=(streams const&) = delete;
    ~streams() {
        if (foreign_) cudaStreamDestroy(foreign_);
    }
    [[nodiscard]] std::size_t size() const { return owned_.size(); }
    [[nodiscard]] cuota::stream_ref operator[](std::size_t i) const {
        if (i == 0 && foreign_) return foreign_;
        return owned_[i];
    }
    void renew(std::size_t i) { owned_[i] = cuota::stream{}; }

private:
    std::vector<cuota::stream> owned_;
    cudaStream_t foreign_ = nullptr;
};

using sizes = std::size_t (*)(std::mt19937_64&);

/// Mostly a few small sizes that recur, and some of any size.
inline std::size_t small_sizes(std::mt19937_64& random) {
    switch (random() % 8) {
        case 0: return 1 + random() % (std::size_t{256} << random() % 11);
        case 1: return 1 + random() % 16_KiB;
        case 2:
        case 3: return 1 + random() % 4_KiB;
        default: return 256 * (1 + random() % 6) - random() % 2;
    }
}
/// Small sizes, parts of a page, and up to four pages.
inline std::size_t sizes_about_a_page(std::mt19937_64& random) {
    switch (random() % 16) {
        case 0: return 2_MiB * (1 + random() % 4) - (random() % 2) * (random() % 2_MiB);
        case 1: return 2_MiB - random() % 64_KiB;
        case 2:
        case 3: return 1 + random() % 1_MiB;
        case 4:
        case 5: return 1 + random() % 200_KiB;
        default: return small_sizes(random);
    }
}

inline constexpr std::array<cuota::tag, 4> tags{"weights", "activations", "gradients", "states"};
inline constexpr cuota::source_location here{"walk.cpp", 7};  // the same for all, because reports are by tag

[[nodiscard]] inline std::string alive_text(std::string const& tag, std::vector<std::size_t> const& bytes) {
    std::size_t all = 0;
    for (std::size_t const n : bytes) all += n;
    bool const are_equal =
        std::ranges::count(bytes, bytes.front()) == static_cast<std::ptrdiff_t>(bytes.size());
    std::string const count = std::to_string(bytes.size());
    if (bytes.size() == 1) return tag + ' ' + cuota::bytes_text(all) + " (walk.cpp:7";
    if (are_equal) return tag + ' ' + count + " x " + cuota::bytes_text(bytes.front()) + " (walk.cpp:7";
    return tag + ' ' + cuota::bytes_text(all) + " in " + count + " allocations (walk.cpp:7";
}
[[nodiscard]] inline std::string alive_count(std::size_t count) {
    return "while " + std::to_string(count) + (count == 1 ? " allocation is" : " allocations are") +
           " still alive: ";
}

class walker {
public:
    walker(cuota::scoped_pool& pool, shadow& beside, streams& on, std::uint64_t seed, sizes wanted)
        : pool_{pool}, shadow_{beside}, streams_{on}, random_{seed_of(seed)}, sizes_{wanted} {}

    std::mt19937_64& random() { return random_; }
    [[nodiscard]] bool once_in(std::size_t times) { return random_() % times == 0; }
    std::vector<held>& live() { return live_; }
    [[nodiscard]] std::size_t any_stream() { return random_() % streams_.size(); }
    [[nodiscard]] std::size_t any_live() { return random_() % live_.size(); }
    [[nodiscard]] std::size_t any_bytes() { return sizes_(random_); }
    [[nodiscard]] cuota::tag any_tag() { return tags[random_() % tags.size()]; }

    /// Writes the block on its stream, so that the race checker finds accesses that are not ordered with it. In a large block, writes the
    /// ends and one part between them.
    void touch(held const& h) {
        constexpr std::size_t some = 4_KiB;
        if (h.bytes <= 8 * some) return cuota::rt::fill_bytes(h.p, 1, h.bytes, streams_[h.stream]);
        for (std::size_t const at : {std::size_t{0}, random_() % (h.bytes - some), h.bytes - some})
            cuota::rt::fill_bytes(static_cast<std::byte*>(h.p) + at, 1, some, streams_[h.stream]);
    }

    void keep(held const& h, cuota::tag name = {},
              cuota::lifetime_hint lifetime = cuota::lifetime_hint::scratch) {
        shadow_.took(h.p, h.bytes, name, lifetime);
        touch(h);
        live_.push_back(h);
    }
    held drop(std::size_t i) {
        held const h = std::exchange(live_[i], live_.back());
        live_.pop_back();
        return h;
    }
    void move_to(held& h, std::size_t stream) {
        if (h.stream == stream) return;
        streams_[stream].wait(cuota::event{streams_[h.stream]});
        h.stream = stream;
    }

    void allocate(std::size_t stream, std::size_t bytes) {
        cuota::tag const name = any_tag();
        keep({pool_.allocate(streams_[stream], bytes, 256, name, here), bytes, stream}, name);
    }
    void allocate_sync(std::size_t bytes) {
        void* const p = pool_.resource().allocate_sync(bytes);
        keep({p, bytes, any_stream()});
    }
    void give(held const& h) {
        shadow_.gives(h.p, h.bytes);
        pool_.deallocate(streams_[h.stream], h.p, h.bytes);
    }
    void give_any() {
        if (live_.empty()) return;
        held h = drop(any_live());
        if (once_in(4)) move_to(h, any_stream());
        if (once_in(2)) touch(h);
        if (!once_in(32)) return give(h);
        streams_[h.stream].synchronize();
        shadow_.gives(h.p, h.bytes);
        pool_.resource().deallocate_sync(h.p, h.bytes);
    }
    void give_all() {
        while (!live_.empty()) give(drop(live_.size() - 1));
    }
    void give_all_of(std::size_t stream) {
        for (std::size_t i = live_.size(); i-- != 0;)
            if (live_[i].stream == stream) give(drop(i));
    }
    /// Repeats an allocation and its deallocation, like a program's inner loop.
    void pairs() {
        std::size_t const stream = any_stream();
        std::size_t const bytes = any_bytes();
        for (int i = 0; i != 3; ++i) {
            allocate(stream, bytes);
            give(drop(live_.size() - 1));
        }
    }
    std::size_t give_wrongly() {
        if (live_.empty()) return 0;
        held const h = live_[any_live()];
        cuota::stream_ref const s = streams_[any_stream()];
        auto* const bytes = static_cast<std::byte*>(h.p);
        pool_.deallocate(s, h.p, h.bytes + 1);
        pool_.deallocate(s, bytes + 1, h.bytes);
        pool_.deallocate(s, &pool_, h.bytes);
        if (h.bytes <= 256) return 3;
        pool_.deallocate(s, bytes + 256, h.bytes - 256);
        return 4;
    }
    /// Frees a block twice in a row, so that no other owner can have it in between.
    std::size_t give_twice() {
        if (live_.empty()) return 0;
        held const h = drop(any_live());
        give(h);
        pool_.deallocate(streams_[any_stream()], h.p, h.bytes);
        return 1;
    }

protected:
    cuota::scoped_pool& pool_;
    shadow& shadow_;
    streams& streams_;

private:
    std::mt19937_64 random_;
    sizes sizes_;
    std::vector<held> live_;
};

struct walk_counts {
    std::uint64_t allocations = 0, refusals = 0, wrong_releases = 0;
    std::uint64_t failed = 0;     ///< operations with a failed call that threw or reported
    std::uint64_t steps = 0;      ///< ended steps
    std::uint64_t survivors = 0;  ///< blocks that outlived their step
    std::uint64_t frames_ended = 0;
    std::uint64_t thread_cache_hits = 0, stream_waits = 0;  ///< of pool_stats, at the last check

    [[nodiscard]] bool reach(walk_counts const& least) const {
        return allocations >= least.allocations && refusals >= least.refusals && failed >= least.failed &&
               steps >= least.steps && survivors >= least.survivors && frames_ended >= least.frames_ended &&
               thread_cache_hits >= least.thread_cache_hits && stream_waits >= least.stream_waits;
    }
};

inline std::string text_of(walk_counts const& did, cuota::pool_stats const& s) {
    std::string text;
    for (auto const& [count, what] :
         std::initializer_list<std::pair<std::size_t, char const*>>{{did.allocations, "allocations"},
                                                                    {did.refusals, "refused"},
                                                                    {s.thread_cache_hits, "taken again"},
                                                                    {s.stream_waits, "waits"},
                                                                    {did.wrong_releases, "wrong releases"},
                                                                    {did.failed, "failed"},
                                                                    {did.steps, "steps"},
                                                                    {did.survivors, "left of them"},
                                                                    {did.frames_ended, "frames"}})
        if (count != 0) text += std::to_string(count) + ' ' + what + ", ";
    return text + std::to_string(s.peak_reserved) + " bytes at most";
}

inline bool is_same_but_for_free(cuota::pool_stats const& a, cuota::pool_stats const& b) {
    return a.requested == b.requested && a.allocated == b.allocated && a.reserved == b.reserved &&
           a.peak_requested == b.peak_requested && a.peak_allocated == b.peak_allocated &&
           a.peak_reserved == b.peak_reserved && a.live_blocks == b.live_blocks && a.segments == b.segments;
}
inline bool is_same(cuota::pool_stats const& a, cuota::pool_stats const& b) {
    return is_same_but_for_free(a, b) && a.free_blocks == b.free_blocks && a.largest_free == b.largest_free;
}
inline std::string text_of(cuota::pool_stats const& s) {
    std::string text;
    for (std::size_t const n : {s.requested, s.allocated, s.reserved, s.peak_requested, s.peak_allocated,
                                s.peak_reserved, s.live_blocks, s.free_blocks, s.largest_free, s.segments})
        text += std::to_string(n) + ' ';
    return text;
}

/// Throws on a difference, so that the walk stops there.
inline void agree_by_tag(cuota::scoped_pool const& pool, shadow const& beside) {
    auto const expected = beside.by_tag();
    auto const all = pool.stats_by_tag();
    bool same = all.size() == expected.size();
    for (cuota::tag_stats const& is : all) {
        auto const found = expected.find(is.name.text());
        same = same && found != expected.end() && is.live_blocks == found->second.live_blocks &&
               is.requested == found->second.requested && is.allocated == found->second.allocated &&
               is.oldest == found->second.oldest;
    }
    if (!same) throw std::logic_error{"stats_by_tag() is another"};
    if (!std::ranges::is_sorted(all, std::greater<>{}, &cuota::tag_stats::allocated))
        throw std::logic_error{"stats_by_tag() does not begin with most"};
}
inline void agree(cuota::scoped_pool const& pool, shadow const& beside, std::size_t held_by_budget) {
    cuota::pool_stats const is = pool.stats();
    cuota::pool_stats const expected = beside.expected();
    if (std::string const wrong = beside.wrong(); !wrong.empty()) throw std::logic_error{"not so: " + wrong};
    if (beside.is_exact() ? !is_same(is, expected)
                          : !is_same_but_for_free(is, expected) || is.largest_free > expected.largest_free)
        throw std::logic_error{"the pool says " + text_of(is) + "but it is " + text_of(expected)};
    if (held_by_budget != expected.reserved) throw std::logic_error{"the budget holds what the pool has not"};
    if (pool.largest_free() != is.largest_free) throw std::logic_error{"largest_free() is another"};
    agree_by_tag(pool, beside);
}

inline void no_race() {
    auto const& reports = cuota::simulator::race_reports();
    INFO((reports.empty() ? std::string{} : reports.front()));
    REQUIRE(cuota::simulator::misuse().total() == 0);
}

}  // namespace pool_tests
