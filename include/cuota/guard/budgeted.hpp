// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Charges a resource's memory to a budget.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Records of a budgeted resource. Threads: any.
class budgeted_accounting : public reclaimable_holder {
public:
    explicit budgeted_accounting(budget b);
    CUOTA_INLINE_IN_PLACE ~budgeted_accounting() override;

    /// Returns whether this thread's stock paid; `settle` must follow in this thread. Throws: budget_exceeded.
    [[nodiscard]] bool charge(std::size_t cost, charge_request const& request);
    /// Completes a charge; refunds it if the memory was not allocated.
    void settle(std::size_t cost, bool by_stock, bool has_arrived) noexcept;
    void refund(std::size_t cost) noexcept { budget_.refund(cost); }
    /// Throws: std::bad_alloc.
    void enter(void* p, std::size_t bytes, std::size_t cost, label const& who);
    /// Removes the record of p and returns its charge; reports an unknown p or a wrong size.
    [[nodiscard]] std::optional<std::size_t> forget(void* p, std::size_t bytes) noexcept;

    std::size_t reclaim(std::size_t) noexcept override { return 0; }
    [[nodiscard]] std::size_t reclaimable(std::size_t) const noexcept override { return 0; }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::string title() const override;
    CUOTA_INLINE_IN_PLACE void allocation_groups(std::vector<allocation_group>& into) const override;

    [[nodiscard]] budget const& account() const noexcept { return budget_; }

private:
    struct table;

    budget budget_;
    light_unique_ptr<table> live_;
};

template <resource Upstream>
class budgeted_state final : public budgeted_accounting {
public:
    budgeted_state(budget b, Upstream upstream)
        : budgeted_accounting{std::move(b)}, upstream_{std::move(upstream)} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (bytes == 0) return nullptr;
        std::size_t const cost = round_up(bytes, upstream_.granularity());
        charge_request request{bytes, upstream_.granularity(), who, {}};
        if constexpr (knows_device<Upstream>) request.on = upstream_.device();
        bool const by_stock = charge(cost, request);

        void* p = nullptr;
        try {
            p = order.take(upstream_, bytes, alignment, who);
            enter(p, bytes, cost, who);
        } catch (...) {
            if (p) order.give(upstream_, p, bytes, alignment);
            settle(cost, by_stock, false);
            throw;
        }
        settle(cost, by_stock, true);
        return p;
    }

    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        auto const cost = forget(p, bytes);
        if (!cost) return;
        order.give(upstream_, p, bytes, alignment);
        refund(*cost);
    }

    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    Upstream upstream_;
};

}  // namespace detail

/// Resource adaptor that charges Upstream's memory to a budget.
///
/// Below a pool it limits the pool's memory, as `scoped_pool{budget}` does, which also releases idle memory when the budget is short. Above
/// a pool it limits the users' live memory. With both, use budgets of different trees (docs/budgets.md). Copies share the same state.
///
/// Units:   bytes, charged rounded up to Upstream's granularity.
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  budget_exceeded before Upstream is called; what Upstream throws, with the charge refunded. Invalid deallocations are reported
///          to the error sink as misuse; nothing is freed.
/// Cost:    a lock and a table entry.
/// Example: tests/guard/budgeted.cpp
template <resource Upstream = device_memory>
class budgeted : public detail::resource_adaptor_base<Upstream, detail::budgeted_state<Upstream>> {
public:
    /// Keeps the budget and Upstream while a copy exists.
    explicit budgeted(budget b, Upstream upstream = Upstream{})
        : budgeted::resource_adaptor_base{detail::intrusive_ptr<detail::budgeted_state<Upstream>>::make(
              std::move(b), std::move(upstream))} {}

    /// Returns the charged budget.
    [[nodiscard]] budget const& account() const noexcept { return this->state().account(); }
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <mutex>
#include <unordered_map>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>

namespace cuota::inline v0::detail {

struct budgeted_accounting::table {
    struct entry {
        std::size_t requested;
        allocation_group held;
    };
    // Throws: usage_error; nothing is changed.
    [[nodiscard]] std::size_t forget(void* p, std::size_t bytes, std::string const& of);

    object_lock guard{};
    std::unordered_map<void*, entry> live{};
};

CUOTA_INLINE budgeted_accounting::budgeted_accounting(budget b)
    : budget_{std::move(b)}, live_{light_unique_ptr<table>::make()} {
    join(budget_access::node(budget_), *this);
}

CUOTA_INLINE_IN_PLACE budgeted_accounting::~budgeted_accounting() {
    leave(budget_access::node(budget_), *this);
}

CUOTA_INLINE bool budgeted_accounting::charge(std::size_t cost, charge_request const& request) {
    ledger& node = budget_access::node(budget_);
    if (node.try_charge_coming_alone(cost)) [[likely]]
        return true;
    charge_coming(node, cost, request);
    return false;
}

CUOTA_INLINE void budgeted_accounting::settle(std::size_t cost, bool by_stock, bool has_arrived) noexcept {
    ledger& node = budget_access::node(budget_);
    if (by_stock) node.end_coming_alone(cost, has_arrived);
    else if (has_arrived) node.arrived(cost);
    else node.did_not_come(cost);
}

CUOTA_INLINE void budgeted_accounting::enter(void* p, std::size_t bytes, std::size_t cost, label const& who) {
    region_lock const lock{live_->guard};
    live_->live.emplace(p, table::entry{bytes, {who.name, who.where, cost}});
}

CUOTA_INLINE std::optional<std::size_t> budgeted_accounting::forget(void* p, std::size_t bytes) noexcept {
    std::optional<std::size_t> cost;
    (void)report_failure_of([&] {
        region_lock const lock{live_->guard};
        cost = live_->forget(p, bytes, budget_.name());
    });
    return cost;
}

CUOTA_INLINE_IN_PLACE std::string budgeted_accounting::title() const { return "budget " + budget_.name(); }

CUOTA_INLINE_IN_PLACE void budgeted_accounting::allocation_groups(std::vector<allocation_group>& into) const {
    region_lock const lock{live_->guard};
    for (auto const& [p, e] : live_->live) into.push_back(e.held);
}

CUOTA_INLINE std::size_t budgeted_accounting::table::forget(void* p, std::size_t bytes,
                                                            std::string const& of) {
    auto const found = live.find(p);
    if (found == live.end())
        throw_usage_error("budget {}: deallocate of an unknown pointer (double free, or allocated elsewhere)",
                          {of});
    entry const& e = found->second;
    if (e.requested != bytes)
        throw_usage_error(e.held.where, "budget {}: deallocate with the wrong size: {}, allocated {}",
                          {of, as_bytes(bytes), as_bytes(e.requested)});
    std::size_t const cost = e.held.bytes;
    live.erase(found);
    return cost;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(labeled_resource<budgeted<device_memory>> &&
              device_accessible_resource<budgeted<device_memory>>);
static_assert(!host_accessible_resource<budgeted<device_memory>> && sizeof(budgeted<device_memory>) == 8);

}  // namespace cuota::inline v0

#endif
