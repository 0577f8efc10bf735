// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The account of a device's graphs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/pool/detail/graph_records.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// Graphs share it, so it lives as long as the last of them.
///
///     settled_  bytes that the driver reported after the last launch or trim; charged
///     pending_  bytes charged for launches whose result is not settled
///     lost_     the part of settled_ that the driver keeps of launches that it refused; no launch gets it
///     unknown_  a further part, which the driver keeps for graphs that the account cannot tell; a launch may not get it
///
/// Threads: any. A trim and a launch exclude each other: by Dekker's argument, either the launch sees the trim's number or the trim sees the
/// launch.
class graph_memory_state final : public reclaimable_holder {
public:
    /// Throws: usage_error if the device has one.
    graph_memory_state(budget account, device on, label who);
    CUOTA_INLINE_IN_PLACE ~graph_memory_state() override;

    [[nodiscard]] graph_record& enter();
    /// Ends a graph's use of the account. Its memory counts as in use until its last launch has ended; if the account cannot tell that later,
    /// because the stream is not a `stream`, waits for it.
    void leave(graph_record& graph) noexcept;
    void set_needed(graph_record& graph, std::size_t bytes);

    /// Number of trims begun.
    [[nodiscard]] std::uint64_t trims() const noexcept { return trims_.load(std::memory_order_seq_cst); }
    /// Begins a launch of a graph that has its memory since that number of trims; returns false if there was another trim.
    [[nodiscard]] bool try_begin(std::uint64_t since) noexcept;
    /// Begins a launch on s, charges what the driver will allocate for it, and returns the bytes. Waits for graphs that run if it does not
    /// fit otherwise. Throws: budget_exceeded, cuda_error; nothing is charged or begun.
    [[nodiscard]] std::size_t begin_charged(graph_record& graph, stream_ref s, source_location where);
    /// Replaces the charge of a launch by what the driver reports; the graph's memory belongs to `stream`, or it has none.
    void settle(graph_record& graph, std::size_t pending, std::uint64_t stream) noexcept;
    /// Returns the bytes that the driver will allocate for a launch in progress on the stream `on`, for which `pending` bytes are charged.
    [[nodiscard]] std::size_t missing_for(graph_record const& graph, std::uint64_t on, std::size_t pending);
    /// Trims, and charges the part that the driver keeps of a launch on the stream `on` that it has refused. Throws: cuda_error.
    void note_refusal(graph_record& graph, std::uint64_t on);
    /// Ends a launch.
    void end() noexcept { launching_.fetch_sub(1, std::memory_order_seq_cst); }

    /// Trims during launches of other threads never, during a launch of this thread only if it is the one of `launching`, which keeps its
    /// stream. Throws: cuda_error.
    std::size_t trim(graph_record const* launching = nullptr);
    /// Waits for graphs that may run, but not on streams that are captured. Returns whether there were any. Throws: cuda_error, also of their
    /// work.
    [[nodiscard]] bool wait_for_graphs();
    [[nodiscard]] std::size_t held() const;
    [[nodiscard]] device on() const noexcept { return on_; }
    [[nodiscard]] tag name() const noexcept { return who_.name; }

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

    // Returns the bytes that the driver lacks for all graphs that have memory and for one on the stream `on`. Under the lock.
    [[nodiscard]] std::size_t missing_with(graph_record const& graph, std::uint64_t on,
                                           std::size_t pending) const;
    // The driver takes memory of idle graphs for other allocations: if it has, refunds that, and every launch charges again. Under the lock.
    // Returns the bytes to refund.
    [[nodiscard]] std::size_t find_taken_back();
    // Records which graphs have no memory since the driver released all but `kept` bytes. Under the lock.
    void forget_released(std::size_t kept);
    // Returns whether the driver has the memory that the graphs are known to have. Under the lock.
    [[nodiscard]] bool is_enough_for_graphs() const;
    // Bytes of running graphs. Under the lock.
    [[nodiscard]] std::size_t in_use() const;
    void charge_allocated(std::size_t bytes) noexcept;
    void refund(std::size_t bytes) noexcept;
    // Refunds at the end of a scope: declared before the lock, after its release.
    struct later_refund {
        graph_memory_state& of;
        std::size_t bytes = 0;
        ~later_refund() { of.refund(bytes); }
    };

    intrusive_ptr<ledger> node_;
    budget account_;
    device const on_;
    label const who_;
    mutable object_lock guard_;
    graph_records graphs_;
    std::size_t settled_ = 0;
    std::size_t pending_ = 0;
    std::size_t lost_ = 0, unknown_ = 0;
    std::atomic<std::uint64_t> trims_ = 0;
    std::atomic<int> launching_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <sched.h>

#include <algorithm>
#include <array>

#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>
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
    for (graph_record const& g : graphs_.all())  // destroyed ones that may run
        (void)report_failure_of([&] { (void)wait_outside_captures(*g.last); });
    (void)report_failure_of([&] { rt::trim_memory_of_graphs(on_); });
    refund(settled_);  // the rest belongs to graphs that were captured elsewhere
    is_taken(on_).store(false);
}

CUOTA_INLINE_STATE std::atomic<bool>& graph_memory_state::is_taken(device on) noexcept {
    static std::array<std::atomic<bool>, 64> taken{};
    return taken[static_cast<std::size_t>(on.ordinal()) % taken.size()];
}

CUOTA_INLINE graph_record& graph_memory_state::enter() {
    region_lock const lock{guard_};
    return graphs_.enter();
}

CUOTA_INLINE void graph_memory_state::leave(graph_record& graph) noexcept {
    if (guard_.is_of_parent()) return;
    bool const may_lose_stream = graph.last && !graph.last->is_owned();
    if (may_lose_stream && graph.may_run())
        (void)report_failure_of([&] { (void)wait_outside_captures(*graph.last); });
    std::list<graph_record> ended;
    region_lock const lock{guard_};
    graph.is_destroyed = true;
    if (may_lose_stream) graph.last.reset();
    graphs_.take_ended(ended);
}

CUOTA_INLINE void graph_memory_state::set_needed(graph_record& graph, std::size_t bytes) {
    region_lock const lock{guard_};
    graph.needed = bytes;
}

CUOTA_INLINE std::size_t graph_memory_state::missing_with(graph_record const& graph, std::uint64_t on,
                                                          std::size_t pending) const {
    std::size_t const all = graphs_.needed_with(graph, on);
    std::size_t const there = settled_ - std::min(settled_, lost_ + unknown_) + pending;
    return all > there ? all - there : 0;
}

CUOTA_INLINE std::size_t graph_memory_state::missing_for(graph_record const& graph, std::uint64_t on,
                                                         std::size_t pending) {
    later_refund taken_back{*this};
    region_lock const lock{guard_};
    taken_back.bytes = find_taken_back();
    return missing_with(graph, on, pending_ - pending);
}

CUOTA_INLINE void graph_memory_state::note_refusal(graph_record& graph, std::uint64_t on) {
    std::size_t freed = 0;
    std::size_t kept_more = 0;
    {
        region_lock const lock{guard_};
        graph.stream = on;
        graph.is_launching = true;
        // With several launches in progress, the account does not know which one took memory: it is charged when they end.
        if (launching_.load(std::memory_order_seq_cst) != 1) return;
        trims_.fetch_add(1, std::memory_order_seq_cst);
        graphs_.note_running();
        rt::trim_memory_of_graphs(on_);
        std::size_t const kept = rt::memory_of_graphs(on_);
        forget_released(kept);
        lost_ = kept - std::min(kept, graphs_.needed_by_launched());
        unknown_ = 0;
        kept_more = kept - std::min(kept, settled_);
        freed = settled_ - std::min(settled_, kept);
        settled_ = kept;
    }
    refund(freed);
    charge_allocated(kept_more);
}

CUOTA_INLINE std::size_t graph_memory_state::in_use() const {
    return std::min(graphs_.needed_by_running(), settled_);
}

CUOTA_INLINE void graph_memory_state::forget_released(std::size_t kept) {
    lost_ = std::min(lost_, kept);
    std::size_t const of_graphs = graphs_.needed_by_noted();
    // A stream that is busy may run only the smaller ones of its graphs, or other work.
    bool const is_known = of_graphs <= kept - lost_;
    unknown_ = kept - lost_ - (is_known ? of_graphs : 0);
    graphs_.forget_memory(is_known);
}

CUOTA_INLINE bool graph_memory_state::is_enough_for_graphs() const {
    return graphs_.needed_before_launches() <= settled_ - std::min(settled_, lost_ + unknown_);
}

CUOTA_INLINE bool graph_memory_state::wait_for_graphs() {
    std::vector<shared_stream> busy;
    {
        region_lock const lock{guard_};
        busy = graphs_.busy_streams();
    }
    bool were_any = false;
    for (stream_ref const s : busy)
        if (wait_outside_captures(s)) were_any = true;
    return were_any;
}

CUOTA_INLINE std::size_t graph_memory_state::find_taken_back() {
    std::size_t const reported = rt::memory_of_graphs(on_);
    if (reported >= settled_) return 0;
    trims_.fetch_add(1, std::memory_order_seq_cst);
    graphs_.note_running();
    forget_released(reported);
    return std::exchange(settled_, reported) - reported;
}

CUOTA_INLINE bool graph_memory_state::try_begin(std::uint64_t since) noexcept {
    launching_.fetch_add(1, std::memory_order_seq_cst);
    if (trims() == since) [[likely]]
        return true;
    end();
    return false;
}

CUOTA_INLINE std::size_t graph_memory_state::begin_charged(graph_record& graph, stream_ref s,
                                                           source_location where) {
    std::uint64_t const on = s.id();
    later_refund charged{*this};  // by this call so far
    for (int measures = 0;;) {
        std::size_t missing = 0;
        {
            later_refund taken_back{*this};
            std::list<graph_record> ended;
            region_lock const lock{guard_};
            graphs_.take_ended(ended);
            taken_back.bytes = find_taken_back();
            missing = missing_with(graph, on, pending_);
            if (missing <= charged.bytes) {
                graph.stream_before = std::exchange(graph.stream, on);
                graph.is_launching = true;
                graph.last.emplace(s);
                pending_ += missing;
                launching_.fetch_add(1, std::memory_order_seq_cst);
                charged.bytes -= missing;
                return missing;
            }
        }
        // A charge that does not fit may trim, and then more is missing.
        refund(std::exchange(charged.bytes, 0));
        if (!account_.try_charge(missing)) {
            // First, idle graphs may have less memory than the account has for them, because the driver takes it for other allocations. Then,
            // graphs that run end, and their memory is released.
            if (++measures == 1 || (measures == 2 && wait_for_graphs())) {
                (void)trim();
                continue;
            }
            account_.charge(missing, who_.name, where);
        }
        count_taken(on_, missing);
        charged.bytes = missing;
    }
}

CUOTA_INLINE void graph_memory_state::settle(graph_record& graph, std::size_t pending,
                                             std::uint64_t stream) noexcept {
    std::size_t surplus = 0;
    std::size_t missing = 0;
    {
        region_lock const lock{guard_};
        graph.stream = stream;
        graph.is_launching = false;
        std::size_t const with_others = settled_ + pending_;
        pending_ -= pending;
        settled_ += pending;
        std::size_t reported = settled_;  // kept if the query fails
        (void)report_failure_of([&] { reported = rt::memory_of_graphs(on_); });
        if (reported < settled_) surplus = settled_ - reported;
        else if (reported > with_others) missing = reported - with_others;
        settled_ += missing;
        settled_ -= surplus;
        unknown_ -= std::min(unknown_, surplus);  // which the launch has used
        // Or the driver has released memory of graphs by itself: their next launches charge it again.
        if (surplus != 0) trims_.fetch_add(1, std::memory_order_seq_cst);
        (void)report_failure_of([&] {
            if (surplus == 0 || is_enough_for_graphs()) return;
            graphs_.note_running();
            forget_released(settled_);
        });
    }
    refund(surplus);
    charge_allocated(missing);  // of graphs that were captured elsewhere, or of refused launches
}

CUOTA_INLINE std::size_t graph_memory_state::trim(graph_record const* launching) {
    int const own = launching ? 1 : 0;
    for (int looks = 0; launching_.load(std::memory_order_relaxed) != own && looks != 1'000; ++looks)
        ::sched_yield();  // a launch takes microseconds; this thread may be in one
    std::size_t freed = 0;
    {
        region_lock const lock{guard_};
        trims_.fetch_add(1, std::memory_order_seq_cst);
        if (launching_.load(std::memory_order_seq_cst) != own) return 0;
        graphs_.note_running();
        rt::trim_memory_of_graphs(on_);
        std::size_t const kept = rt::memory_of_graphs(on_);
        forget_released(kept);
        freed = settled_ - std::min(settled_, kept);
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

CUOTA_INLINE void graph_memory_state::charge_allocated(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    node_->charge_allocated(bytes);
    count_taken(on_, bytes);
}

CUOTA_INLINE void graph_memory_state::refund(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    account_.refund(bytes, who_.where);
    count_given_back(on_, bytes);
}

}  // namespace cuota::inline v0::detail

#endif
