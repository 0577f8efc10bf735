// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One node of a tree of budgets: see docs/design/ledger.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/ledger_tree.hpp>
#include <cuota/guard/detail/stock.hpp>

namespace cuota::inline v0::detail {

/// Counters of a ledger. A prepaid node is a reservation's: its limit is charged to its parent.
class ledger_node : public ref_counted {
public:
    /// The node that refused a charge, or null, and its shortfall.
    struct outcome {
        ledger_node* refuser = nullptr;
        std::size_t missing = 0;
    };

    /// A holder and its node. The node is valid under the tree's lock, and as long as the holder exists.
    struct stake {
        ledger_node const* at;
        intrusive_ptr<reclaimable_holder> who;
    };

    /// Returns the shortfall for `bytes` <= limit(), after revoking stocks.
    [[nodiscard]] std::size_t shortfall_for(std::size_t bytes) noexcept;
    /// Returns the sum of all refunds and raised limits, after revoking stocks.
    [[nodiscard]] std::size_t released_total() noexcept;

    /// Queries an expired outer limit. Call without the lock.
    void refresh_if_stale() noexcept;
    /// Queries it before a refusal by the root. Returns true if the limit has risen.
    [[nodiscard]] bool refresh_after(outcome const& met) noexcept;
    /// Sets the limit, for an outer limit and up to its `most`; returns whether it has risen.
    bool set_limit(std::size_t bytes) noexcept;
    /// Sets the limit, or `most` of an outer limit. Returns 0; or without a change the excess, if the new limit is lower, that many bytes are
    /// held above it, and not `keeps_excess`.
    [[nodiscard]] std::size_t change_limit(std::size_t bytes, bool keeps_excess) noexcept;
    void set_outer_limit(light_unique_ptr<outer_limit> outer) noexcept { tree_->outer = std::move(outer); }
    [[nodiscard]] outer_limit* outer() const noexcept { return tree_->outer.get(); }

    /// Charges the parent of a prepaid node and raises this limit.
    [[nodiscard]] outcome fund(std::size_t bytes, label const* who = nullptr) noexcept;
    /// Returns false, and changes nothing, if fewer bytes of a prepaid node are unused.
    [[nodiscard]] bool try_unfund(std::size_t bytes) noexcept;
    /// Moves unused bytes of this prepaid node to another one of the same parent. Returns false, and changes nothing, if fewer are unused.
    [[nodiscard]] bool try_move_to(ledger_node& other, std::size_t bytes) noexcept;
    /// Moves all unused bytes.
    void move_unused_to(ledger_node& other) noexcept;
    /// Ends a prepaid node: returns its unused bytes now, and later each refund.
    void settle() noexcept;

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] ledger_node* above() const noexcept { return above_; }  ///< null for a root
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    [[nodiscard]] bool is_prepaid() const noexcept { return prepaid_; }
    [[nodiscard]] std::size_t charged_here() const noexcept;
    /// Exact while no other thread charges.
    [[nodiscard]] budget_info info() const;
    /// Counts every node up to top().
    [[nodiscard]] std::size_t available() const noexcept;
    void reset_peak() noexcept;

    /// Calls `see(node, facts)` from here up to top(), with facts of one instant. Returns the node that would have refused `bytes`.
    template <class See>
    [[nodiscard]] ledger_node* look_up(std::size_t bytes, See see) {
        ledger_change const change{*tree_};
        ledger_node* refuser = nullptr;
        collect_under(top(), nullptr);
        for (ledger_node* node = this; node; node = node->next()) {
            if (!refuser && bytes > node->available_here()) refuser = node;
            see(*node, node->info_with(node->taken_));
        }
        return refuser;
    }

    template <class Concerns>
    [[nodiscard]] dynamic_array<stake> reclaimable_holders(Concerns concerns) const;
    void join(reclaimable_holder& s);
    void leave(reclaimable_holder& s) noexcept;

    /// Notifies `o` now and of each later change here. No stock is open below meanwhile.
    void join(usage_observer& o);
    void leave(usage_observer& o) noexcept;

    /// This node must live until `o` leaves.
    void join(intrusive_ptr<budget_observer> o);
    /// A notification in progress on another thread may arrive afterwards.
    void leave(budget_observer const& o) noexcept;
    /// Calls tell(observer) for the observers of this node and its ancestors.
    template <class Tell>
    void tell_observers(Tell tell) const noexcept {
        if (is_of_parent()) return;
        dynamic_array<intrusive_ptr<budget_observer>> told;
        report_failure_of([&] {
            region_lock const lock{tree_->guard};
            for (auto const& [at, o] : tree_->observers)
                if (is_under(*at)) told.push_back(o);
        });
        for (auto const& o : told) tell(*o);
    }

    /// Calls see(node, facts) for this node and all below, parents first, of one instant.
    template <class See>
    void look_down(See see) {
        ledger_change const change{*tree_};
        collect_under(top(), nullptr);
        for (ledger_node const* node : tree_->nodes)
            if (node->is_under(*this)) see(*node, node->info_with(node->held()));
    }
    /// Unique in the process, past nodes included.
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

    /// Throws usage_error in a library with another process state than the tree's.
    void refuse_other_state(source_location where) const {
        if (tree_->state != process_state()) [[unlikely]]
            detail::refuse_other_state(tree_->state, ("budget " + name_).c_str(), where);
    }

    /// Stores the refusal here and at every ancestor.
    void remember(budget_exceeded const& refused);
    [[nodiscard]] std::optional<budget_exceeded> last_refusal() const;

    [[nodiscard]] bool is_under(ledger_node const& ancestor) const noexcept;
    /// Like is_under, but refunds below a prepaid node stay in it.
    [[nodiscard]] bool refunds_to(ledger_node const& ancestor) const noexcept;

    /// Returns whether a refund here, perhaps through ended prepaid nodes, increases the available bytes of `ancestor`. Requires the tree's
    /// lock.
    [[nodiscard]] bool refunds_in(ledger_node const& ancestor) const noexcept;

protected:
    /// `above` must outlive this node.
    ledger_node(std::string name, std::size_t limit, ledger_node* above, bool is_reservation);
    ~ledger_node() = default;

    /// Requires the tree's lock; the ancestors must still exist.
    void leave_tree() noexcept {
        tree_->nodes.erase_if([this](ledger_node const* node) { return node == this; });
    }

private:
    friend class ledger;

    [[nodiscard]] ledger_node* next() const noexcept { return prepaid_ ? nullptr : above_; }

    // Reads without the lock: valid only if the version has not changed. Requires held <= limit at every node.
    [[nodiscard]] bool surely_lacks(std::size_t need, std::size_t granted) const noexcept;

    // All below require the tree's lock.

    [[nodiscard]] budget_info info_with(std::size_t held) const;
    [[nodiscard]] std::size_t available_here() const noexcept;
    [[nodiscard]] std::size_t free() const noexcept { return limit_ - std::min<std::size_t>(limit_, held()); }
    [[nodiscard]] std::size_t held() const noexcept;
    [[nodiscard]] std::size_t coming() const noexcept;
    // Clamped: a program that refunds bytes never charged may have refunded bytes not allocated yet.
    [[nodiscard]] std::size_t arrived() const noexcept {
        return taken_ - std::min<std::size_t>(taken_, coming_);
    }
    [[nodiscard]] ledger_node& root() noexcept { return above_ ? above_->root() : *this; }
    [[nodiscard]] ledger_node& top() noexcept;
    // Not under a usage_observer, which must see every charge, nor under an ended reservation, which returns each refund, nor where more is
    // held than a lowered limit: a refund to a stock could be charged again.
    [[nodiscard]] bool may_lend() const noexcept;

    // Returns the first node without room even with all stocks but `mine` revoked.
    [[nodiscard]] ledger_node* refuser_of(std::size_t need, stock const* mine) noexcept;

    // Charges up to top(), with other stocks revoked where that sets a peak.
    void take(std::size_t need, stock const* mine, label const* who = nullptr) noexcept;
    void raise_peaks(stock const* mine, label const* who) noexcept;
    void drop(std::size_t bytes) noexcept;
    void shrink(std::size_t bytes) noexcept;
    void raise(std::size_t bytes) noexcept;
    bool apply_limit(std::size_t bytes) noexcept;

    void tell(label const* who = nullptr) noexcept;
    void tell(usage_observer& o, label const* who) noexcept;

    void collect_under(ledger_node const& node, stock const* but) noexcept;

    // Closes the `chosen` open stocks: releases their idle bytes, moves their used bytes to own_ and their coming ones to coming_.
    template <class Chosen>
    void collect(Chosen chosen, thread_slot const* me) noexcept {
        stock* closed = nullptr;
        bool others = false;
        for (stock** at = &tree_->open; *at;) {
            stock& s = **at;
            if (!chosen(s)) {
                at = &s.next_open();
                continue;
            }
            s.close();
            others |= s.holder() != me;
            *at = s.next_open();
            s.next_open() = std::exchange(closed, &s);
        }
        if (others && fences_are_asymmetric()) asymmetric_fence_heavy();
        for (; closed; closed = closed->next_open()) {
            if (closed->holder() != me) {
                wait_for_owner_section(*closed->holder());
                closed->note_revocation();
            }
            closed->node()->take_back(*closed);
        }
    }
    void take_back(stock& s) noexcept;

    CUOTA_PROCESS_STATE [[nodiscard]] static std::uint64_t next_id() noexcept;

    std::string const name_;
    std::uint64_t const id_ = next_id();
    figure limit_;
    figure taken_;
    figure lent_;
    std::size_t own_ = 0;
    std::size_t peak_ = 0;
    std::size_t released_total_ = 0;
    std::size_t coming_ = 0;
    bool const prepaid_;
    bool settled_ = false;
    usage_observer* usage_observers_ = nullptr;
    refusal_access::state last_refusal_;
    ledger_node* const above_;
    intrusive_ptr<ledger_tree> const tree_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t ledger_node::shortfall_for(std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    std::size_t const over = taken_ - std::min<std::size_t>(taken_, limit_);
    return bytes - std::min(bytes, available_here()) + over;
}

CUOTA_INLINE std::size_t ledger_node::released_total() noexcept {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    return released_total_;
}

CUOTA_INLINE void ledger_node::refresh_if_stale() noexcept {
    if (is_of_parent()) return;
    if (tree_->outer && tree_->outer->is_stale()) tree_->outer->look(root());
}

CUOTA_INLINE bool ledger_node::refresh_after(outcome const& met) noexcept {
    return tree_->outer && met.refuser == &root() && tree_->outer->look(root());
}

CUOTA_INLINE bool ledger_node::set_limit(std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    if (tree_->outer) bytes = std::min(bytes, tree_->outer->most);
    return apply_limit(bytes);
}

CUOTA_INLINE std::size_t ledger_node::change_limit(std::size_t bytes, bool keeps_excess) noexcept {
    outer_limit* const outer = above_ ? nullptr : tree_->outer.get();
    {
        ledger_change const change{*tree_};
        if (taken_ > bytes) collect_under(*this, nullptr);
        bool const is_lower = bytes < (outer ? outer->most : std::size_t{limit_});
        if (taken_ > bytes && is_lower && !keeps_excess) return taken_ - bytes;
        if (outer) outer->most = bytes;
        apply_limit(outer ? std::min<std::size_t>(bytes, limit_) : bytes);
        if (is_lower) return 0;
    }
    if (outer) outer->look(*this);  // may raise it
    return 0;
}

CUOTA_INLINE bool ledger_node::apply_limit(std::size_t bytes) noexcept {
    bool const is_higher = bytes > limit_;
    if (is_higher) released_total_ += bytes - limit_;
    limit_ = bytes;
    if (taken_ > limit_) collect_under(*this, nullptr);
    tell();
    return is_higher;
}

CUOTA_INLINE auto ledger_node::fund(std::size_t bytes, label const* who) noexcept -> outcome {
    ledger_change const change{*tree_};
    if (ledger_node* const refuser = above_->refuser_of(bytes, nullptr))
        return {refuser, bytes - refuser->available_here()};
    raise(bytes);
    above_->take(bytes, nullptr, who);
    return {};
}

CUOTA_INLINE bool ledger_node::try_unfund(std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    if (bytes > available_here()) return false;
    shrink(bytes);
    return true;
}

CUOTA_INLINE bool ledger_node::try_move_to(ledger_node& other, std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    if (bytes > available_here()) return false;
    limit_ -= bytes;
    tell();
    other.raise(bytes);
    return true;
}

CUOTA_INLINE void ledger_node::move_unused_to(ledger_node& other) noexcept {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    std::size_t const unused = available_here();
    limit_ -= unused;
    tell();
    other.raise(unused);
}

CUOTA_INLINE void ledger_node::settle() noexcept {
    if (is_of_parent()) return;
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    settled_ = true;
    shrink(available_here());
}

CUOTA_INLINE std::size_t ledger_node::charged_here() const noexcept {
    if (is_of_parent()) return report_forked(), 0;
    region_lock const lock{tree_->guard};
    std::size_t used = 0;
    for (stock* s = tree_->open; s; s = s->next_open())
        if (s->node() == this) used += s->used();
    return own_ + used;
}

CUOTA_INLINE budget_info ledger_node::info() const {
    region_lock const lock{tree_->guard};
    return info_with(held());
}

CUOTA_INLINE std::size_t ledger_node::available() const noexcept {
    if (is_of_parent()) return report_forked(), 0;
    region_lock const lock{tree_->guard};
    std::size_t available = unlimited;
    for (ledger_node const* node = this; node; node = node->next())
        available = std::min(available, node->free());
    return available;
}

CUOTA_INLINE void ledger_node::reset_peak() noexcept {
    if (is_of_parent()) return report_forked();
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    peak_ = arrived();
}

CUOTA_INLINE void ledger_node::join(reclaimable_holder& s) {
    {
        region_lock const lock{tree_->guard};
        tree_->reclaimable_holders.emplace_back(this, &s);
    }
    tell_observers([&](budget_observer& o) { o.joined(*this, s); });
}

CUOTA_INLINE void ledger_node::leave(reclaimable_holder& s) noexcept {
    if (is_of_parent()) return;
    region_lock const lock{tree_->guard};
    tree_->reclaimable_holders.erase_if([&](auto const& entry) { return entry.second == &s; });
}

CUOTA_INLINE void ledger_node::join(usage_observer& o) {
    ledger_change const change{*tree_};
    collect_under(*this, nullptr);
    o.next_here = std::exchange(usage_observers_, &o);
    tell(o, nullptr);
}

CUOTA_INLINE void ledger_node::leave(usage_observer& o) noexcept {
    if (is_of_parent()) return;
    region_lock const lock{tree_->guard};
    usage_observer** at = &usage_observers_;
    while (*at != &o) at = &(*at)->next_here;
    *at = o.next_here;
}

CUOTA_INLINE void ledger_node::join(intrusive_ptr<budget_observer> o) {
    region_lock const lock{tree_->guard};
    tree_->observers.emplace_back(this, std::move(o));
}

CUOTA_INLINE void ledger_node::leave(budget_observer const& o) noexcept {
    if (is_of_parent()) return;
    intrusive_ptr<budget_observer> last;  // destroyed after the lock is released
    region_lock const lock{tree_->guard};
    auto* const at = tree_->observers.find_if(
        [&](auto const& entry) { return entry.first == this && entry.second.get() == &o; });
    if (at == tree_->observers.end()) return;
    last = std::move(at->second);
    tree_->observers.erase(at);
}

CUOTA_INLINE void ledger_node::remember(budget_exceeded const& refused) {
    keep_loaded(__builtin_return_address(0));  // the code that destroys the refusal
    keep_loaded(refused.info().request.where.file);
    for (ledger_node* node = this; node; node = node->above_) {
        refusal_access::state before = refusal_access::of(refused);  // destroyed after the lock is released
        region_lock const lock{tree_->guard};
        std::swap(node->last_refusal_, before);
    }
    tell_observers([&](budget_observer& o) { o.refused(*this, refused); });
}

CUOTA_INLINE std::optional<budget_exceeded> ledger_node::last_refusal() const {
    region_lock const lock{tree_->guard};
    if (!last_refusal_) return std::nullopt;
    return refusal_access::exception(last_refusal_);
}

CUOTA_INLINE bool ledger_node::is_under(ledger_node const& ancestor) const noexcept {
    for (ledger_node const* node = this; node; node = node->above_)
        if (node == &ancestor) return true;
    return false;
}

CUOTA_INLINE bool ledger_node::refunds_to(ledger_node const& ancestor) const noexcept {
    for (ledger_node const* node = this; node; node = node->next())
        if (node == &ancestor) return true;
    return false;
}

CUOTA_INLINE bool ledger_node::refunds_in(ledger_node const& ancestor) const noexcept {
    ledger_node const* node = this;
    while (node && node != &ancestor) node = node->settled_ ? node->above_ : node->next();
    return node && !node->settled_;
}

CUOTA_INLINE ledger_node::ledger_node(std::string name, std::size_t limit, ledger_node* above,
                                      bool is_reservation)
    : name_{std::move(name)},
      limit_{limit},
      prepaid_{is_reservation},
      above_{above},
      tree_{above_ ? above_->tree_ : intrusive_ptr<ledger_tree>::make()} {
    region_lock const lock{tree_->guard};
    tree_->nodes.push_back(this);
}

CUOTA_INLINE bool ledger_node::surely_lacks(std::size_t need, std::size_t granted) const noexcept {
    return need > limit_ - (taken_ - lent_ + granted);
}

CUOTA_INLINE budget_info ledger_node::info_with(std::size_t held) const {
    return {name_, limit_, held, peak_, prepaid_, settled_, coming()};
}

CUOTA_INLINE std::size_t ledger_node::available_here() const noexcept {
    return limit_ - std::min<std::size_t>(limit_, taken_);
}

CUOTA_INLINE std::size_t ledger_node::held() const noexcept {
    std::size_t idle = 0;
    for (stock* s = tree_->open; s; s = s->next_open())
        if (s->node()->refunds_to(*this)) idle += s->idle();
    return taken_ - std::min<std::size_t>(taken_, idle);
}

CUOTA_INLINE std::size_t ledger_node::coming() const noexcept {
    std::size_t all = coming_;
    for (stock* s = tree_->open; s; s = s->next_open())
        if (s->node()->refunds_to(*this)) all += s->coming();
    return all;
}

CUOTA_INLINE ledger_node& ledger_node::top() noexcept {
    ledger_node* node = this;
    while (ledger_node* const above = node->next()) node = above;
    return *node;
}

CUOTA_INLINE bool ledger_node::may_lend() const noexcept {
    ledger_node const* node = this;
    for (; !node->usage_observers_ && node->taken_ <= node->limit_; node = node->next())
        if (!node->next()) return !node->settled_;
    return false;
}

CUOTA_INLINE ledger_node* ledger_node::refuser_of(std::size_t need, stock const* mine) noexcept {
    std::size_t const granted = mine ? mine->grant() : 0;
    for (ledger_node* node = this; node; node = node->next()) {
        if (need <= node->available_here()) continue;
        if (need - node->available_here() <= node->lent_ - granted) collect_under(*node, mine);
        if (need > node->available_here()) return node;
    }
    return nullptr;
}

CUOTA_INLINE void ledger_node::take(std::size_t need, stock const* mine, label const* who) noexcept {
    for (ledger_node* node = this; node; node = node->next()) node->taken_ += need;
    raise_peaks(mine, who);
}

CUOTA_INLINE void ledger_node::raise_peaks(stock const* mine, label const* who) noexcept {
    std::size_t const granted = mine ? mine->grant() : 0;
    for (ledger_node* node = this; node; node = node->next()) {
        if (node->arrived() > node->peak_ && node->lent_ > granted) collect_under(*node, mine);
        node->peak_ = std::max<std::size_t>(node->peak_, node->arrived());
        node->tell(who);
    }
}

CUOTA_INLINE void ledger_node::drop(std::size_t bytes) noexcept {
    for (ledger_node* node = this; node; node = node->next()) {
        node->taken_ -= bytes;
        node->released_total_ += bytes;
    }
    if (ledger_node& last = top(); last.settled_) last.shrink(last.available_here());
    for (ledger_node* node = this; node; node = node->next()) node->tell();
}

CUOTA_INLINE void ledger_node::shrink(std::size_t bytes) noexcept {
    limit_ -= bytes;
    tell();
    above_->drop(bytes);
}

CUOTA_INLINE void ledger_node::raise(std::size_t bytes) noexcept {
    limit_ += bytes;
    released_total_ += bytes;
    tell();
}

CUOTA_INLINE void ledger_node::tell(label const* who) noexcept {
    for (usage_observer* o = usage_observers_; o; o = o->next_here) tell(*o, who);
}

CUOTA_INLINE void ledger_node::tell(usage_observer& o, label const* who) noexcept {
    if (!o.note({taken_, limit_, peak_, who})) return;
    o.next_due = nullptr;
    usage_observer** at = &tree_->due;
    while (*at) at = &(*at)->next_due;
    *at = &o;
}

CUOTA_INLINE void ledger_node::collect_under(ledger_node const& node, stock const* but) noexcept {
    collect([&](stock& s) { return &s != but && s.node()->refunds_to(node); }, this_thread());
}

CUOTA_INLINE void ledger_node::take_back(stock& s) noexcept {
    own_ += s.used();
    for (ledger_node* node = this; node; node = node->next()) {
        node->taken_ -= s.idle();
        node->released_total_ += s.idle();
        node->lent_ -= s.grant();
        node->coming_ += s.coming();
    }
    s.clear();
}

CUOTA_INLINE_STATE std::uint64_t ledger_node::next_id() noexcept {
    static constinit std::atomic<std::uint64_t> last = 0;
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace cuota::inline v0::detail

#endif
