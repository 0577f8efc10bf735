// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Handmade recordings and snapshots for the rules of a diagnosis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/recording/recording.hpp>

namespace diagnosis_samples {

/// Builds a recording event by event, one nanosecond apart, and updates the pools' statistics at its end.
class script {
public:
    script() {
        made_.sites.push_back({});
        made_.sources.push_back({});
    }

    std::uint16_t pool(char const* name, cuota::memory_kind memory = cuota::memory_kind::device) {
        cuota::event_source source{cuota::source_kind::pool, name};
        source.memory = memory;
        source.pool = made_.final_snapshot.pools.size();
        cuota::pool_info facts{};
        facts.name = name;
        facts.memory = memory;
        facts.budget = cuota::unlimited;  // no budget of the snapshot
        made_.final_snapshot.pools.push_back(facts);
        return add(source);
    }
    std::uint16_t resource(char const* name, cuota::memory_kind memory) {
        cuota::event_source source{cuota::source_kind::resource, name};
        source.memory = memory;
        return add(source);
    }
    std::uint16_t budget(char const* name, std::size_t limit) {
        cuota::event_source source{cuota::source_kind::budget, name};
        source.limit = limit;
        return add(source);
    }
    void charge(std::uint16_t who, std::uint16_t budget) {
        auto& source = made_.sources[who];
        (source.kind == cuota::source_kind::budget ? source.parent : source.budget) = budget;
    }
    std::uint32_t site(cuota::tag name, unsigned line = 17) {
        made_.sites.push_back({name, {"src/train.cpp", line}});
        return static_cast<std::uint32_t>(made_.sites.size() - 1);
    }

    /// Adds memory that was live and reserved before the first event.
    void already(std::uint16_t pool, std::size_t live, std::size_t reserved) {
        stats(pool).allocated += live;
        stats(pool).reserved += reserved;
    }
    std::uint64_t take(std::uint16_t source, std::uint32_t site, std::size_t size, std::size_t bytes = 0) {
        std::uint64_t const address = next_ += 1'000'000'000'000;
        open_[address] = {source, site, size, bytes == 0 ? size : bytes};
        put(cuota::event_kind::allocated, address);
        if (made_.sources[source].pool) stats(source).allocated += size;
        return address;
    }
    void give(std::uint64_t address) {
        put(cuota::event_kind::free_requested, address);
        block const b = open_[address];
        if (made_.sources[b.source].pool) stats(b.source).allocated -= b.size;
    }
    void segment(std::uint16_t source, std::size_t bytes) {
        made_.events.push_back(
            {cuota::event_kind::segment_allocated, source, 0, tick(), next_ += 1'000'000'000'000, bytes});
        stats(source).reserved += bytes;
    }
    void segment_back(std::uint16_t source, std::size_t bytes) {
        made_.events.push_back(
            {cuota::event_kind::segment_freed, source, 0, tick(), next_ += 1'000'000'000'000, bytes});
        stats(source).reserved -= bytes;
    }
    void refuse(std::uint16_t budget, std::uint32_t site, std::size_t bytes, std::size_t held) {
        made_.events.push_back({cuota::event_kind::refused, budget, site, tick(), 0, bytes, held});
    }
    void end_step(std::uint16_t pool) {
        made_.events.push_back({cuota::event_kind::step_ended, pool, 0, tick()});
    }

    /// Drops the first events, as a ring that is too small does.
    void drop(std::size_t events) {
        made_.events.erase(made_.events.begin(), made_.events.begin() + static_cast<std::ptrdiff_t>(events));
        made_.dropped += events;
    }
    [[nodiscard]] std::size_t events() const noexcept { return made_.events.size(); }
    [[nodiscard]] cuota::pool_stats& stats(std::uint16_t pool) {
        return made_.final_snapshot.pools[*made_.sources[pool].pool].stats;
    }
    [[nodiscard]] cuota::recording const& made() const noexcept { return made_; }

private:
    struct block {
        std::uint16_t source = 0;
        std::uint32_t site = 0;
        std::size_t size = 0;
        std::size_t bytes = 0;
    };
    std::uint16_t add(cuota::event_source source) {
        made_.sources.push_back(std::move(source));
        return static_cast<std::uint16_t>(made_.sources.size() - 1);
    }
    std::uint64_t tick() { return ++now_; }
    void put(cuota::event_kind kind, std::uint64_t address) {
        block const b = open_[address];
        made_.events.push_back({kind, b.source, b.site, tick(), address, b.bytes, b.size});
    }

    cuota::recording made_{};
    std::map<std::uint64_t, block> open_{};
    std::uint64_t next_ = 0;
    std::uint64_t now_ = 0;
};

[[nodiscard]] inline std::vector<cuota::finding> only(cuota::finding_kind kind,
                                                      std::vector<cuota::finding> const& findings) {
    std::vector<cuota::finding> some;
    for (cuota::finding const& f : findings)
        if (f.kind == kind) some.push_back(f);
    return some;
}

/// Returns the text of the only finding of a kind; "none" or "several" otherwise.
[[nodiscard]] inline std::string text_of(cuota::finding_kind kind,
                                         std::vector<cuota::finding> const& findings) {
    std::vector<cuota::finding> const some = only(kind, findings);
    return some.empty() ? "none" : some.size() == 1 ? some.front().text : "several";
}

/// Builds a segment from adjacent blocks.
class segment_of {
public:
    segment_of& live(std::size_t size, cuota::tag name, unsigned line = 17, std::size_t age = 0,
                     cuota::lifetime_hint lifetime = cuota::lifetime_hint::scratch) {
        cuota::block_info b = next(size, cuota::block_use::live);
        b.requested = size;
        b.name = name;
        b.where = {"src/train.cpp", line};
        b.age = age;
        b.lifetime = lifetime;
        made_.blocks.push_back(b);
        return *this;
    }
    segment_of& free(std::size_t size) { return add(size, cuota::block_use::free); }
    segment_of& leaving(std::size_t size) { return add(size, cuota::block_use::releasing); }
    segment_of& pending(std::size_t size, std::uint64_t stream) {
        add(size, cuota::block_use::pending);
        made_.blocks.back().stream = stream;
        return *this;
    }
    segment_of& paged() {
        made_.is_paged = true;
        return *this;
    }
    [[nodiscard]] cuota::segment_info const& made() const noexcept { return made_; }

private:
    cuota::block_info next(std::size_t size, cuota::block_use use) {
        cuota::block_info b{};
        b.address = made_.address + made_.size;
        b.size = size;
        b.use = use;
        made_.size += size;
        return b;
    }
    segment_of& add(std::size_t size, cuota::block_use use) {
        made_.blocks.push_back(next(size, use));
        return *this;
    }

    cuota::segment_info made_{};
};

/// Returns a pool of these segments, with statistics added up from their blocks.
[[nodiscard]] inline cuota::pool_info pool_of(char const* name, std::vector<cuota::segment_info> segments) {
    cuota::pool_info p{};
    p.name = name;
    p.budget = cuota::unlimited;
    for (cuota::segment_info const& s : segments)
        for (cuota::block_info const& b : s.blocks) {
            p.stats.reserved += b.size;
            if (b.use == cuota::block_use::live)
                p.stats.allocated += b.size, p.stats.requested += b.requested;
            if (b.use == cuota::block_use::live || b.use == cuota::block_use::pending)
                p.stats.active += b.size;
        }
    p.segments = std::move(segments);
    return p;
}

[[nodiscard]] inline cuota::memory_snapshot snapshot_of(cuota::pool_info pool) {
    cuota::memory_snapshot s{};
    s.pools.push_back(std::move(pool));
    return s;
}

}  // namespace diagnosis_samples
