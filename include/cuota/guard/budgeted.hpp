// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A resource under a budget: charged before it allocates, refunded after it released.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/guard/accounted.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/stakeholder.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

template <resource Upstream>
class budgeted_state final : public stakeholder {
public:
    budgeted_state(budget b, Upstream upstream) : budget_{std::move(b)}, upstream_{std::move(upstream)} {
        join(node(), *this);
    }
    ~budgeted_state() { leave(node(), *this); }

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (bytes == 0) return nullptr;
        std::size_t const cost = round_up(bytes, upstream_.granule());
        charge_request request{bytes, upstream_.granule(), who, std::nullopt};
        if constexpr (knows_device<Upstream>) request.on = upstream_.device();
        charge(node(), cost, request);

        void* p = nullptr;
        try {
            p = order.take(upstream_, bytes, alignment, who);
            std::scoped_lock const lock{guard_};
            live_.emplace(p, entry{bytes, {who.name, who.where, cost}});
        } catch (...) {
            if (p) order.give(upstream_, p, bytes, alignment);
            budget_.refund(cost);
            throw;
        }
        return p;
    }

    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        std::size_t cost = 0;
        if (!report_failure_of([&] { cost = forget(p, bytes); })) return;
        order.give(upstream_, p, bytes, alignment);
        budget_.refund(cost);
    }

    // Everything here is in use.
    std::size_t reclaim(std::size_t) noexcept override { return 0; }
    [[nodiscard]] std::size_t reclaimable(std::size_t) const noexcept override { return 0; }
    [[nodiscard]] std::string title() const override { return "budget " + budget_.name(); }

    void holdings(std::vector<holding>& into) const override {
        std::scoped_lock const lock{guard_};
        for (auto const& [p, e] : live_) into.push_back(e.held);
    }

    [[nodiscard]] budget const& account() const noexcept { return budget_; }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    struct entry {
        std::size_t asked;
        holding held;
    };

    [[nodiscard]] ledger& node() const noexcept { return budget_access::node(budget_); }

    // Takes p off the books and returns its charge. Throws: misuse; the books are unchanged then.
    [[nodiscard]] std::size_t forget(void* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        auto const found = live_.find(p);
        if (found == live_.end())
            throw misuse{"budget " + budget_.name() +
                         ": a pointer was given back that it does not hold (given back twice, or another's)"};
        entry const& e = found->second;
        if (e.asked != bytes)
            throw misuse{"budget " + budget_.name() + ": " + bytes_text(bytes) +
                             " were given back of an allocation of " + bytes_text(e.asked),
                         e.held.where};
        std::size_t const cost = e.held.bytes;
        live_.erase(found);
        return cost;
    }

    budget budget_;
    Upstream upstream_;
    mutable std::mutex guard_;
    std::unordered_map<void*, entry> live_;
};

}  // namespace detail

/// Upstream's memory, charged to a budget by what Upstream really takes: each request rounded up to its granule.
///
/// Where it stands decides what it limits. Three users hold 10 MiB of a pool that has taken 16 MiB:
///
///     budgeted below a pool                        budgeted above a pool
///
///     users      10 MiB                            users      10 MiB
///     pool       10 MiB live, 6 MiB ready          budgeted   charged: 10 MiB
///     budgeted   charged: 16 MiB                   pool       10 MiB live, 6 MiB ready
///     device     16 MiB gone                       device     16 MiB gone
///
/// Below, it limits what the device loses, which is what other programs feel; so does `scoped_pool{budget}`, and it
/// gives the 6 MiB back when the budget is short. Above, it limits what the users hold of a pool that others share, and
/// charges nothing for what lies ready. With one of each, keep their budgets in different trees: what users hold would be
/// charged twice in one. Shared state: copies are the same. A `resource`: its calls are those of the concept.
///
/// Units:   bytes; each request is charged rounded up to Upstream's granule, and accounted so.
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  budget_exceeded before Upstream is asked; what Upstream throws, with the charge given back.
/// A wrong size, a foreign pointer or a second release goes to the error sink as misuse, and nothing is released.
/// Cost:    a lock and a table entry, small beside any call worth budgeting one by one.
/// Example: tests/guard/budgeted.cpp
template <resource Upstream = device_memory>
class budgeted : public detail::accounted<Upstream, detail::budgeted_state<Upstream>> {
public:
    /// Charges nothing yet; keeps the budget and Upstream as long as a copy is there. Throws: std::bad_alloc.
    explicit budgeted(budget b, Upstream upstream = Upstream{})
        : budgeted::accounted{
              shared<detail::budgeted_state<Upstream>>::make(std::move(b), std::move(upstream))} {}

    /// The budget that it charges.
    [[nodiscard]] budget const& account() const noexcept { return this->books().account(); }
};

static_assert(labelled_resource<budgeted<device_memory>> && device_resource<budgeted<device_memory>>);
static_assert(!host_resource<budgeted<device_memory>> && sizeof(budgeted<device_memory>) == 8);

}  // namespace cuota::inline v0
