// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The account of a device's graphs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

class memory_of_graph;

/// Graphs share it, so it lives as long as the last of them.
///
///     settled_  bytes that the driver reported after the last launch or trim; charged
///     pending_  bytes charged for launches whose result is not settled
///
/// Threads: any. A trim and a launch exclude each other: by Dekker's argument, either the launch sees the trim's number or the trim sees the
/// launch.
class graph_memory_state final : public reclaimable_holder {
public:
    /// Throws: usage_error if the device has one.
    graph_memory_state(budget account, device on, label who);
    CUOTA_INLINE_IN_PLACE ~graph_memory_state() override;

    void enter(memory_of_graph& graph);
    void leave(memory_of_graph& graph) noexcept;
    void set_needed(memory_of_graph& graph, std::size_t bytes);

    /// Number of trims begun.
    [[nodiscard]] std::uint64_t trims() const noexcept { return trims_.load(std::memory_order_seq_cst); }
    /// Begins a launch of a graph that has its memory since that number of trims; returns false if there was another trim.
    [[nodiscard]] bool try_begin(std::uint64_t since) noexcept;
    /// Begins a launch on s, charges what the driver will allocate for it, and returns the bytes. Throws: budget_exceeded; nothing is charged
    /// or begun.
    [[nodiscard]] std::size_t begin_charged(memory_of_graph& graph, stream_ref s, source_location where);
    /// Replaces the charge of a launch by what the driver reports.
    void settle(memory_of_graph& graph, std::size_t pending, bool is_enqueued) noexcept;
    /// Ends a launch.
    void end() noexcept { launching_.fetch_sub(1, std::memory_order_seq_cst); }

    /// Throws: cuda_error.
    std::size_t trim();
    [[nodiscard]] std::size_t held() const;
    [[nodiscard]] device on() const noexcept { return on_; }

    std::size_t reclaim(std::size_t) noexcept override {
        std::size_t released = 0;
        (void)report_failure_of([&] { released = trim(); });
        return released;
    }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable(std::size_t wanted) const noexcept override;
    CUOTA_INLINE_IN_PLACE void allocation_groups(std::vector<allocation_group>& into) const override;
    [[nodiscard]] std::string title() const override { return who_.name.text(); }

private:
    CUOTA_PROCESS_STATE [[nodiscard]] static std::atomic<bool>& is_taken(device on) noexcept;

    // The sum, over streams, of the most bytes that a graph on it needs; stream_of(graph) returns its id, or 0. Graphs of one stream share
    // memory, those of different streams do not. Under the lock.
    template <class StreamOf>
    [[nodiscard]] std::size_t needed_by(StreamOf stream_of) const;
    // Bytes of running graphs. Under the lock.
    [[nodiscard]] std::size_t in_use() const;
    void refund(std::size_t bytes) noexcept;

    intrusive_ptr<ledger> node_;
    budget account_;
    device const on_;
    label const who_;
    mutable object_lock guard_;
    std::vector<memory_of_graph*> graphs_{};
    std::size_t settled_ = 0;
    std::size_t pending_ = 0;
    std::atomic<std::uint64_t> trims_ = 0;
    std::atomic<int> launching_ = 0;
};

/// A graph's use of the account. Threads: those of a graph, one at a time.
class memory_of_graph final : public graph_use {
public:
    explicit memory_of_graph(intrusive_ptr<graph_memory_state> account) : account_{std::move(account)} {
        account_->enter(*this);
    }
    ~memory_of_graph() override { account_->leave(*this); }

    void about_to_end() override {}
    void captured(std::size_t memory) override { account_->set_needed(*this, memory); }
    void ended() noexcept override {}
    void begin_launch(stream_ref s, source_location where) override {
        if (needed == 0) return;
        is_steady_ = steady_on_ == s.id() && account_->try_begin(steady_since_);
        if (is_steady_) return;
        std::uint64_t const trims = account_->trims();
        pending_ = account_->begin_charged(*this, s, where);
        steady_on_ = s.id();
        steady_since_ = trims;  // a trim since then makes the next launch charge again
    }
    void end_launch(stream_ref, bool is_enqueued) noexcept override {
        if (needed == 0) return;
        if (!is_steady_) account_->settle(*this, pending_, is_enqueued);
        if (!is_enqueued) steady_on_ = 0;
        account_->end();
    }

    // Written under the account's lock:
    std::size_t needed = 0;
    std::uint64_t stream = 0;  // that its memory belongs to; 0: it has none since a trim
    std::uint64_t stream_before = 0;
    std::optional<shared_stream> last{};  // of the last launch

private:
    intrusive_ptr<graph_memory_state> const account_;
    std::uint64_t steady_on_ = 0, steady_since_ = 0;
    bool is_steady_ = false;
    std::size_t pending_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <sched.h>

#include <algorithm>
#include <array>

#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE graph_memory_state::graph_memory_state(budget account, device on, label who)
    : node_{intrusive_ptr<ledger>::of(budget_access::node(account))},
      account_{std::move(account)},
      on_{on},
      who_{who} {
    if (is_taken(on).exchange(true))
        throw_usage_error(who.where,
                          "graph_memory: device {} already has one; use that, or destroy it and the graphs "
                          "that were captured with it",
                          {on.ordinal()});
    try {
        node_->join(*this);
        try {
            idle_registry::join(on, *this);
        } catch (...) {
            node_->leave(*this);
            throw;
        }
    } catch (...) {
        is_taken(on).store(false);
        throw;
    }
}

CUOTA_INLINE_IN_PLACE graph_memory_state::~graph_memory_state() {
    idle_registry::leave(*this);
    node_->leave(*this);
    if (guard_.is_of_parent()) return;
    (void)report_failure_of([&] { rt::trim_memory_of_graphs(on_); });
    refund(settled_);  // the rest belongs to graphs that were captured elsewhere
    is_taken(on_).store(false);
}

CUOTA_INLINE std::atomic<bool>& graph_memory_state::is_taken(device on) noexcept {
    static std::array<std::atomic<bool>, 64> taken{};
    return taken[static_cast<std::size_t>(on.ordinal()) % taken.size()];
}

CUOTA_INLINE void graph_memory_state::enter(memory_of_graph& graph) {
    region_lock const lock{guard_};
    graphs_.push_back(&graph);
}

CUOTA_INLINE void graph_memory_state::leave(memory_of_graph& graph) noexcept {
    if (guard_.is_of_parent()) return;
    region_lock const lock{guard_};
    std::erase(graphs_, &graph);
}

CUOTA_INLINE void graph_memory_state::set_needed(memory_of_graph& graph, std::size_t bytes) {
    region_lock const lock{guard_};
    graph.needed = bytes;
}

template <class StreamOf>
std::size_t graph_memory_state::needed_by(StreamOf stream_of) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> most;  // of each stream
    for (memory_of_graph const* g : graphs_) {
        std::uint64_t const stream = stream_of(*g);
        if (stream == 0) continue;
        auto const of = std::ranges::find(most, stream, &std::pair<std::uint64_t, std::size_t>::first);
        if (of == most.end()) most.emplace_back(stream, g->needed);
        else of->second = std::max(of->second, g->needed);
    }
    std::size_t sum = 0;
    for (auto const& [stream, bytes] : most) sum = saturating_add(sum, bytes);
    return sum;
}

// Also true on a stream that cannot be queried now: it is captured, or another thread's default stream.
[[nodiscard]] CUOTA_INLINE bool may_run(memory_of_graph const& graph) noexcept {
    if (!graph.last) return false;
    try {
        return !stream_ref{*graph.last}.is_idle();
    } catch (...) { return true; }
}

CUOTA_INLINE std::size_t graph_memory_state::in_use() const {
    std::size_t const running =
        needed_by([](memory_of_graph const& g) { return may_run(g) ? g.stream : std::uint64_t{0}; });
    return std::min(running, settled_);
}

CUOTA_INLINE bool graph_memory_state::try_begin(std::uint64_t since) noexcept {
    launching_.fetch_add(1, std::memory_order_seq_cst);
    if (trims() == since) [[likely]]
        return true;
    end();
    return false;
}

CUOTA_INLINE std::size_t graph_memory_state::begin_charged(memory_of_graph& graph, stream_ref s,
                                                           source_location where) {
    std::uint64_t const on = s.id();
    std::size_t charged = 0;  // by this call so far
    for (;;) {
        std::size_t missing = 0;
        {
            region_lock const lock{guard_};
            std::size_t const all =
                needed_by([&](memory_of_graph const& g) { return &g == &graph ? on : g.stream; });
            std::size_t const known = settled_ + pending_;
            missing = all > known ? all - known : 0;
            if (missing <= charged) {
                graph.stream_before = std::exchange(graph.stream, on);
                graph.last.emplace(s);
                pending_ += missing;
                launching_.fetch_add(1, std::memory_order_seq_cst);
            }
        }
        if (missing <= charged) {
            refund(charged - missing);
            return missing;
        }
        // A charge that does not fit may trim, and then more is missing.
        refund(std::exchange(charged, 0));
        account_.charge(missing, who_.name, where);
        count_taken(on_, missing);
        charged = missing;
    }
}

CUOTA_INLINE void graph_memory_state::settle(memory_of_graph& graph, std::size_t pending,
                                             bool is_enqueued) noexcept {
    std::size_t surplus = 0;
    std::size_t missing = 0;
    {
        region_lock const lock{guard_};
        if (!is_enqueued) graph.stream = graph.stream_before;
        std::size_t const with_others = settled_ + pending_;
        pending_ -= pending;
        settled_ += pending;
        std::size_t reported = settled_;  // kept if the query fails
        (void)report_failure_of([&] { reported = rt::memory_of_graphs(on_); });
        if (reported < settled_) surplus = settled_ - reported;
        else if (reported > with_others) missing = reported - with_others;
        settled_ -= surplus;
    }
    refund(surplus);
    if (missing == 0) return;
    if (account_.try_charge(missing)) {
        count_taken(on_, missing);
        region_lock const lock{guard_};
        settled_ += missing;
        return;
    }
    (void)report_failure_of([&] {
        throw_usage_error(who_.where,
                          "graph_memory: graphs hold {} that budget {} has no room for, and that are not "
                          "charged; capture all graphs of the device with its graph_memory",
                          {as_bytes(missing), account_.name()});
    });
}

CUOTA_INLINE std::size_t graph_memory_state::trim() {
    for (int looks = 0; launching_.load(std::memory_order_relaxed) != 0 && looks != 1'000; ++looks)
        ::sched_yield();  // a launch takes microseconds; this thread may be in one
    std::size_t freed = 0;
    {
        region_lock const lock{guard_};
        trims_.fetch_add(1, std::memory_order_seq_cst);
        if (launching_.load(std::memory_order_seq_cst) != 0) return 0;
        for (memory_of_graph* const g : graphs_)
            if (!may_run(*g)) g->stream = 0;
        rt::trim_memory_of_graphs(on_);
        freed = settled_ - std::min(settled_, rt::memory_of_graphs(on_));
        settled_ -= freed;
    }
    refund(freed);
    return freed;
}

CUOTA_INLINE std::size_t graph_memory_state::held() const {
    region_lock const lock{guard_};
    return settled_ + pending_;
}

CUOTA_INLINE_IN_PLACE std::size_t graph_memory_state::reclaimable(std::size_t) const noexcept {
    std::size_t idle = 0;
    (void)report_failure_of([&] {
        region_lock const lock{guard_};
        idle = settled_ - in_use();
    });
    return idle;
}

CUOTA_INLINE_IN_PLACE void graph_memory_state::allocation_groups(std::vector<allocation_group>& into) const {
    region_lock const lock{guard_};
    std::size_t const used = in_use();
    if (used + pending_ != 0) into.push_back({who_.name, who_.where, used + pending_, false});
    if (settled_ != used) into.push_back({who_.name, who_.where, settled_ - used, true});
}

CUOTA_INLINE void graph_memory_state::refund(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    account_.refund(bytes, who_.where);
    count_given_back(on_, bytes);
}

}  // namespace cuota::inline v0::detail

#endif
