// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a recorder's observers of pools and budgets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/detail/pool_observer.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/report/detail/recording/held_pieces.hpp>
#include <cuota/report/detail/recording/recorder_state.hpp>
#include <cuota/report/snapshot/snapshot.hpp>

namespace cuota::inline v0::detail {

class recorder_taps;

/// Records the events of a pool, under its lock except for ended().
class pool_tap final : public pool_observer {
public:
    pool_tap(intrusive_ptr<recorder_taps> all, intrusive_ptr<recorder_state> to, std::uint16_t id) noexcept;
    CUOTA_INLINE_IN_PLACE ~pool_tap() override;

    [[nodiscard]] std::uint16_t id() const noexcept { return id_; }

    void allocated(observed_block const& b) noexcept override { put(event_kind::allocated, b); }
    void free_requested(observed_block const& b) noexcept override { put(event_kind::free_requested, b); }
    void free_completed(observed_block const& b) noexcept override { put(event_kind::free_completed, b); }
    CUOTA_INLINE_IN_PLACE void segment_allocated(void const* at, std::size_t bytes,
                                                 source_location where) noexcept override;
    CUOTA_INLINE_IN_PLACE void segment_freed(void const* at, std::size_t bytes) noexcept override;
    void step_begun(source_location where) noexcept override {
        put(event_kind::step_begun, nullptr, 0, where);
    }
    void step_ended() noexcept override { put(event_kind::step_ended, nullptr, 0, {}); }
    CUOTA_INLINE_IN_PLACE void ended() noexcept override;

private:
    void put(event_kind kind, observed_block const& b) noexcept;
    void put(event_kind kind, void const* at, std::size_t bytes, source_location where) noexcept;

    intrusive_ptr<recorder_taps> const all_;
    intrusive_ptr<recorder_state> const to_;
    std::uint16_t const id_;
};

/// Records the events of budgets, and observes each new pool.
class budget_tap final : public budget_observer {
public:
    explicit budget_tap(intrusive_ptr<recorder_taps> all) noexcept;
    CUOTA_INLINE_IN_PLACE ~budget_tap() override;

    CUOTA_INLINE_IN_PLACE void refused(ledger_node const& asked, out_of_memory const& why) noexcept override;
    CUOTA_INLINE_IN_PLACE void reclaimed(ledger_node const& asked,
                                         reclaimer_info const& who) noexcept override;
    CUOTA_INLINE_IN_PLACE void holds(ledger_node const& of, held_piece const& what) noexcept override;
    CUOTA_INLINE_IN_PLACE void joined(ledger_node const& of, reclaimable_holder& who) noexcept override;

private:
    intrusive_ptr<recorder_taps> const all_;
};

/// Threads: any.
class recorder_taps final : public ref_counted {
public:
    explicit recorder_taps(intrusive_ptr<recorder_state> to) noexcept : to_{std::move(to)}, held_{*to_} {}

    /// Does the work of recorder::watch, also for descendants observed before.
    void look_on(budget const& which);
    void look_on(ledger_node const& of, pool_state& pool);

    /// Records memory of a holder that is not a pool as a block of a resource, and frees the piece's earlier size. 0 bytes only free it.
    void held(ledger_node const& of, held_piece const& what);

    /// Returns or adds the source of a budget. Throws: usage_error for too many sources; std::bad_alloc.
    [[nodiscard]] std::uint16_t source_of(ledger_node const& node);
    [[nodiscard]] recorder_state& to() const noexcept { return *to_; }

    void forget(std::uint16_t id) noexcept;
    void let_go() noexcept;

    /// Returns the events of each pool up to its snapshot, and all snapshots.
    [[nodiscard]] recording read();

private:
    struct root_entry {
        budget which;
        intrusive_ptr<budget_observer> tap;
    };
    struct pool_entry {
        pool_state* pool;
        std::uint16_t id;
    };
    struct budget_source {
        std::uint64_t node;
        std::uint16_t id;
    };

    void enter(ledger_node const& of, pool_state& pool);
    [[nodiscard]] std::optional<std::uint16_t> find(pool_state const& pool) const noexcept;
    [[nodiscard]] std::uint16_t source_of_locked(ledger_node const& node);
    [[nodiscard]] std::vector<budget> roots() const;
    intrusive_ptr<recorder_state> const to_;
    object_lock joining_;        // serializes additions
    bool has_ended_ = false;     // guarded by joining_
    mutable object_lock guard_;  // guards the members below
    std::vector<root_entry> roots_;
    std::vector<pool_entry> pools_;
    std::vector<budget_source> budgets_;
    held_pieces held_;
};

inline pool_tap::~pool_tap() = default;

inline budget_tap::~budget_tap() = default;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE_IN_PLACE void pool_tap::segment_allocated(void const* at, std::size_t bytes,
                                                       source_location where) noexcept {
    put(event_kind::segment_allocated, at, bytes, where);
}

CUOTA_INLINE_IN_PLACE void pool_tap::segment_freed(void const* at, std::size_t bytes) noexcept {
    put(event_kind::segment_freed, at, bytes, {});
}

CUOTA_INLINE void pool_tap::put(event_kind kind, observed_block const& b) noexcept {
    to_->put(kind, id_, b.name, b.where, reinterpret_cast<std::uintptr_t>(b.at), b.bytes, b.size, b.stream);
}

CUOTA_INLINE void pool_tap::put(event_kind kind, void const* at, std::size_t bytes,
                                source_location where) noexcept {
    to_->put(kind, id_, {}, where, reinterpret_cast<std::uintptr_t>(at), bytes, 0, memory_event::no_stream);
}

CUOTA_INLINE void recorder_taps::look_on(budget const& which) {
    ledger_node& node = budget_access::node(which);
    region_lock const one_at_a_time{joining_};
    // Roots below the new one; not destroyed under a lock.
    std::vector<root_entry> inside;
    auto const tap = intrusive_ptr<budget_observer>::adopt(
        intrusive_ptr<budget_tap>::make(intrusive_ptr<recorder_taps>::of(*this)).detach());
    {
        region_lock const lock{guard_};
        for (root_entry const& r : roots_)
            if (node.is_under(budget_access::node(r.which))) return;
        roots_.push_back({which, tap});
        auto const below = std::stable_partition(roots_.begin(), roots_.end(), [&](root_entry const& r) {
            return r.which == which || !budget_access::node(r.which).is_under(node);
        });
        inside.assign(below, roots_.end());
        roots_.erase(below, roots_.end());
    }
    node.join(tap);
    for (root_entry const& r : inside) budget_access::node(r.which).leave(*r.tap);
    for (auto const& [at, who] :
         node.reclaimable_holders([&](ledger_node const& n) { return n.is_under(node); }))
        if (auto* const pool = dynamic_cast<pool_state*>(who.get())) enter(*at, *pool);
        else who->tell(*tap);
}

CUOTA_INLINE void recorder_taps::look_on(ledger_node const& of, pool_state& pool) {
    region_lock const one_at_a_time{joining_};
    if (!has_ended_) enter(of, pool);  // a delayed thread may report a pool late
}

CUOTA_INLINE void recorder_taps::held(ledger_node const& of, held_piece const& what) {
    region_lock const lock{guard_};
    held_.remove(what.which);
    if (what.bytes != 0) held_.add(what, source_of_locked(of));
}

CUOTA_INLINE std::uint16_t recorder_taps::source_of(ledger_node const& node) {
    region_lock const lock{guard_};
    return source_of_locked(node);
}

CUOTA_INLINE void recorder_taps::forget(std::uint16_t id) noexcept {
    {
        region_lock const lock{guard_};
        std::erase_if(pools_, [&](pool_entry const& p) { return p.id == id; });
    }
    to_->end_source(id);
}

CUOTA_INLINE void recorder_taps::let_go() noexcept {
    report_failure_of([&] {  // a pool that is being entered would stay observed
        region_lock const one_at_a_time{joining_};
        has_ended_ = true;
    });
    std::vector<root_entry> roots;
    std::vector<intrusive_ptr<pool_state>> pools;
    report_failure_of([&] {
        region_lock const lock{guard_};
        pools.reserve(pools_.size());
        for (pool_entry const& p : pools_)
            if (p.pool->try_add_ref()) pools.push_back(intrusive_ptr<pool_state>::adopt(p.pool));
        pools_.clear();
        roots = std::exchange(roots_, {});
    });
    for (root_entry const& r : roots) budget_access::node(r.which).leave(*r.tap);
    for (auto const& pool : pools) (void)pool->blocks().observe_no_more();
}

CUOTA_INLINE recording recorder_taps::read() {
    snapshot_taker taker{snapshot_detail::blocks};
    std::vector<std::uint64_t> cuts;
    std::vector<std::pair<std::uint16_t, std::size_t>> pools;
    std::vector<std::pair<std::uint16_t, ledger_node const*>> budgets;
    for (budget const& root : roots())
        taker.add(
            budget_access::node(root),
            [&](ledger_node const& node) { budgets.emplace_back(source_of(node), &node); },
            [&](pool_state const& pool, std::size_t index) {
                std::optional<std::uint16_t> const id = find(pool);
                if (!id) return;
                if (cuts.size() <= *id) cuts.resize(*id + std::size_t{1}, ~std::uint64_t{0});
                cuts[*id] = to_->next();
                pools.emplace_back(*id, index);
            });
    auto const pieces = [this] {
        region_lock const lock{guard_};
        return held_.all();
    }();
    recording r = to_->read(cuts);
    held_pieces::add_older(r, pieces);
    for (auto const& [id, node] : budgets)
        if (auto const index = taker.index_of(node))
            r.sources[id].limit = taker.seen().budgets[*index].facts.limit;
    r.final_snapshot = std::move(taker).take();
    for (auto const& [id, index] : pools) r.sources[id].pool = index;
    return r;
}

CUOTA_INLINE void recorder_taps::enter(ledger_node const& of, pool_state& pool) {
    if (find(pool)) return;
    event_source facts;
    facts.kind = source_kind::pool;
    facts.name = pool.blocks().name().text();
    facts.memory = pool.kind();
    facts.budget = source_of(of);
    if (facts.name.empty()) facts.name = "pool";
    if (auto const on = pool.on()) facts.device = on->ordinal();
    std::uint16_t const id = to_->add_source(std::move(facts));
    try {
        pool.blocks().observe(intrusive_ptr<pool_observer>::adopt(
            intrusive_ptr<pool_tap>::make(intrusive_ptr<recorder_taps>::of(*this), to_, id).detach()));
        region_lock const lock{guard_};
        pools_.push_back({&pool, id});
    } catch (...) {
        to_->end_source(id);
        throw;
    }
}

CUOTA_INLINE std::optional<std::uint16_t> recorder_taps::find(pool_state const& pool) const noexcept {
    region_lock const lock{guard_};
    auto const at = std::ranges::find(pools_, &pool, &pool_entry::pool);
    if (at == pools_.end()) return std::nullopt;
    return at->id;
}

CUOTA_INLINE std::uint16_t recorder_taps::source_of_locked(ledger_node const& node) {
    auto const at = std::ranges::find(budgets_, node.id(), &budget_source::node);
    if (at != budgets_.end()) return at->id;
    event_source facts;
    facts.kind = source_kind::budget;
    facts.name = node.name();
    facts.limit = node.limit();
    if (node.above()) facts.parent = source_of_locked(*node.above());
    budgets_.reserve(budgets_.size() + 1);
    std::uint16_t const id = to_->add_source(std::move(facts));
    budgets_.push_back({node.id(), id});
    return id;
}

CUOTA_INLINE std::vector<budget> recorder_taps::roots() const {
    region_lock const lock{guard_};
    std::vector<budget> all;
    for (root_entry const& r : roots_) all.push_back(r.which);
    return all;
}

CUOTA_INLINE pool_tap::pool_tap(intrusive_ptr<recorder_taps> all, intrusive_ptr<recorder_state> to,
                                std::uint16_t id) noexcept
    : all_{std::move(all)}, to_{std::move(to)}, id_{id} {}

CUOTA_INLINE_IN_PLACE void pool_tap::ended() noexcept { all_->forget(id_); }

CUOTA_INLINE budget_tap::budget_tap(intrusive_ptr<recorder_taps> all) noexcept : all_{std::move(all)} {}

// Records the refusal for the refusing budget: `asked` or an ancestor.
CUOTA_INLINE_IN_PLACE void budget_tap::refused(ledger_node const& asked, out_of_memory const& why) noexcept {
    report_failure_of([&] {
        refusal const& facts = why.info();
        budget_info const* const by = facts.refusing_budget();
        ledger_node const* whose = &asked;
        for (std::size_t i = 0; by && i != facts.refused_by && whose->above(); ++i) whose = whose->above();
        all_->to().put(event_kind::refused, all_->source_of(*whose), facts.request.name, facts.request.where,
                       0, facts.charged, by ? by->held : 0, memory_event::no_stream);
    });
}

CUOTA_INLINE_IN_PLACE void budget_tap::reclaimed(ledger_node const& asked,
                                                 reclaimer_info const& who) noexcept {
    report_failure_of([&] {
        all_->to().put(event_kind::reclaimed, all_->source_of(asked), tag::named(who.name), {}, 0,
                       who.released, who.requested, memory_event::no_stream);
    });
}

CUOTA_INLINE_IN_PLACE void budget_tap::holds(ledger_node const& of, held_piece const& what) noexcept {
    report_failure_of([&] { all_->held(of, what); });
}

CUOTA_INLINE_IN_PLACE void budget_tap::joined(ledger_node const& of, reclaimable_holder& who) noexcept {
    report_failure_of([&] {
        reclaimable_holder* const holder = &who;
        auto* const pool = dynamic_cast<pool_state*>(holder);
        if (pool) all_->look_on(of, *pool);
    });
}

}  // namespace cuota::inline v0::detail

#endif
