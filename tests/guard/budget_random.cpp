// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A million random calls over random trees of budgets, reservations and caches, on a host whose allocations sometimes fail: every number
// equals that of a naive ledger.
#include <cuota/guard/budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/worker.hpp"

using cuota::budget;
using cuota::unlimited;

namespace {

// Reference model of a budget.
struct naive {
    std::size_t limit;
    naive* parent;
    bool prepaid = false;
    bool ended = false;  // only for a reservation
    std::size_t held = 0;
    std::size_t own = 0;
    std::size_t peak = 0;

    [[nodiscard]] std::size_t free() const { return limit - std::min(limit, held); }
    [[nodiscard]] std::size_t excess() const { return held - std::min(limit, held); }
    [[nodiscard]] naive* next() const { return prepaid ? nullptr : parent; }
    [[nodiscard]] naive* refuser(std::size_t bytes) {
        for (naive* n = this; n; n = n->next())
            if (bytes > n->free()) return n;
        return nullptr;
    }
    [[nodiscard]] std::size_t missing(std::size_t bytes) {
        naive const* const by = refuser(bytes);
        return by ? bytes - by->free() + by->excess() : 0;
    }
    [[nodiscard]] std::size_t available() const {
        std::size_t available = unlimited;
        for (naive const* n = this; n; n = n->next()) available = std::min(available, n->free());
        return available;
    }
    void add(std::size_t bytes) {
        for (naive* n = this; n; n = n->next()) n->peak = std::max(n->peak, n->held += bytes);
    }
    void drop(std::size_t bytes) {
        naive* top = this;
        for (naive* n = this; n; n = n->next()) (top = n)->held -= bytes;
        if (top->ended) top->give_back(top->limit - top->held);
    }
    void give_back(std::size_t bytes) {
        limit -= bytes;
        parent->drop(bytes);
    }
    void charge(std::size_t bytes) {
        own += bytes;
        add(bytes);
    }
    void refund(std::size_t bytes) {
        own -= bytes;
        drop(bytes);
    }
    void fund(std::size_t bytes) {
        limit += bytes;
        parent->add(bytes);
    }
    void end() {
        ended = true;
        give_back(limit - held);
    }
    [[nodiscard]] bool refunds_in(naive const* ancestor) const {
        naive const* n = this;
        while (n && n != ancestor) n = n->ended ? n->parent : n->next();
        return n && !n->ended;
    }
};

// The call in progress. Caches must be asked for exactly its shortfall.
struct pressure {
    naive* at = nullptr;
    std::size_t bytes = 0;
    std::optional<std::size_t> new_limit{};
    bool keeps_excess = false;  // then they are asked for what they have
    int requested = 0;
    bool asked_wrongly = false;

    [[nodiscard]] std::size_t missing() const {
        if (!new_limit) return at->missing(bytes);
        return at->held - std::min(at->held, *new_limit);
    }
};

// Releases memory under pressure; with keeps > 0, less than it reported as reclaimable.
class cache final : public cuota::detail::reclaimable_holder {
public:
    cache(budget b, naive& model, pressure& now, int rank, std::size_t piece, std::size_t keeps)
        : budget_{std::move(b)}, model_{model}, now_{now}, rank_{rank}, piece_{piece}, keeps_{keeps} {
        node().join(*this);
    }
    ~cache() {
        node().leave(*this);
        budget_.refund(cached_);
        model_.refund(cached_);
    }
    std::size_t reclaim(std::size_t wanted) noexcept override {
        ++now_.requested;
        now_.asked_wrongly |=
            !now_.at || (now_.keeps_excess ? wanted > now_.missing() : wanted != now_.missing());
        std::size_t const said = reclaimable(wanted);
        std::size_t const given = said - std::min(said, keeps_);
        cached_ -= given;
        budget_.refund(given);
        model_.refund(given);
        return given;
    }
    [[nodiscard]] std::size_t reclaimable(std::size_t wanted) const noexcept override {
        return std::min(wanted > cached_ ? cached_ : cuota::round_up(wanted, piece_), cached_);
    }
    [[nodiscard]] int priority() const noexcept override { return rank_; }
    [[nodiscard]] std::string title() const override { return "a cache whose name needs memory of its own"; }
    void allocation_groups(std::vector<cuota::allocation_group>& into) const override {
        into.push_back({"cached", {}, cached_, true});
    }

    void fill(std::size_t bytes) { cached_ += bytes; }  // charged by the caller
    [[nodiscard]] naive const& model() const { return model_; }
    [[nodiscard]] std::size_t cached() const { return cached_; }

private:
    [[nodiscard]] cuota::detail::ledger& node() const { return cuota::detail::budget_access::node(budget_); }

    budget budget_;
    naive& model_;
    pressure& now_;
    int const rank_;
    std::size_t const piece_;
    std::size_t const keeps_;
    std::size_t cached_ = 0;
};

struct seen {
    std::uint64_t done = 0, refused = 0, out_of_memory = 0, requested = 0, steps = 0;
};

class random_tree {
public:
    random_tree(unsigned seed, seen& so_far) : random_{seed}, so_far_{so_far} {
        std::size_t const limit = seed % 2 == 0 ? 1'000 : 20'000;
        add(budget{"root", limit}, {}, {limit, nullptr});
    }
    random_tree(random_tree const&) = delete;
    random_tree& operator=(random_tree const&) = delete;
    ~random_tree() { caches_.clear(); }

    // Returns false if a number or an exception differs from the model's.
    [[nodiscard]] bool step() {
        so_far_.steps += 1;
        node& at = pick();
        std::size_t const what = below(100);
        std::size_t const bytes = below(4) == 0 ? below(1'100) : below(80);
        bool ok = true;
        if (what < 34) ok = charge(at, bytes);
        else if (what < 44) ok = try_charge(at, bytes);
        else if (what < 72) refund(at);
        else if (what < 74) ok = !account(at).try_refund(at.model->own + 1 + bytes);
        else if (what < 79) ok = reserve(at, bytes);
        else if (what < 85) ok = grow(at, bytes);
        else if (what < 88) ok = shrink(at, bytes);
        else if (what < 89) end(at);
        else if (what < 90) ok = below(2) == 0 ? split(at, bytes) : merge(at, pick());
        else if (what < 91) inside(at);
        else if (what < 92) ok = set_limit(at, below(2) == 0);
        else if (what < 93) forget(at);
        else if (what < 97) ok = fill(bytes);
        else if (what < 98) open_cache(at);
        else if (below(4) == 0) ok = repeat(at, bytes);
        else reset_peak(at);
        return ok && !now_.asked_wrongly && (below(4) != 0 || agrees());
    }

    [[nodiscard]] bool agrees() const {
        return std::all_of(nodes_.begin(), nodes_.end(), [](node const& n) {
            cuota::budget_info const now = n.real.info();
            return now.held == n.model->held && now.peak == n.model->peak && now.limit == n.model->limit &&
                   n.real.available() == n.model->available() && account(n).charged_here() == n.model->own;
        });
    }
    // Refunds everything and returns true if nothing is held afterwards.
    [[nodiscard]] bool ends_at_nothing() {
        caches_.clear();
        for (node& n : nodes_) {
            n.real.refund(n.model->own);
            n.model->refund(n.model->own);
        }
        for (node& n : nodes_) end(n);
        return agrees() && nodes_[0].real.held() == 0;
    }

private:
    struct node {
        budget real;
        std::unique_ptr<cuota::reservation> of;
        std::unique_ptr<naive> model;
    };
    enum class outcome { done, refused, no_memory };

    [[nodiscard]] std::size_t below(std::size_t n) { return random_() % n; }
    [[nodiscard]] node& pick() { return nodes_[below(nodes_.size())]; }
    [[nodiscard]] static cuota::detail::ledger& account(node const& n) {
        return cuota::detail::budget_access::node(n.real);
    }
    [[nodiscard]] std::size_t cached_at(node const& n) const {
        std::size_t sum = 0;
        for (auto const& c : caches_)
            if (&c->model() == n.model.get()) sum += c->cached();
        return sum;
    }
    void add(budget real, std::unique_ptr<cuota::reservation> of, naive model) {
        nodes_.push_back({std::move(real), std::move(of), std::make_unique<naive>(model)});
    }

    // Makes a call that charges `bytes` at the model's `at`. The host's memory may run out during the call.
    template <class Call>
    [[nodiscard]] outcome attempt(naive& at, std::size_t bytes, Call call) {
        now_ = {&at, bytes};
        return attempt(call);
    }
    template <class Call>
    [[nodiscard]] outcome attempt(Call call) {
        bool const memory_ends = below(2) == 0;
        std::size_t const allowed = memory_ends ? below(20) : unlimited;
        refused_.reset();
        outcome how = outcome::done;
        try {
            support::failing_heap const heap{allowed};
            call();
        } catch (cuota::budget_exceeded const& refused) {
            refused_.emplace(refused);
            how = outcome::refused;
        } catch (std::bad_alloc const&) { how = outcome::no_memory; }
        now_.at = nullptr;
        so_far_.requested += static_cast<std::uint64_t>(now_.requested);
        ++(how == outcome::done      ? so_far_.done
           : how == outcome::refused ? so_far_.refused
                                     : so_far_.out_of_memory);
        now_.asked_wrongly |= how == outcome::no_memory && !memory_ends;
        return last_ = how;
    }

    // Checks a refusal: the charge did not fit, and the caches could not have released enough or were asked in vain.
    [[nodiscard]] bool is_right(naive& at, std::size_t bytes) const {
        naive const* const by = at.refuser(bytes);
        if (!by) return false;
        std::size_t could = 0;
        for (auto const& c : caches_)
            if (c->model().refunds_in(by)) could += c->reclaimable(at.missing(bytes));
        cuota::refusal const& facts = refused_->info();
        if (facts.charged != bytes || facts.shortfall() != at.missing(bytes)) return false;
        std::size_t level = 0;
        for (naive const* n = &at; n; n = n->next(), ++level) {
            cuota::budget_info const& said = facts.budgets.at(level);
            if (said.held != n->held || said.peak != n->peak || said.limit != n->limit) return false;
            if (n == by && facts.refused_by != level) return false;
        }
        return level == facts.budgets.size() &&
               (bytes > by->limit || could < at.missing(bytes) || now_.requested != 0);
    }
    [[nodiscard]] bool agrees_after(outcome how, bool did_fit, naive& at, std::size_t bytes) const {
        if (did_fit && (how == outcome::refused || now_.requested != 0)) return false;
        if (how == outcome::done) return at.refuser(bytes) == nullptr;
        return how == outcome::no_memory || is_right(at, bytes);
    }

    [[nodiscard]] bool charge(node& at, std::size_t bytes) {
        bool const did_fit = !at.model->refuser(bytes);
        outcome const how = attempt(*at.model, bytes, [&] { at.real.charge(bytes); });
        if (!agrees_after(how, did_fit, *at.model, bytes)) return false;
        if (did_fit && how != outcome::done) return false;  // a charge that fits needs no host memory
        if (how == outcome::done) at.model->charge(bytes);
        return true;
    }
    [[nodiscard]] bool try_charge(node& at, std::size_t bytes) {
        bool const did_fit = !at.model->refuser(bytes);
        support::failing_heap const heap{0};
        if (at.real.try_charge(bytes) != did_fit) return false;
        if (did_fit) at.model->charge(bytes);
        return true;
    }
    void refund(node& at) {
        std::size_t const bytes = below(at.model->own - cached_at(at) + 1);
        support::failing_heap const heap{0};
        at.real.refund(bytes);
        at.model->refund(bytes);
    }

    // Repeats the charge so often that the ledger grants the thread a stock.
    [[nodiscard]] bool repeat(node& at, std::size_t bytes) {
        if (at.model->refuser(bytes)) return true;
        for (int i = 0; i != 3'000; ++i) {
            if (!at.real.try_charge(bytes)) return false;
            at.real.refund(bytes);
        }
        at.model->charge(bytes);
        at.model->refund(bytes);
        return true;
    }

    [[nodiscard]] bool reserve(node& at, std::size_t bytes) {
        if (nodes_.size() == nodes_at_most) return true;
        bool const did_fit = !at.model->refuser(bytes);
        std::optional<cuota::reservation> made;
        outcome const how = attempt(*at.model, bytes, [&] { made = at.real.reserve(bytes); });
        if (!agrees_after(how, did_fit, *at.model, bytes)) return false;
        if (how != outcome::done) return true;
        naive prepaid{0, at.model.get(), true};
        prepaid.fund(bytes);
        budget real = made->as_budget();
        add(std::move(real), std::make_unique<cuota::reservation>(*std::move(made)), prepaid);
        return true;
    }
    [[nodiscard]] bool grow(node& at, std::size_t bytes) {
        if (!at.of) return true;
        naive& from = *at.model->parent;
        bool const did_fit = !from.refuser(bytes);
        outcome const how = attempt(from, bytes, [&] { at.of->grow(bytes); });
        if (!agrees_after(how, did_fit, from, bytes)) return false;
        if (how == outcome::done) at.model->fund(bytes);
        return true;
    }
    [[nodiscard]] bool shrink(node& at, std::size_t bytes) {
        if (!at.of) return true;
        bool const can = bytes <= at.model->limit - at.model->held;
        bool did = true;
        try {
            support::failing_heap const heap{below(2) == 0 ? below(6) : unlimited};
            at.of->shrink(bytes);
        } catch (cuota::usage_error const&) { did = false; } catch (std::bad_alloc const&) {
            did = false;
        }
        if (did) at.model->give_back(bytes);
        return did == can;
    }
    [[nodiscard]] bool split(node& at, std::size_t bytes) {
        if (!at.of || nodes_.size() == nodes_at_most) return true;
        bool const can = bytes <= at.model->free();
        std::optional<cuota::reservation> made;
        bool has_memory = true;
        try {
            support::failing_heap const heap{below(2) == 0 ? below(6) : unlimited};
            made = at.of->split(bytes);
        } catch (cuota::usage_error const&) {
        } catch (std::bad_alloc const&) { has_memory = false; }
        if (!made) return !can || !has_memory;
        naive prepaid{bytes, at.model->parent, true};
        at.model->limit -= bytes;
        budget real = made->as_budget();
        add(std::move(real), std::make_unique<cuota::reservation>(*std::move(made)), prepaid);
        return can;
    }
    [[nodiscard]] bool merge(node& at, node& other) {
        if (!at.of || !other.of) return true;
        bool const can = &at != &other && at.model->parent == other.model->parent;
        try {
            at.of->merge(std::move(*other.of));
        } catch (cuota::usage_error const&) { return !can; }
        std::size_t const unused = other.model->free();
        other.model->limit -= unused;
        at.model->limit += unused;
        other.of.reset();
        other.model->end();
        return can;
    }
    [[nodiscard]] bool set_limit(node& at, bool keeps) {
        std::size_t const held = at.model->held;
        std::size_t const bytes = below(3) == 0    ? below(held + 1)
                                  : below(20) == 0 ? unlimited
                                                   : held + below(500);
        if (at.model->prepaid) {
            try {
                at.real.set_limit(bytes);
            } catch (cuota::usage_error const&) { return true; }
            return false;
        }
        bool const did_fit = at.model->held <= bytes || bytes >= at.model->limit;
        now_ = {at.model.get(), 0, bytes, keeps};
        outcome const how = attempt(
            [&] { at.real.set_limit(bytes, keeps ? cuota::when_held::keep : cuota::when_held::refuse); });
        if (did_fit && (how != outcome::done || now_.requested != 0)) return false;
        if (how == outcome::done) {
            at.model->limit = bytes;
            return keeps || did_fit || at.model->held <= bytes;
        }
        if (how == outcome::no_memory) return true;
        std::size_t could = 0;
        for (auto const& c : caches_)
            if (c->model().refunds_in(at.model.get())) could += c->reclaimable(at.model->held - bytes);
        cuota::refusal const& facts = refused_->info();
        cuota::budget_info const& said = facts.budgets.at(0);
        return !keeps && facts.new_limit == bytes && facts.budgets.size() == 1 &&
               facts.shortfall() == at.model->held - bytes && said.limit == at.model->limit &&
               said.held == at.model->held && (could < at.model->held - bytes || now_.requested != 0);
    }
    void end(node& at) {
        if (!at.of) return;
        {
            support::failing_heap const heap{0};
            at.of.reset();
        }
        at.model->end();
    }
    // Adds a child budget, unless the host's memory runs out.
    void inside(node& at) {
        if (nodes_.size() == nodes_at_most) return;
        std::size_t const limit = below(3) == 0 ? unlimited : 100 + below(900);
        std::optional<budget> made;
        try {
            support::failing_heap const heap{below(2) == 0 ? below(3) : unlimited};
            made.emplace("inside", limit, at.real);
        } catch (std::bad_alloc const&) { return; }
        add(*std::move(made), {}, {limit, at.model.get()});
    }
    // Drops a handle whose budget has no charges, children or caches.
    void forget(node& at) {
        naive const* const gone = at.model.get();
        bool const is_used =
            !gone->parent || gone->own != 0 || at.of ||
            std::any_of(nodes_.begin(), nodes_.end(),
                        [&](node const& n) { return n.model->parent == gone; }) ||
            std::any_of(caches_.begin(), caches_.end(), [&](auto const& c) { return &c->model() == gone; });
        if (is_used) return;
        if (&at != &nodes_.back()) at = std::move(nodes_.back());
        nodes_.pop_back();
    }

    void open_cache(node& at) {
        if (caches_.size() == 4) caches_.erase(caches_.begin());
        auto const rank = static_cast<int>(below(3));
        std::size_t const piece = below(2) == 0 ? 1 : 32;
        std::size_t const keeps = below(3) == 0 ? below(20) : 0;
        try {
            support::failing_heap const heap{below(2) == 0 ? below(3) : unlimited};
            auto made =
                cuota::detail::intrusive_ptr<cache>::make(at.real, *at.model, now_, rank, piece, keeps);
            caches_.push_back(std::move(made));
        } catch (std::bad_alloc const&) {}
    }
    [[nodiscard]] bool fill(std::size_t bytes) {
        if (caches_.empty()) return true;
        cuota::detail::intrusive_ptr<cache> const filled = caches_[below(caches_.size())];
        auto const at = std::find_if(nodes_.begin(), nodes_.end(),
                                     [&](node const& n) { return n.model.get() == &filled->model(); });
        if (!charge(*at, bytes)) return false;
        if (last_ == outcome::done) filled->fill(bytes);
        return true;
    }
    void reset_peak(node& at) {
        at.real.reset_peak();
        at.model->peak = at.model->held;
    }

    static constexpr std::size_t nodes_at_most = 9;

    std::minstd_rand random_;
    seen& so_far_;
    pressure now_;
    outcome last_ = outcome::done;
    std::optional<cuota::budget_exceeded> refused_;
    std::vector<node> nodes_;
    std::vector<cuota::detail::intrusive_ptr<cache>> caches_;
};

}  // namespace

TEST_CASE("budgets, reservations and caches agree with a naive ledger in random operations with exceptions",
          "[guard][budget]") {
    // Three threads take turns, so that the stock of each is in the way of the others.
    int const trees = support::rounds(120);
    int const part = 120 / trees;
    constexpr int steps = 9'000;
    support::captured_errors errors;
    std::vector<support::worker> workers(3);
    seen so_far;
    for (unsigned seed = 1; seed <= static_cast<unsigned>(trees); ++seed) {
        INFO("tree " << seed);
        std::minstd_rand turns{seed};
        random_tree tree{seed, so_far};
        bool agrees = true;
        for (int done = 0; done < steps && agrees;) {
            int const turn = 1 + static_cast<int>(turns() % 60);
            workers[turns() % workers.size()].run([&] {
                for (int i = 0; i != turn && agrees; ++i) agrees = tree.step();
            });
            done += turn;
        }
        REQUIRE(agrees);
        REQUIRE(tree.ends_at_nothing());
    }
    CHECK(errors.take().empty());
    CHECK(so_far.steps >= 1'000'000 / part);
    CHECK(so_far.done > 80'000 / part);
    CHECK(so_far.refused > 10'000 / part);
    CHECK(so_far.out_of_memory > 10'000 / part);
    CHECK(so_far.requested > 10'000 / part);
}
