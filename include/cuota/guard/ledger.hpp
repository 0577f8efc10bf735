// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The account behind a budget: a tree of nodes under one lock. For guard/ and those who hold charged memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/error_sink.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

/// Something that holds bytes of a budget: it can say for whom, and may be able to give some back.
/// Both are called outside every lock of the ledger, from whichever thread met the pressure.
class stakeholder : public ref_counted {
public:
    virtual ~stakeholder() = default;

    /// Gives back about `wanted` bytes that nobody uses; returns what it really gave back.
    virtual std::size_t reclaim(std::size_t wanted) noexcept = 0;

    /// Appends what is held, by tag and place, and what is cached.
    virtual void holdings(std::vector<holding>& into) const = 0;

    /// The largest request that needs no further charge; 0 when there is no such thing.
    [[nodiscard]] virtual std::size_t largest_free() const noexcept { return 0; }
};

/// What a charge says about itself, for the refusal it may become.
struct charge_request {
    std::size_t asked = 0;
    std::size_t granule = 1;
    label who{};
    std::optional<device> on{};
};

class ledger;

/// What the nodes of one tree share.
struct ledger_tree final : ref_counted {
    std::mutex guard;
    std::vector<std::pair<ledger const*, stakeholder*>>
        stakeholders;  // under guard; each leaves before it dies
};

/// One node. A node that is prepaid has its whole limit charged to its parent already.
class ledger final : public ref_counted {
public:
    ledger(std::string name, std::size_t limit, shared<ledger> parent)
        : name_{std::move(name)},
          limit_{limit},
          parent_{std::move(parent)},
          tree_{parent_ ? parent_->tree_ : shared<ledger_tree>::make()} {}

    /// A node whose limit, 0 at first, is what its parent has been charged for it.
    [[nodiscard]] static shared<ledger> prepaid(std::string name, shared<ledger> parent) {
        auto child = shared<ledger>::make(std::move(name), std::size_t{0}, std::move(parent));
        child->prepaid_ = true;
        return child;
    }

    /// Makes bytes that the parent has just been charged spendable here.
    void fund(std::size_t bytes) noexcept {
        std::scoped_lock const lock{tree_->guard};
        limit_ += bytes;
    }

    /// The unused part of a prepaid node goes back; what is used stays charged until it is refunded, and is then gone.
    void settle() noexcept {
        std::scoped_lock const lock{tree_->guard};
        if (!std::exchange(prepaid_, false)) return;
        settled_ = true;
        parent_->remove(limit_ - held_);
        limit_ = held_;
    }

    /// Gives back bytes of a prepaid node that nobody uses. False when there are not as many: nothing changed.
    [[nodiscard]] bool try_unfund(std::size_t bytes) noexcept {
        std::scoped_lock const lock{tree_->guard};
        if (!prepaid_ || bytes > limit_ - held_) return false;
        limit_ -= bytes;
        parent_->remove(bytes);
        return true;
    }

    /// Charges this node and its ancestors, or none of them. Exact: decided and done under the tree's lock, so no
    /// node is over its limit for an instant, and no charge that is about to be undone refuses another.
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept {
        std::scoped_lock const lock{tree_->guard};
        if (refuser_of(bytes)) return false;
        add(bytes);
        return true;
    }

    /// False when more would be given back than is held: then nothing changed.
    [[nodiscard]] bool try_refund(std::size_t bytes) noexcept {
        std::scoped_lock const lock{tree_->guard};
        if (bytes > held_) return false;
        remove(bytes);
        return true;
    }

    /// Charges, asking the stakeholders for what is missing before it gives up.
    /// Throws: budget_exceeded with all the facts; nothing is charged then.
    void charge(std::size_t bytes, charge_request const& request);

    /// The facts of a refusal of `bytes`, as of now.
    [[nodiscard]] refusal facts(std::size_t bytes, charge_request const& request,
                                std::size_t reclaimed) const;

    void join(stakeholder& s) {
        std::scoped_lock const lock{tree_->guard};
        tree_->stakeholders.emplace_back(this, &s);
    }
    void leave(stakeholder& s) noexcept {
        std::scoped_lock const lock{tree_->guard};
        std::erase_if(tree_->stakeholders, [&](auto const& entry) { return entry.second == &s; });
    }

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] shared<ledger> const& parent() const noexcept { return parent_; }
    [[nodiscard]] budget_facts now() const {
        std::scoped_lock const lock{tree_->guard};
        return {name_, limit_, held_, peak_};
    }
    /// The most that can be charged here at this moment, by every node up to the root.
    [[nodiscard]] std::size_t room() const noexcept {
        std::scoped_lock const lock{tree_->guard};
        return room_locked();
    }
    void reset_peak() noexcept {
        std::scoped_lock const lock{tree_->guard};
        peak_ = held_;
    }

private:
    // All of these under the tree's lock.
    [[nodiscard]] ledger const* next() const noexcept { return prepaid_ ? nullptr : parent_.get(); }
    [[nodiscard]] ledger* next() noexcept { return prepaid_ ? nullptr : parent_.get(); }
    [[nodiscard]] ledger const* refuser_of(std::size_t bytes) const noexcept {
        for (ledger const* node = this; node; node = node->next())
            if (bytes > node->limit_ - node->held_) return node;
        return nullptr;
    }
    void add(std::size_t bytes) noexcept {
        for (ledger* node = this; node; node = node->next()) {
            node->held_ += bytes;
            node->peak_ = std::max(node->peak_, node->held_);
        }
    }
    void remove(std::size_t bytes) noexcept {
        for (ledger* node = this; node; node = node->next()) {
            node->held_ -= bytes;
            if (node->settled_) node->limit_ = node->held_;  // nothing more can be spent
        }
    }
    [[nodiscard]] std::size_t room_locked() const noexcept {
        std::size_t room = unlimited;
        for (ledger const* node = this; node; node = node->next())
            room = std::min(room, node->limit_ - node->held_);
        return room;
    }
    [[nodiscard]] bool is_under(ledger const* ancestor) const noexcept {
        for (ledger const* node = this; node; node = node->parent_.get())
            if (node == ancestor) return true;
        return false;
    }
    // What is refunded under a prepaid node stays there.
    [[nodiscard]] bool refunds_to(ledger const* ancestor) const noexcept {
        for (ledger const* node = this; node; node = node->next())
            if (node == ancestor) return true;
        return false;
    }

    template <class Concerns>
    [[nodiscard]] std::vector<shared<stakeholder>> stakeholders(Concerns concerns) const {
        std::vector<shared<stakeholder>> found;
        found.reserve(tree_->stakeholders
                          .size());  // the last owner must not go under the lock, so nothing throws below
        for (auto const& [at, who] : tree_->stakeholders)
            if (concerns(*at) && who->try_add_owner()) found.push_back(shared<stakeholder>::adopt(who));
        return found;
    }

    std::string const name_;
    std::size_t limit_;
    std::size_t held_ = 0;
    std::size_t peak_ = 0;
    bool prepaid_ = false;
    bool settled_ = false;
    shared<ledger> parent_;
    shared<ledger_tree> tree_;
};

/// While one is alive, what this thread's stakeholders do must not ask others for memory in turn.
class reclaiming {
public:
    reclaiming() noexcept : before_{std::exchange(is_on(), true)} {}
    reclaiming(reclaiming const&) = delete;
    reclaiming& operator=(reclaiming const&) = delete;
    ~reclaiming() { is_on() = before_; }

    [[nodiscard]] static bool& is_on() noexcept {
        static thread_local bool on = false;
        return on;
    }

private:
    bool before_;
};

/// Holdings of one tag and place in one, the largest first.
inline void sum_up(std::vector<holding>& holders) {
    auto const key = [](holding const& h) {
        return std::tuple{std::string_view{h.name.text()}, std::string_view{h.where.file}, h.where.line};
    };
    std::ranges::sort(holders, {}, key);
    std::vector<holding> sums;
    for (holding const& h : holders)
        if (sums.empty() || key(sums.back()) != key(h)) sums.push_back(h);
        else sums.back().bytes += h.bytes;
    std::ranges::stable_sort(sums, std::greater{}, &holding::bytes);
    holders = std::move(sums);
}

inline void ledger::charge(std::size_t bytes, charge_request const& request) {
    std::size_t reclaimed = 0;
    for (;;) {
        std::size_t missing = 0;
        std::vector<shared<stakeholder>> asked;
        {
            std::scoped_lock const lock{tree_->guard};
            ledger const* const refuser = refuser_of(bytes);
            if (!refuser) return add(bytes);
            missing = bytes - (refuser->limit_ - refuser->held_);
            // What is more than the whole limit will not fit whatever is given back.
            if (bytes <= refuser->limit_ && !reclaiming::is_on())
                asked = stakeholders([&](ledger const& at) { return at.refunds_to(refuser); });
        }
        std::size_t got = 0;
        {
            reclaiming const here;
            for (auto const& who : asked)
                if (got < missing) got += who->reclaim(missing - got);
        }
        reclaimed += got;
        if (got != 0) continue;
        refusal r = facts(bytes, request, reclaimed);
        if (r.missing() != 0) throw budget_exceeded{std::move(r)};
        // By now it fits: somebody else has given back meanwhile.
    }
}

inline refusal ledger::facts(std::size_t bytes, charge_request const& request, std::size_t reclaimed) const {
    refusal r;
    r.asked = request.asked;
    r.charged = bytes;
    r.granule = request.granule;
    r.request = request.who;
    r.reclaimed = reclaimed;
    std::vector<shared<stakeholder>> held_by;
    {
        std::scoped_lock const lock{tree_->guard};
        ledger const* const refuser = refuser_of(bytes);
        for (ledger const* node = this; node; node = node->next()) {
            if (node == refuser) r.refused_by = r.budgets.size();
            r.budgets.push_back({node->name_, node->limit_, node->held_, node->peak_});
        }
        held_by = stakeholders([&](ledger const& at) { return at.is_under(refuser ? refuser : this); });
        r.would_fit = round_down(room_locked(), request.granule);
    }
    for (auto const& who : held_by) {
        who->holdings(r.holders);
        r.largest_free = std::max(r.largest_free, who->largest_free());
    }
    std::size_t named = 0;
    for (holding const& h : r.holders) named += h.bytes;
    std::size_t const held = r.budgets[r.refused_by].held;
    if (held > named) r.holders.push_back({"charged without a tag", {}, held - named});
    sum_up(r.holders);
    if (request.on) r.device = facts_of(*request.on);
    return r;
}

}  // namespace cuota::inline v0::detail
