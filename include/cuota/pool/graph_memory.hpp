// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory that graphs allocate for themselves, under a budget.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/graph.hpp>

namespace cuota::inline v0 {

namespace detail {
class graph_memory_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::graph_memory_state>;
#endif

/// Charges to a budget what the driver allocates for the graphs of a device: memory of code that calls cudaMallocAsync in a capture, such as
/// a library's. The driver allocates it at a graph's first launch, shares it between the graphs of a stream, and keeps it until it is
/// trimmed, also after the graphs were destroyed.
///
/// A launch of a graph that was captured here charges the memory that the driver will allocate before it does, so that the launch throws
/// budget_exceeded instead of exceeding the budget; after the launch the charge is what the driver reports. A request that does not fit
/// the budget, and `trim`, release the memory of graphs that do not run; they allocate it again at their next launch.
///
/// One object for each device. The driver reports one sum, so memory of graphs captured elsewhere is charged at the next change.
/// The memory stays charged until the last graph captured here is destroyed, too.
/// Units:   bytes, in pieces of 2 MiB.
/// Threads: any; graphs of one object may be launched by several threads.
/// Cost:    a launch that needs no memory: two comparisons. One that does: the lock, and a CUDA call.
/// Example: examples/serve_shapes.cpp
class graph_memory {
public:
    /// `name` and `where` identify the memory in refusals. Throws: usage_error if the device has a graph_memory already; std::bad_alloc.
    explicit graph_memory(budget account, device where = device::current(), tag name = "graphs",
                          source_location site = source_location::current());
    graph_memory(graph_memory&&) noexcept = default;  ///< moves it; a use of `other` throws usage_error
    /// Ends the current one and moves the other.
    graph_memory& operator=(graph_memory&&) noexcept = default;
    graph_memory(graph_memory const&) = delete;
    graph_memory& operator=(graph_memory const&) = delete;
    ~graph_memory();

    /// Same as `cuota::capture`. The graph's launches charge the budget; their exceptions are those of graph_exec::launch and
    /// budget_exceeded, after which nothing is launched.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(std::span<stream_ref const> streams, F&& f,
                                     source_location where = source_location::current()) {
        return cuota::capture(
            streams,
            [&] {
                join();
                std::forward<F>(f)();
            },
            where);
    }
    /// Captures the streams `{a, b}`.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(std::initializer_list<stream_ref> streams, F&& f,
                                     source_location where = source_location::current()) {
        return capture(std::span<stream_ref const>{streams.begin(), streams.size()}, std::forward<F>(f),
                       where);
    }
    /// Captures one stream.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(stream_ref s, F&& f,
                                     source_location where = source_location::current()) {
        return capture(std::span<stream_ref const>{&s, 1}, std::forward<F>(f), where);
    }

    /// Releases the memory of graphs that do not run, of all graphs of the process on the device. Returns the bytes that the budget got
    /// back. Throws: cuda_error.
    std::size_t trim();

    /// Returns the bytes charged.
    [[nodiscard]] std::size_t held() const;

private:
    // Adds the capture in progress.
    void join();
    // Throws: usage_error if moved from.
    [[nodiscard]] detail::graph_memory_state& state() const;

    detail::intrusive_ptr<detail::graph_memory_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>

namespace cuota::inline v0::detail {

class memory_of_graph;

/// The account of a device's graphs. Graphs share it, so it lives as long as the last of them.
///
///     settled_  what the driver reported after the last launch or trim, and is charged
///     pending_  charged for launches that have not been settled yet
class graph_memory_state : public ref_counted {
public:
    graph_memory_state(budget account, device where, label who);
    graph_memory_state(graph_memory_state const&) = delete;
    graph_memory_state& operator=(graph_memory_state const&) = delete;
    ~graph_memory_state();

    /// Changes with each trim, after which graphs that did not run have no memory.
    [[nodiscard]] std::uint64_t trims() const noexcept { return trims_.load(std::memory_order_acquire); }

    void enter(memory_of_graph& graph);
    void leave(memory_of_graph& graph) noexcept;
    void set_needed(memory_of_graph& graph, std::size_t bytes);

    /// Charges what the driver will allocate for a launch on s, and returns it. Throws: budget_exceeded; nothing is charged.
    [[nodiscard]] std::size_t charge_launch(memory_of_graph& graph, stream_ref s, source_location where);
    /// Replaces the charge of a launch by what the driver reports.
    void settle(memory_of_graph& graph, std::size_t pending, bool is_enqueued) noexcept;

    std::size_t trim();
    [[nodiscard]] std::size_t held() const;
    [[nodiscard]] device where() const noexcept { return where_; }

private:
    static constexpr std::size_t most_devices = 64;
    CUOTA_PROCESS_STATE [[nodiscard]] static std::atomic<bool>& is_taken(device where) noexcept;

    // Graphs of one stream share memory; those of different streams do not.
    [[nodiscard]] std::size_t needed_with(memory_of_graph const& launched, std::uint64_t on) const;
    [[nodiscard]] std::size_t reclaimable() const;
    void give_back(std::size_t bytes) noexcept;

    budget account_;
    device const where_;
    label const who_;
    mutable object_lock guard_;
    std::vector<memory_of_graph*> graphs_{};  // of all captures that have not been destroyed
    std::size_t settled_ = 0;
    std::size_t pending_ = 0;
    std::atomic<std::uint64_t> trims_ = 0;
    std::optional<reclaimer> reclaimer_{};  // the last member: its end waits for a call
};

/// One graph's use of the account. Threads: those of a graph, one at a time; members with a comment under the account's lock.
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
        trims_ = account_->trims();
        is_settling_ = needed != 0 && !(steady_on_ == s.id() && steady_since_ == trims_);
        if (!is_settling_) return;
        pending_ = account_->charge_launch(*this, s, where);
        steady_on_ = s.id();
        steady_since_ = trims_;
    }
    void end_launch(stream_ref, bool is_enqueued) noexcept override {
        relief_.reset();
        if (needed == 0) return;
        if (!is_enqueued) steady_on_ = 0;
        // A trim beside the launch may have taken the memory that was charged.
        if (is_settling_ || account_->trims() != trims_)
            account_->settle(*this, std::exchange(pending_, 0), is_enqueued);
    }
    [[nodiscard]] bool relieve(std::size_t bytes) noexcept override {
        if (!relief_) relief_.emplace(account_->where());
        return relief_->relieve(bytes);
    }

    // Written under the account's lock:
    std::size_t needed = 0;
    std::uint64_t stream = 0;  // of the last launch since a trim; 0: none
    std::uint64_t stream_before = 0;
    std::optional<shared_stream> last{};

private:
    intrusive_ptr<graph_memory_state> const account_;
    std::uint64_t trims_ = 0;  // at the last launch
    // A launch on this stream while trims() is this number needs no more memory.
    std::uint64_t steady_on_ = 0, steady_since_ = 0;
    bool is_settling_ = false;
    std::size_t pending_ = 0;
    std::optional<driver_relief> relief_{};
};

CUOTA_INLINE graph_memory_state::graph_memory_state(budget account, device where, label who)
    : account_{std::move(account)}, where_{where}, who_{who} {
    if (is_taken(where).exchange(true))
        throw_usage_error(who.where, "graph_memory: device {} has one already, which its graphs keep alive",
                          {where.ordinal()});
    try {
        reclaimer_.emplace(
            account_, who.name, [this](std::size_t) { return reclaimable(); },
            [this](std::size_t) { return trim(); }, 0, who.where);
    } catch (...) {
        is_taken(where).store(false);
        throw;
    }
}

CUOTA_INLINE graph_memory_state::~graph_memory_state() {
    if (guard_.is_of_parent()) return;
    reclaimer_.reset();
    (void)report_failure_of([&] { rt::trim_memory_of_graphs(where_); });
    give_back(settled_);  // the rest is of graphs captured elsewhere
    is_taken(where_).store(false);
}

CUOTA_INLINE std::atomic<bool>& graph_memory_state::is_taken(device where) noexcept {
    static std::array<std::atomic<bool>, most_devices> taken{};
    return taken[static_cast<std::size_t>(where.ordinal()) % most_devices];
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

CUOTA_INLINE std::size_t graph_memory_state::needed_with(memory_of_graph const& launched,
                                                         std::uint64_t on) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> most;
    for (memory_of_graph const* g : graphs_) {
        std::uint64_t const stream = g == &launched ? on : g->stream;
        if (stream == 0) continue;
        auto const of = std::ranges::find(most, stream, &std::pair<std::uint64_t, std::size_t>::first);
        if (of == most.end()) most.emplace_back(stream, g->needed);
        else of->second = std::max(of->second, g->needed);
    }
    std::size_t sum = 0;
    for (auto const& [stream, bytes] : most) sum = saturating_add(sum, bytes);
    return sum;
}

CUOTA_INLINE std::size_t graph_memory_state::charge_launch(memory_of_graph& graph, stream_ref s,
                                                           source_location where) {
    std::uint64_t const on = s.id();
    std::size_t charged = 0;  // by this call so far
    for (;;) {
        std::size_t missing = 0;
        {
            region_lock const lock{guard_};
            std::size_t const all = needed_with(graph, on), known = settled_ + pending_;
            missing = all > known ? all - known : 0;
            if (missing <= charged) {
                graph.stream_before = std::exchange(graph.stream, on);
                graph.last.emplace(s);
                pending_ += missing;
            }
        }
        if (missing <= charged) {
            give_back(charged - missing);
            return missing;
        }
        // A request that does not fit may trim, and then more is missing.
        give_back(std::exchange(charged, 0));
        account_.charge(missing, who_.name, where);
        count_taken(where_, missing);
        charged = missing;
    }
}

CUOTA_INLINE void graph_memory_state::settle(memory_of_graph& graph, std::size_t pending,
                                             bool is_enqueued) noexcept {
    std::optional<std::size_t> reported;
    (void)report_failure_of([&] { reported = rt::memory_of_graphs(where_); });
    std::size_t surplus = 0, missing = 0;
    {
        std::lock_guard const lock{guard_};
        if (!is_enqueued) graph.stream = graph.stream_before;
        std::size_t const known = settled_ + pending_, mine = settled_ + pending;
        pending_ -= pending;
        settled_ = mine;
        if (reported && *reported < mine) surplus = mine - *reported;
        else if (reported && *reported > known) missing = *reported - known;
        settled_ -= surplus;
    }
    give_back(surplus);
    if (missing == 0) return;
    if (account_.try_charge(missing)) {
        count_taken(where_, missing);
        std::lock_guard const lock{guard_};
        settled_ += missing;
        return;
    }
    (void)report_failure_of([&] {
        throw_usage_error(
            who_.where,
            "graph_memory: the driver allocated {} for graphs that budget {} has no room for; they "
            "are not charged: graphs of others, or a driver that shares less",
            {as_bytes(missing), account_.name()});
    });
}

CUOTA_INLINE std::size_t graph_memory_state::trim() {
    {
        region_lock const lock{guard_};
        for (memory_of_graph* const g : graphs_) {
            bool is_running = true;  // also on a stream that cannot be asked now
            try {
                is_running = g->last && !stream_ref{*g->last}.is_idle();
            } catch (...) {}
            if (!is_running) g->stream = 0;
        }
        trims_.fetch_add(1, std::memory_order_release);
    }
    rt::trim_memory_of_graphs(where_);
    std::size_t const reported = rt::memory_of_graphs(where_);
    std::size_t freed = 0;
    {
        region_lock const lock{guard_};
        freed = settled_ - std::min(settled_, reported);
        settled_ -= freed;
    }
    give_back(freed);
    return freed;
}

CUOTA_INLINE std::size_t graph_memory_state::held() const {
    region_lock const lock{guard_};
    return settled_ + pending_;
}

CUOTA_INLINE std::size_t graph_memory_state::reclaimable() const { return held(); }

CUOTA_INLINE void graph_memory_state::give_back(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    account_.refund(bytes, who_.where);
    count_given_back(where_, bytes);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::graph_memory_state>;
#endif

CUOTA_INLINE graph_memory::graph_memory(budget account, device where, tag name, source_location site)
    : state_{detail::intrusive_ptr<detail::graph_memory_state>::make(std::move(account), where,
                                                                     label{name, site})} {}

CUOTA_INLINE graph_memory::~graph_memory() = default;

CUOTA_INLINE void graph_memory::join() {
    detail::capture_scope& scope = *detail::capture_scope::here();
    (void)scope.use_of<detail::memory_of_graph>(
        &state(), [&] { return detail::intrusive_ptr<detail::memory_of_graph>::make(state_); });
}

CUOTA_INLINE detail::graph_memory_state& graph_memory::state() const {
    if (!state_) detail::throw_usage_error("graph_memory: cannot be used after it was moved from");
    return *state_;
}

CUOTA_INLINE std::size_t graph_memory::trim() { return state().trim(); }
CUOTA_INLINE std::size_t graph_memory::held() const { return state().held(); }

}  // namespace cuota::inline v0

#endif
