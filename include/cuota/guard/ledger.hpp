// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The account behind a budget: exact, in a tree, and mostly without a lock.
///
/// Of every node the tree knows under its lock what is *taken*: what is held there and below, and what stocks (see
/// stock.hpp) hold ready. So held <= taken, and taken is never over the limit, nor over the most that was ever held:
/// with that, no stock can pass a limit or a peak, and both are exact although nobody tells them of each charge. Who
/// needs bytes that idle in the stocks of others calls those in, and knows then exactly what is held.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/guard/ledger_tree.hpp>
#include <cuota/guard/stock.hpp>

namespace cuota::inline v0::detail {

/// One node. A charge is made here and at every ancestor; a prepaid node's limit was charged to its parent before.
class ledger final : public ref_counted {
public:
    /// What a charge met: the node that cannot take it and how much it lacks; no node when it was charged.
    struct outcome {
        ledger* refuser = nullptr;
        std::size_t missing = 0;
    };

    /// Who holds bytes, and of which node. The node is alive while the tree's lock, or he, is held.
    struct stake {
        ledger const* at;
        shared<stakeholder> who;
    };

    ledger(std::string name, std::size_t limit, shared<ledger> parent)
        : name_{std::move(name)},
          limit_{limit},
          parent_{std::move(parent)},
          tree_{parent_ ? parent_->tree_ : shared<ledger_tree>::make()} {}
    ~ledger() {
        {
            ledger_change const change{*tree_};
            collect([this](stock& s) { return s.node() == this; }, this_thread_record());
        }
        // Nobody can refund it any more, and the memory is perhaps still there: so its parent keeps the charge.
        if (parent_ && own_ != 0)
            report_failure_of([this] {
                throw misuse{"budget " + name_ + " ended while " + bytes_text(own_) +
                             " were charged to it and not refunded; " + parent_->name_ +
                             " keeps them charged"};
            });
    }

    /// A node whose limit, 0 at first, is what its parent is charged for it.
    [[nodiscard]] static shared<ledger> prepaid(std::string name, shared<ledger> parent) {
        auto child = shared<ledger>::make(std::move(name), std::size_t{0}, std::move(parent));
        child->prepaid_ = true;
        return child;
    }

    /// Charges this node and its ancestors, or none of them. Exact under any number of threads: no node is over its
    /// limit for an instant, and false means that at one instant since the call the bytes did not fit.
    /// Cost: a few loads and stores if this thread gave back as much here before; else the tree's lock.
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept {
        thread_record* const me = this_thread();
        stock* const mine = me ? &stock_of(*me) : nullptr;
        if (mine && mine->try_use(*me, bytes)) [[likely]]
            return true;
        return !will_not_fit(bytes, mine, me) && try_charge_by_lock(bytes);
    }

    /// Charges what this thread holds ready; false says nothing about whether it fits. Without a lock.
    [[nodiscard]] bool try_charge_alone(std::size_t bytes) noexcept {
        thread_record* const me = this_thread();
        return me && stock_of(*me).try_use(*me, bytes);
    }

    /// As try_charge, always by the tree's lock; says who refused.
    [[nodiscard]] outcome charge_or_say(std::size_t bytes, label const* who = nullptr) noexcept {
        ledger_change const change{*tree_};
        plan const p = plan_for(bytes, this_thread());
        if (ledger* const refuser = refuser_of(p.need, p.from))
            return {refuser, p.need - refuser->room_here()};
        if (p.from) {
            p.from->extend(p.need, bytes);
            for (ledger* node = this; node; node = node->next()) node->lent_ += p.need;
        } else {
            own_ += bytes;
        }
        take(p.need, p.from, who);
        return {};
    }

    /// What `bytes` more, limit() at most, lack here, with what threads hold ready called in.
    [[nodiscard]] std::size_t missing_for(std::size_t bytes) noexcept {
        ledger_change const change{*tree_};
        collect_under(*this, nullptr);
        std::size_t const over = taken_ - std::min<std::size_t>(taken_, limit_);
        return bytes - std::min(bytes, room_here()) + over;
    }

    /// Asks the outer limit, if there is one, when its last answer is too old. Outside the lock.
    void look_if_stale() noexcept {
        if (tree_->outer && tree_->outer->is_stale()) tree_->outer->look(root());
    }
    /// Asks it again before a refusal. True when that may have changed something.
    [[nodiscard]] bool look_again(outcome const& met) noexcept {
        return tree_->outer && met.refuser == &root() && tree_->outer->look(root());
    }
    /// For an outer limit: a new limit, which may be under what is held; then nothing more is charged.
    bool set_limit(std::size_t bytes) noexcept {
        ledger_change const change{*tree_};
        bool const is_higher = bytes > limit_;
        limit_ = bytes;
        if (taken_ > limit_) collect_under(*this, nullptr);
        tell();
        return is_higher;
    }
    void set_outer_limit(std::unique_ptr<outer_limit> outer) noexcept { tree_->outer = std::move(outer); }
    [[nodiscard]] outer_limit* outer() const noexcept { return tree_->outer.get(); }

    /// False when more would be given back than was charged here and is still held: then nothing changed.
    [[nodiscard]] bool try_refund(std::size_t bytes) noexcept {
        thread_record* const me = this_thread();
        if (me && stock_of(*me).try_put_back(*me, bytes)) [[likely]]
            return true;
        return refund_by_lock(bytes, me);
    }

    /// Charges the parent of a prepaid node and makes the bytes spendable here.
    [[nodiscard]] outcome fund(std::size_t bytes, label const* who = nullptr) noexcept {
        ledger_change const change{*tree_};
        if (ledger* const refuser = parent_->refuser_of(bytes, nullptr))
            return {refuser, bytes - refuser->room_here()};
        limit_ += bytes;
        tell();
        parent_->take(bytes, nullptr, who);
        return {};
    }
    /// Gives back bytes of a prepaid node that nobody uses. False when there are not as many: nothing changed.
    [[nodiscard]] bool try_unfund(std::size_t bytes) noexcept {
        ledger_change const change{*tree_};
        collect_under(*this, nullptr);
        if (bytes > room_here()) return false;
        shrink(bytes);
        return true;
    }
    /// A prepaid node gives back what nobody uses, now, and from now on what is refunded.
    void settle() noexcept {
        ledger_change const change{*tree_};
        collect_under(*this, nullptr);
        settled_ = true;
        shrink(room_here());
    }

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] shared<ledger> const& parent() const noexcept { return parent_; }
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    /// What was charged to this node itself and not refunded. Bytes.
    [[nodiscard]] std::size_t charged_here() const noexcept {
        std::scoped_lock const lock{tree_->guard};
        std::size_t used = 0;
        for (stock const& s : stocks_) used += s.used();
        return own_ + used;
    }
    /// Exact while no other thread charges; else each thread's part is of its own moment.
    [[nodiscard]] budget_facts now() const {
        std::scoped_lock const lock{tree_->guard};
        return facts_with(held());
    }
    /// The most that can be charged here at this moment, by every node up to the root.
    [[nodiscard]] std::size_t room() const noexcept {
        std::scoped_lock const lock{tree_->guard};
        std::size_t room = unlimited;
        for (ledger const* node = this; node; node = node->next()) room = std::min(room, node->free());
        return room;
    }
    void reset_peak() noexcept {
        ledger_change const change{*tree_};
        collect_under(*this, nullptr);
        peak_ = taken_;
    }

    /// Calls `see(node, its facts)` from here up to the root, all of one instant; returns the node that would refuse
    /// `bytes` then, if any.
    template <class See>
    [[nodiscard]] ledger* look_up(std::size_t bytes, See see) {
        ledger_change const change{*tree_};
        ledger* refuser = nullptr;
        collect_under(top(), nullptr);
        for (ledger* node = this; node; node = node->next()) {
            if (!refuser && bytes > node->room_here()) refuser = node;
            see(*node, node->facts_with(node->taken_));
        }
        return refuser;
    }

    /// Those who hold bytes that `concerns(node)`.
    template <class Concerns>
    [[nodiscard]] std::vector<stake> stakeholders(Concerns concerns) const;
    void join(stakeholder& s) {
        std::scoped_lock const lock{tree_->guard};
        tree_->stakeholders.emplace_back(this, &s);
    }
    void leave(stakeholder& s) noexcept {
        std::scoped_lock const lock{tree_->guard};
        std::erase_if(tree_->stakeholders, [&](auto const& entry) { return entry.second == &s; });
    }

    /// From now on `o` is told of each change here, and first of what is. No stock is open below: all changes go by
    /// the lock, and what is taken is what is held.
    void join(onlooker& o) noexcept {
        ledger_change const change{*tree_};
        collect_under(*this, nullptr);
        o.next_here = std::exchange(onlookers_, &o);
        tell(o, nullptr);
    }
    void leave(onlooker& o) noexcept {
        std::scoped_lock const lock{tree_->guard};
        onlooker** at = &onlookers_;
        while (*at != &o) at = &(*at)->next_here;
        *at = o.next_here;
    }

    /// Keeps the refusal here and at every ancestor, until the next one.
    void remember(budget_exceeded const& refused) {
        for (ledger* node = this; node; node = node->parent_.get()) {
            std::optional<budget_exceeded> before{refused};  // the last owner must not go under the lock
            std::scoped_lock const lock{tree_->guard};
            std::swap(node->last_refusal_, before);
        }
    }
    [[nodiscard]] std::optional<budget_exceeded> last_refusal() const {
        std::scoped_lock const lock{tree_->guard};
        return last_refusal_;
    }

    [[nodiscard]] bool is_under(ledger const& ancestor) const noexcept {
        for (ledger const* node = this; node; node = node->parent_.get())
            if (node == &ancestor) return true;
        return false;
    }
    /// As is_under, but what is refunded under a prepaid node stays there.
    [[nodiscard]] bool refunds_to(ledger const& ancestor) const noexcept {
        for (ledger const* node = this; node; node = node->next())
            if (node == &ancestor) return true;
        return false;
    }

    /// True when what is refunded here is room there: what is under a prepaid node stays there, until that has ended;
    /// then it goes on to its parent. Under the tree's lock, as in stakeholders(concerns).
    [[nodiscard]] bool makes_room_in(ledger const& ancestor) const noexcept {
        ledger const* node = this;
        while (node && node != &ancestor) node = node->settled_ ? node->parent_.get() : node->next();
        return node && !node->settled_;
    }

private:
    static constexpr std::size_t stocks = 16;  // threads beyond that many share, and mostly go by the lock

    // How a charge will be made: `need` more bytes from the tree, into a stock or not.
    struct plan {
        stock* from;
        std::size_t need;
    };

    [[nodiscard]] ledger* next() noexcept { return prepaid_ ? nullptr : parent_.get(); }
    [[nodiscard]] ledger const* next() const noexcept { return prepaid_ ? nullptr : parent_.get(); }
    [[nodiscard]] stock& stock_of(thread_record const& who) noexcept { return stocks_[who.index % stocks]; }

    // Without the lock: true when it certainly does not fit, even if all others had their stocks empty. Proved by
    // figures of one instant, which is when nobody has changed any meanwhile. The node that refused last is looked at
    // first, so that it costs the same at any depth; and inlined, as a success is.
    [[nodiscard, gnu::always_inline]] inline bool will_not_fit(std::size_t bytes, stock const* mine,
                                                               thread_record const* me) noexcept {
        ledger_tree const& tree = *tree_;
        std::size_t const version = tree.version.now();
        if (version % 2 != 0 || tree.outer) return false;
        stock::numbers const ready = mine ? mine->seen_by(*me) : stock::numbers{};
        std::size_t const need = bytes - std::min(bytes, ready.grant - ready.used);
        ledger const& last = *tightest_.load(std::memory_order_relaxed);
        if (!last.surely_lacks(need, ready.grant)) return find_tightest(need, ready.grant, version);
        return tree.version.now() == version;
    }
    [[nodiscard, gnu::noinline]] bool find_tightest(std::size_t need, std::size_t granted,
                                                    std::size_t version) noexcept {
        ledger const* node = this;
        while (node && !node->surely_lacks(need, granted)) node = node->next();
        if (!node) return false;
        tightest_.store(node, std::memory_order_relaxed);
        return tree_->version.now() == version;
    }
    // Of figures that may not belong together: then the answer means nothing. Where no limit is below what is held.
    [[nodiscard]] bool surely_lacks(std::size_t need, std::size_t granted) const noexcept {
        return need > limit_ - (taken_ - lent_ + granted);
    }

    [[gnu::noinline]] bool try_charge_by_lock(std::size_t bytes) noexcept {
        look_if_stale();
        outcome const met = charge_or_say(bytes);
        return !met.refuser || (look_again(met) && !charge_or_say(bytes).refuser);
    }

    [[gnu::noinline]] bool refund_by_lock(std::size_t bytes, thread_record* me) noexcept {
        ledger_change const change{*tree_};
        stock* const mine = me && stock_of(*me).is_of(*me) ? &stock_of(*me) : nullptr;
        std::size_t const used = mine ? mine->used() : 0;
        if (bytes > own_ + used) {
            collect([&](stock& s) { return s.node() == this && &s != mine; }, me);
            if (bytes > own_ + used) return false;
        }
        std::size_t const from_own = std::min(bytes, own_);
        own_ -= from_own;
        if (mine) mine->put_back(bytes - from_own);
        drop(from_own);
        return true;
    }

    // All of these under the tree's lock.

    [[nodiscard]] budget_facts facts_with(std::size_t held) const {
        return {name_, limit_, held, peak_, prepaid_, settled_};
    }
    [[nodiscard]] std::size_t room_here() const noexcept {
        return limit_ - std::min<std::size_t>(limit_, taken_);
    }
    [[nodiscard]] std::size_t free() const noexcept { return limit_ - std::min<std::size_t>(limit_, held()); }
    [[nodiscard]] std::size_t held() const noexcept {
        std::size_t idle = 0;
        for (stock* s = tree_->open; s; s = s->next_open())
            if (s->node()->refunds_to(*this)) idle += s->idle();
        return taken_ - std::min<std::size_t>(taken_, idle);
    }
    [[nodiscard]] ledger& root() noexcept { return parent_ ? parent_->root() : *this; }
    [[nodiscard]] ledger& top() noexcept {
        ledger* node = this;
        while (ledger* const above = node->next()) node = above;
        return *node;
    }
    // False where each charge is somebody's business: who looks on, or whom a settled node gives back to.
    [[nodiscard]] bool may_lend() const noexcept {
        ledger const* node = this;
        for (; !node->onlookers_; node = node->next())
            if (!node->next()) return !node->settled_;
        return false;
    }

    [[nodiscard]] plan plan_for(std::size_t bytes, thread_record* me) noexcept {
        if (!me) return {nullptr, bytes};
        stock& mine = stock_of(*me);
        std::size_t const most = tree_->outer ? tree_->outer->most_in_stock() : unlimited;
        if (mine.is_of(*me)) {
            std::size_t const need = bytes - std::min(bytes, mine.idle());
            return need <= most - std::min(most, mine.grant()) ? plan{&mine, need} : plan{nullptr, bytes};
        }
        if (bytes > most || mine.is_open() || !mine.pays() || !may_lend()) return {nullptr, bytes};
        mine.open(*this, *me);
        mine.next_open() = std::exchange(tree_->open, &mine);
        return {&mine, bytes};
    }

    // The first node that cannot take the bytes, not even with what is called in from stocks other than `mine`.
    [[nodiscard]] ledger* refuser_of(std::size_t need, stock const* mine) noexcept {
        std::size_t const granted = mine ? mine->grant() : 0;
        for (ledger* node = this; node; node = node->next()) {
            if (need <= node->room_here()) continue;
            if (need - node->room_here() <= node->lent_ - granted) collect_under(*node, mine);
            if (need > node->room_here()) return node;
        }
        return nullptr;
    }

    // After it no stock has bytes idle that would make a new peak: taken is what is held, at every node that has one.
    void take(std::size_t need, stock const* mine, label const* who = nullptr) noexcept {
        std::size_t const granted = mine ? mine->grant() : 0;
        for (ledger* node = this; node; node = node->next()) node->taken_ += need;
        for (ledger* node = this; node; node = node->next()) {
            if (node->taken_ > node->peak_ && node->lent_ > granted) collect_under(*node, mine);
            node->peak_ = std::max<std::size_t>(node->peak_, node->taken_);
            node->tell(who);
        }
    }
    void drop(std::size_t bytes) noexcept {
        for (ledger* node = this; node; node = node->next()) node->taken_ -= bytes;
        if (ledger& last = top(); last.settled_) last.shrink(last.room_here());
        for (ledger* node = this; node; node = node->next()) node->tell();
    }
    void shrink(std::size_t bytes) noexcept {
        limit_ -= bytes;
        tell();
        parent_->drop(bytes);
    }

    void tell(label const* who = nullptr) noexcept {
        for (onlooker* o = onlookers_; o; o = o->next_here) tell(*o, who);
    }
    void tell(onlooker& o, label const* who) noexcept {
        if (!o.note({taken_, limit_, peak_, who})) return;
        o.next_due = nullptr;
        onlooker** at = &tree_->due;
        while (*at) at = &(*at)->next_due;
        *at = &o;
    }

    void collect_under(ledger const& node, stock const* but) noexcept {
        collect([&](stock& s) { return &s != but && s.node()->refunds_to(node); }, this_thread());
    }

    // Closes the open stocks that `chosen`; what they hold ready is given back, what is used belongs to their node.
    template <class Chosen>
    void collect(Chosen chosen, thread_record const* me) noexcept {
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
        if (others && fences_are_asymmetric()) heavy_fence();
        for (; closed; closed = closed->next_open()) {
            if (closed->holder() != me) {
                see_section_end(*closed->holder());
                closed->note_collected();
            }
            closed->node()->take_back(*closed);
        }
    }
    void take_back(stock& s) noexcept {
        own_ += s.used();
        for (ledger* node = this; node; node = node->next()) {
            node->taken_ -= s.idle();
            node->lent_ -= s.grant();
        }
        s.clear();
    }

    std::string const name_;
    figure limit_;
    figure taken_;  // held here and below, or idle in a stock here or below
    figure lent_;   // granted to stocks here and below: all that may change without the lock
    published<ledger const*> tightest_ = this;  // refused last, of this and its ancestors: a hint
    std::size_t own_ = 0;   // held by charges to this node, less what stocks count as used
    std::size_t peak_ = 0;  // the most that was held at an instant
    bool prepaid_ = false;
    bool settled_ = false;
    onlooker* onlookers_ = nullptr;
    std::optional<budget_exceeded> last_refusal_;
    shared<ledger> parent_;
    shared<ledger_tree> tree_;
    std::array<stock, stocks> stocks_;
};

}  // namespace cuota::inline v0::detail
