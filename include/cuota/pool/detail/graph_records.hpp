// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The graphs in the account of a device, and the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// A graph in the account, which writes it under its lock.
struct graph_record {
    std::size_t needed = 0;           ///< bytes of a launch
    std::uint64_t stream = 0;         ///< that its memory belongs to; 0: it has none since a trim
    std::uint64_t stream_before = 0;  ///< `stream` before the present launch
    bool is_launching = false;
    bool is_destroyed = false;            ///< its last launch may still run
    bool may_have_run = false;            ///< when the driver last released memory of idle graphs
    std::optional<shared_stream> last{};  ///< of the last launch

    /// Returns whether the last launch may still run; also true on a stream that cannot be queried now.
    [[nodiscard]] bool may_run() const noexcept;
};

/// Records of graphs. Graphs of one stream share memory, those of different streams do not: "needed" is the sum, over streams, of the most
/// bytes that a graph on it needs.
///
/// Requires the account's lock. Cost: O(graphs × streams).
class graph_records {
public:
    [[nodiscard]] graph_record& enter() { return all_.emplace_back(); }
    /// Moves records of destroyed graphs that do not run, to be destroyed outside of the lock.
    void take_ended(std::list<graph_record>& into) noexcept;

    /// Bytes needed by the graphs that have memory, and by `graph` on the stream `on`.
    [[nodiscard]] std::size_t needed_with(graph_record const& graph, std::uint64_t on) const;
    /// Bytes needed by the graphs that have memory, without those that are being launched.
    [[nodiscard]] std::size_t needed_by_launched() const;
    /// Bytes needed by the graphs that had memory before the launches in progress.
    [[nodiscard]] std::size_t needed_before_launches() const;
    /// Bytes needed by the graphs that run.
    [[nodiscard]] std::size_t needed_by_running() const;

    /// Stores which graphs may run, before memory of the others is released.
    void note_running() noexcept;
    /// Bytes that the stored graphs needed before the launches in progress.
    [[nodiscard]] std::size_t needed_by_noted() const;
    /// Takes the memory of all graphs but those that are being launched and, if `keeps_noted`, the stored ones.
    void forget_memory(bool keeps_noted) noexcept;

    /// The streams of graphs that may run.
    [[nodiscard]] std::vector<shared_stream> busy_streams() const;
    [[nodiscard]] std::list<graph_record> const& all() const noexcept { return all_; }

private:
    // stream_of(graph) returns the id of the stream that its memory belongs to, or 0.
    template <class StreamOf>
    [[nodiscard]] std::size_t needed_by(StreamOf stream_of) const;

    std::list<graph_record> all_{};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool graph_record::may_run() const noexcept { return last && !rt::is_known_idle(*last); }

CUOTA_INLINE void graph_records::take_ended(std::list<graph_record>& into) noexcept {
    for (auto g = all_.begin(); g != all_.end();) {
        auto const it = g++;
        if (it->is_destroyed && !it->may_run()) into.splice(into.end(), all_, it);
    }
}

template <class StreamOf>
std::size_t graph_records::needed_by(StreamOf stream_of) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> most;  // of each stream
    for (graph_record const& g : all_) {
        std::uint64_t const stream = stream_of(g);
        if (stream == 0) continue;
        auto const of = std::ranges::find(most, stream, &std::pair<std::uint64_t, std::size_t>::first);
        if (of == most.end()) most.emplace_back(stream, g.needed);
        else of->second = std::max(of->second, g.needed);
    }
    std::size_t sum = 0;
    for (auto const& [stream, bytes] : most) sum = saturating_add(sum, bytes);
    return sum;
}

CUOTA_INLINE std::size_t graph_records::needed_with(graph_record const& graph, std::uint64_t on) const {
    return needed_by([&](graph_record const& g) { return &g == &graph ? on : g.stream; });
}

CUOTA_INLINE std::size_t graph_records::needed_by_launched() const {
    return needed_by([](graph_record const& g) { return g.is_launching ? std::uint64_t{0} : g.stream; });
}

CUOTA_INLINE std::size_t graph_records::needed_before_launches() const {
    return needed_by([](graph_record const& g) { return g.is_launching ? g.stream_before : g.stream; });
}

CUOTA_INLINE std::size_t graph_records::needed_by_running() const {
    return needed_by([](graph_record const& g) { return g.may_run() ? g.stream : std::uint64_t{0}; });
}

CUOTA_INLINE void graph_records::note_running() noexcept {
    for (graph_record& g : all_) g.may_have_run = g.may_run();
}

CUOTA_INLINE std::size_t graph_records::needed_by_noted() const {
    return needed_by([](graph_record const& g) {
        return !g.may_have_run ? std::uint64_t{0} : g.is_launching ? g.stream_before : g.stream;
    });
}

CUOTA_INLINE void graph_records::forget_memory(bool keeps_noted) noexcept {
    for (graph_record& g : all_)
        if (!g.is_launching && !(keeps_noted && g.may_have_run)) g.stream = 0;
}

CUOTA_INLINE std::vector<shared_stream> graph_records::busy_streams() const {
    std::vector<shared_stream> busy;
    for (graph_record const& g : all_)
        if (g.may_run()) busy.push_back(*g.last);
    return busy;
}

}  // namespace cuota::inline v0::detail

#endif
