// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The account behind a budget: see docs/design/ledger.md.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/ledger_node.hpp>

namespace cuota::inline v0::detail {

/// A node with stocks (stock.hpp) of the threads that charge it.
class ledger final : public ledger_node {
public:
    ledger(std::string name, std::size_t limit, intrusive_ptr<ledger> parent)
        : ledger{std::move(name), limit, std::move(parent), false} {}
    ~ledger();

    /// Makes the node of a reservation: its limit, at first 0, is charged to its parent.
    [[nodiscard]] static intrusive_ptr<ledger> prepaid(std::string name, intrusive_ptr<ledger> parent);
    [[nodiscard]] intrusive_ptr<ledger> const& parent() const noexcept { return parent_; }

    /// Charges this node and its ancestors, or none. False means that at one instant since the call the bytes did not fit.
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;

    /// Charges to this thread's stock only, without a lock.
    [[nodiscard]] bool try_charge_alone(std::size_t bytes) noexcept;

    /// Like try_charge, by the tree's lock; returns the node that refused.
    [[nodiscard]] outcome charge_or_say(std::size_t bytes, label const* who = nullptr) noexcept;

    /// Like charge_or_say, for memory not allocated yet: counts for limits, not for peaks. `arrived` or `did_not_come` must follow.
    [[nodiscard]] outcome charge_coming_or_say(std::size_t bytes, label const* who = nullptr) noexcept;
    [[nodiscard]] bool try_charge_coming(std::size_t bytes) noexcept;
    /// The bytes count for peaks from now on. Any thread may call it, once per charge.
    void arrived(std::size_t bytes) noexcept;
    void did_not_come(std::size_t bytes) noexcept;

    /// Charges memory that was allocated without a charge, also above the limits: nothing else fits until enough is refunded.
    void charge_allocated(std::size_t bytes) noexcept;

    /// Like try_charge_coming, from this thread's stock only, without a lock. `end_coming_alone` must follow in this thread.
    [[nodiscard]] bool try_charge_coming_alone(std::size_t bytes) noexcept;
    void end_coming_alone(std::size_t bytes, bool has_arrived) noexcept;

    /// Returns false, and changes nothing, if fewer bytes are charged to this node itself.
    [[nodiscard]] bool try_refund(std::size_t bytes) noexcept;

private:
    static constexpr std::size_t stocks = 16;  // further threads share, and mostly use the lock

    // A charge takes `need` more bytes from the tree, through the stock `from` unless null.
    struct plan {
        stock* from;
        std::size_t need;
    };

    ledger(std::string name, std::size_t limit, intrusive_ptr<ledger> parent, bool is_reservation);

    [[nodiscard]] stock& stock_of(thread_slot const& who) noexcept { return stocks_[who.index % stocks]; }

    // True if the bytes certainly do not fit, even with all other stocks empty.
    [[nodiscard, gnu::always_inline]] inline bool will_not_fit(std::size_t bytes, stock const* mine,
                                                               thread_slot const* me) noexcept {
        ledger_tree const& tree = *tree_;
        std::size_t const version = tree.version.now();
        if (version % 2 != 0 || tree.outer) return false;
        stock::numbers const ready = mine ? mine->seen_by(*me) : stock::numbers{};
        std::size_t const need = bytes - std::min(bytes, ready.grant - ready.used);
        ledger_node const& last = *tightest_.load(std::memory_order_relaxed);
        if (!last.surely_lacks(need, ready.grant)) return find_tightest(need, ready.grant, version);
        return tree.version.now() == version;
    }
    [[nodiscard, gnu::noinline]] bool find_tightest(std::size_t need, std::size_t granted,
                                                    std::size_t version) noexcept {
        ledger_node const* node = this;
        while (node && !node->surely_lacks(need, granted)) node = node->next();
        if (!node) return false;
        tightest_.store(node, std::memory_order_relaxed);
        return tree_->version.now() == version;
    }
    [[gnu::noinline]] bool try_charge_by_lock(std::size_t bytes) noexcept {
        if (is_of_parent()) [[unlikely]]
            return report_forked(), false;
        refresh_if_stale();
        outcome const met = charge_or_say(bytes);
        return !met.refuser || (refresh_after(met) && !charge_or_say(bytes).refuser);
    }

    [[gnu::noinline]] bool refund_by_lock(std::size_t bytes, thread_slot* me) noexcept {
        if (is_of_parent()) [[unlikely]]
            return true;  // the parent process made the charge
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

    // Returns the thread's stock, opened if necessary, if it may be granted `more` bytes.
    [[nodiscard]] stock* open_stock(std::size_t more, thread_slot* me) noexcept;
    [[nodiscard]] plan plan_for(std::size_t bytes, thread_slot* me) noexcept;

    intrusive_ptr<ledger> const parent_;
    published<ledger_node const*> tightest_ = this;  // hint: the last refuser
    std::array<stock, stocks> stocks_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE ledger::~ledger() {
    {
        ledger_change const change{*tree_};
        collect([this](stock& s) { return s.node() == this; }, this_thread_slot());
        leave_tree();
    }
    // The memory may still be allocated: the parent keeps the charge.
    if (parent_ && own_ != 0)
        report_failure_of([this] {
            throw_usage_error(
                "budget {} destroyed with {} still charged; they remain charged to its parent {}",
                {name_, as_bytes(own_), parent_->name_});
        });
}

CUOTA_INLINE intrusive_ptr<ledger> ledger::prepaid(std::string name, intrusive_ptr<ledger> parent) {
    return intrusive_ptr<ledger>::adopt(new ledger{std::move(name), 0, std::move(parent), true});
}

CUOTA_INLINE bool ledger::try_charge(std::size_t bytes) noexcept {
    thread_slot* const me = this_thread();
    stock* const mine = me ? &stock_of(*me) : nullptr;
    if (mine && mine->try_use(*me, bytes)) [[likely]]
        return true;
    return !will_not_fit(bytes, mine, me) && try_charge_by_lock(bytes);
}

CUOTA_INLINE bool ledger::try_charge_alone(std::size_t bytes) noexcept {
    thread_slot* const me = this_thread();
    return me && stock_of(*me).try_use(*me, bytes);
}

CUOTA_INLINE auto ledger::charge_or_say(std::size_t bytes, label const* who) noexcept -> outcome {
    ledger_change const change{*tree_};
    plan const p = plan_for(bytes, this_thread());
    if (ledger_node* const refuser = refuser_of(p.need, p.from))
        return {refuser, p.need - refuser->available_here()};
    if (p.from) {
        p.from->extend(p.need, bytes);
        for (ledger_node* node = this; node; node = node->next()) node->lent_ += p.need;
    } else {
        own_ += bytes;
    }
    take(p.need, p.from, who);
    return {};
}

CUOTA_INLINE auto ledger::charge_coming_or_say(std::size_t bytes, label const* who) noexcept -> outcome {
    ledger_change const change{*tree_};
    if (ledger_node* const refuser = refuser_of(bytes, nullptr))
        return {refuser, bytes - refuser->available_here()};
    own_ += bytes;
    for (ledger_node* node = this; node; node = node->next()) node->coming_ += bytes;
    take(bytes, nullptr, who);
    return {};
}

CUOTA_INLINE bool ledger::try_charge_coming(std::size_t bytes) noexcept {
    if (is_of_parent()) [[unlikely]]
        return report_forked(), false;
    refresh_if_stale();
    outcome const met = charge_coming_or_say(bytes);
    return !met.refuser || (refresh_after(met) && !charge_coming_or_say(bytes).refuser);
}

CUOTA_INLINE void ledger::arrived(std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    for (ledger_node* node = this; node; node = node->next()) node->coming_ -= bytes;
    raise_peaks(nullptr, nullptr);
    // From here on this is a charge by this thread; its refund refills the stock.
    stock* const mine = bytes <= own_ ? open_stock(bytes, this_thread()) : nullptr;
    if (!mine) return;
    own_ -= bytes;
    mine->extend(bytes, bytes);
    for (ledger_node* node = this; node; node = node->next()) node->lent_ += bytes;
}

CUOTA_INLINE void ledger::did_not_come(std::size_t bytes) noexcept {
    ledger_change const change{*tree_};
    // own_ also pays refunds of charges met from stocks: adds their used bytes.
    if (bytes > own_) collect([this](stock& s) { return s.node() == this; }, this_thread());
    std::size_t const left = std::min(bytes, own_);  // less if the program refunded more than it charged
    own_ -= left;
    for (ledger_node* node = this; node; node = node->next()) node->coming_ -= bytes;
    drop(left);
    // coming_ had included bytes of other charges, which count for peaks.
    if (left != bytes) raise_peaks(nullptr, nullptr);
}

CUOTA_INLINE void ledger::charge_allocated(std::size_t bytes) noexcept {
    if (is_of_parent()) [[unlikely]]
        return report_forked();
    ledger_change const change{*tree_};
    own_ += bytes;
    take(bytes, nullptr);
    for (ledger_node* node = this; node; node = node->next())
        if (node->taken_ > node->limit_) collect_under(*node, nullptr);
}

CUOTA_INLINE bool ledger::try_charge_coming_alone(std::size_t bytes) noexcept {
    thread_slot* const me = this_thread();
    return me && stock_of(*me).try_use_coming(*me, bytes);
}

CUOTA_INLINE void ledger::end_coming_alone(std::size_t bytes, bool has_arrived) noexcept {
    thread_slot* const me = this_thread();
    if (me && stock_of(*me).try_end_coming(*me, bytes, has_arrived)) [[likely]]
        return;
    // The stock was revoked meanwhile, so coming_ has the bytes.
    if (has_arrived) arrived(bytes);
    else did_not_come(bytes);
}

CUOTA_INLINE bool ledger::try_refund(std::size_t bytes) noexcept {
    thread_slot* const me = this_thread();
    if (me && stock_of(*me).try_put_back(*me, bytes)) [[likely]]
        return true;
    return refund_by_lock(bytes, me);
}

CUOTA_INLINE ledger::ledger(std::string name, std::size_t limit, intrusive_ptr<ledger> parent,
                            bool is_reservation)
    : ledger_node{std::move(name), limit, parent.get(), is_reservation}, parent_{std::move(parent)} {}

CUOTA_INLINE stock* ledger::open_stock(std::size_t more, thread_slot* me) noexcept {
    if (!me) return nullptr;
    stock& mine = stock_of(*me);
    std::size_t const most = tree_->outer ? tree_->outer->most_in_stock() : unlimited;
    if (mine.is_of(*me)) return more <= most - std::min(most, mine.grant()) ? &mine : nullptr;
    if (more > most || mine.is_open() || !mine.should_bias() || !may_lend()) return nullptr;
    mine.open(*this, *me);
    mine.next_open() = std::exchange(tree_->open, &mine);
    return &mine;
}

CUOTA_INLINE auto ledger::plan_for(std::size_t bytes, thread_slot* me) noexcept -> plan {
    bool const is_open = me && stock_of(*me).is_of(*me);
    // A stock that a charge extends is not revoked for a peak, so it must have no coming bytes.
    if (is_open && stock_of(*me).coming() != 0) return {nullptr, bytes};
    std::size_t const need = is_open ? bytes - std::min(bytes, stock_of(*me).idle()) : bytes;
    stock* const mine = open_stock(need, me);
    return mine ? plan{mine, need} : plan{nullptr, bytes};
}

}  // namespace cuota::inline v0::detail

#endif
