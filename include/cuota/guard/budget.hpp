// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Budgets: how many bytes a part of a program may hold, asked before any is taken.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

class reservation;

namespace detail {
class ledger;
class prepayment;
}  // namespace detail
#if !CUOTA_DEFINE_MEMORY
extern template class shared<detail::ledger>;
extern template class shared<detail::prepayment>;
#endif

/// A limit in bytes, and the account of the memory held under it. A handle: copies are the same budget.
///
/// A charge is exact under any number of threads: the limit (inclusive) is not passed for an instant, and nothing
/// that fits is refused. With a parent, a charge is made at every level or at none.
/// On pressure, pools, caches and loaders under the budget are asked for what they do not use; then it is tried again;
/// then it is refused with everything known about who holds what.
/// It counts what is charged to it, on the device or on the host: give it to a pool, a loader or `budgeted`.
/// One that ends with bytes charged to it, inside another, is reported to the error sink: nobody can refund them any
/// more, so its parent keeps them charged.
/// Units:   bytes, as charged: what rounds up to a granule does so before it charges.
/// Order:   none: a charge is of the moment of the call, whatever streams still do. Who refunds answers for that.
/// Threads: any. Throws on construction: std::bad_alloc.
/// Cost:    a charge and its refund are a few loads and stores, at any depth, when this thread gave back as much here
///          before; else they take the lock of the whole tree. `limit`, `held`, `peak`, `room` and `now` take the lock.
/// Example: examples/first.cpp, examples/one_budget.cpp
class budget {
public:
    /// limit: bytes, inclusive; `unlimited` counts without refusing.
    budget(std::string name, std::size_t limit);

    /// A budget inside another: what is charged here is charged there too.
    budget(std::string name, std::size_t limit, budget const& parent);
    /// The same account; its move is a copy, so a handle that was moved from is still valid.
    budget(budget const&) noexcept = default;
    budget& operator=(budget const&) noexcept = default;  ///< the same account as other
    ~budget() = default;

    /// A budget over a device: `share` (0 to 1) of its memory, but never more than its driver can still give, less
    /// `keep_free` bytes: other programs, the CUDA context and libraries count as they come and go.
    /// The driver's answer is used for `good_for`, and asked for again before anything is refused by it; charges that
    /// add up to less than 64 KiB a thread may go by an older one. An answer that the driver does not give is reported
    /// to the error sink, and the last one kept. While others hold what this budget had counted on, `limit()` may be
    /// under `held()`, and nothing is charged.
    /// Throws: cuda_error; misuse for a share outside 0 to 1.
    [[nodiscard]] static budget of_device(device where, double share = 1.0, std::size_t keep_free = 0,
                                          std::chrono::nanoseconds good_for = std::chrono::milliseconds{10});

    /// For a budget of a device: takes what is in use there and not cuota's, as of now, for the CUDA context's and the
    /// libraries' share; later refusals tell it apart from what came after. Call it when they have started, and before
    /// other programs do. Returns the bytes. Throws: cuda_error; misuse for a budget that is of no device.
    std::size_t learn_overhead();

    /// Takes bytes of the budget, here and at every ancestor. The tag names who asks, should it be refused; what is held
    /// has the names that reservations, pools and `budgeted` give it.
    /// Throws: budget_exceeded with the facts; nothing is charged then. May give back caches first.
    void charge(std::size_t bytes, tag name = {}, place where = place::here());

    /// As charge, but answers instead of throwing, at once and without reclaiming anything.
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;

    /// Gives back bytes that were charged here. More than is still charged here (what budgets inside it hold is
    /// theirs) is a misuse that goes to the error sink, and changes nothing.
    void refund(std::size_t bytes, place where = place::here()) noexcept;

    /// Takes bytes now, to be spent through the reservation's own budget; the unused part returns with its scope.
    /// The tag names that budget, and in refusals what is not spent of it.
    /// Throws: budget_exceeded; nothing is charged then. May give back caches first.
    [[nodiscard]] reservation reserve(std::size_t bytes, tag name = {}, place where = place::here());

    /// As given; of a budget of a device "device 0", of a reservation its tag. Lives as long as the budget.
    [[nodiscard]] std::string const& name() const noexcept;
    /// Bytes, inclusive. As of the last look at the driver for a budget of a device; of a reservation what is reserved.
    [[nodiscard]] std::size_t limit() const;
    /// Bytes charged here and in budgets inside. While other threads charge, each one's part is of a moment of its own.
    [[nodiscard]] std::size_t held() const;
    /// The most that was held at one instant since the start or `reset_peak`. Exact.
    [[nodiscard]] std::size_t peak() const;
    /// What a charge could take at this moment, by this budget and all its ancestors. Bytes.
    [[nodiscard]] std::size_t room() const noexcept;
    /// Name, limit, held and peak of one moment, and whether it is a reservation's.
    [[nodiscard]] budget_facts now() const;
    /// The peak is what is held now, and rises from there. Of this budget alone.
    void reset_peak() noexcept;
    /// What was refused last, here or in a budget inside: for callers behind an API that swallowed the exception.
    [[nodiscard]] std::optional<budget_exceeded> last_refusal() const;
    /// The one that it is inside of; nothing for a root.
    [[nodiscard]] std::optional<budget> parent() const;

    /// Whether both are one account.
    friend bool operator==(budget const&, budget const&) noexcept = default;

private:
    friend class reservation;
    friend struct budget_access;
    explicit budget(shared<detail::ledger> node) noexcept : node_{std::move(node)} {}

    shared<detail::ledger> node_;
};

/// The way from a budget to its account, for those who hold memory under it. For the library: programs have `budget`.
struct budget_access {
    /// Lives as long as a copy of the budget does.
    [[nodiscard]] static detail::ledger& node(budget const& b) noexcept { return *b.node_; }
};

/// Bytes of a budget that are taken in advance. Spend them through `as_budget()`.
///
/// Move-only. When it ends, what was not spent returns to the budget it came from; what was spent stays charged
/// until it is refunded, and nothing more can be spent.
/// Units:   bytes.
/// Threads: what is spent through its budget, any; the reservation itself, one at a time.
/// Throws:  budget_exceeded where it takes bytes; misuse when it was moved from.
/// Cost:    to make, grow and shrink it the lock of the tree; to spend of it as any budget.
/// Example: tests/guard/budget.cpp
class reservation {
public:
    reservation(reservation&&) noexcept = default;  ///< takes over what is reserved; budgets of it stay good
    /// Ends what it was, and takes over the other.
    reservation& operator=(reservation&& other) noexcept;
    ~reservation() { end(); }

    /// The prepaid budget: its limit is what was reserved. Throws: misuse on a moved-from reservation.
    [[nodiscard]] budget as_budget() const;
    /// What is reserved, spent or not. Throws: misuse on a moved-from reservation, as all that follows.
    [[nodiscard]] std::size_t bytes() const;

    /// Takes `more` bytes, as a charge to the budget it came from: may give back caches first.
    /// Throws: budget_exceeded; unchanged then.
    void grow(std::size_t more, place where = place::here());

    /// Returns `less` bytes that were not spent. Throws: misuse when more than that is spent; unchanged then.
    void shrink(std::size_t less, place where = place::here());

private:
    friend class budget;
    reservation(shared<detail::ledger> const& from, std::size_t bytes, label const& who);
    [[nodiscard]] detail::prepayment& state() const;

    void end() noexcept;

    shared<detail::prepayment> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <vector>

#include <cuota/guard/device_limit.hpp>
#include <cuota/guard/pressure.hpp>

namespace cuota::inline v0::detail {

/// What a reservation shares with the account: who holds what it has not spent.
class prepayment final : public stakeholder {
public:
    prepayment(shared<ledger> from, label const& who);
    ~prepayment() override { end(); }

    /// Gives back what is not spent, now, though the account may be looking at this one just then.
    void end() noexcept;

    void fund(std::size_t bytes, place where);
    [[nodiscard]] shared<ledger> const& node() const noexcept { return node_; }

    std::size_t reclaim(std::size_t) noexcept override { return 0; }
    [[nodiscard]] std::size_t reclaimable(std::size_t) const noexcept override { return 0; }
    [[nodiscard]] std::string title() const override { return "reservation " + node_->name(); }
    CUOTA_INLINE_IN_PLACE void holdings(std::vector<holding>& into) const override;

private:
    shared<ledger> node_;
    label who_;
    bool ended_ = false;
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE budget::budget(std::string name, std::size_t limit)
    : node_{shared<detail::ledger>::make(std::move(name), limit, shared<detail::ledger>{})} {}

CUOTA_INLINE budget::budget(std::string name, std::size_t limit, budget const& parent)
    : node_{shared<detail::ledger>::make(std::move(name), limit, parent.node_)} {}

CUOTA_INLINE budget budget::of_device(device where, double share, std::size_t keep_free,
                                      std::chrono::nanoseconds good_for) {
    if (!(share >= 0.0 && share <= 1.0))
        detail::throw_misuse("budget::of_device: a share of {} is not between 0 and 1", {share});
    std::size_t const total = where.memory().total;
    std::size_t const most = std::min(total, static_cast<std::size_t>(share * static_cast<double>(total)));
    budget made{"device " + std::to_string(where.ordinal()), most};
    auto driver = sole<detail::device_limit>::make(where, most, keep_free, good_for);
    made.node_->set_limit(driver->limit_now(*made.node_));
    made.node_->set_outer_limit(std::move(driver));
    return made;
}

CUOTA_INLINE std::size_t budget::learn_overhead() {
    if (auto* const driver = dynamic_cast<detail::device_limit*>(node_->outer()))
        return driver->learn_overhead();
    detail::throw_misuse("budget {}: learn_overhead is for a budget of a device", {name()});
}

CUOTA_INLINE void budget::charge(std::size_t bytes, tag name, place where) {
    detail::charge(*node_, bytes, {bytes, 1, label{name, where}, std::nullopt});
}

CUOTA_INLINE bool budget::try_charge(std::size_t bytes) noexcept { return node_->try_charge(bytes); }

CUOTA_INLINE void budget::refund(std::size_t bytes, place where) noexcept {
    if (node_->try_refund(bytes)) [[likely]]
        return;
    report_failure_of([&] {
        detail::throw_misuse(where, "budget {}: refund of {} when only {} of charges are left to refund",
                             {name(), detail::as_bytes(bytes), detail::as_bytes(node_->charged_here())});
    });
}

CUOTA_INLINE std::string const& budget::name() const noexcept { return node_->name(); }

CUOTA_INLINE std::size_t budget::limit() const { return node_->now().limit; }

CUOTA_INLINE std::size_t budget::held() const { return node_->now().held; }

CUOTA_INLINE std::size_t budget::peak() const { return node_->now().peak; }

CUOTA_INLINE std::size_t budget::room() const noexcept { return node_->room(); }

CUOTA_INLINE budget_facts budget::now() const { return node_->now(); }

CUOTA_INLINE void budget::reset_peak() noexcept { node_->reset_peak(); }

CUOTA_INLINE std::optional<budget_exceeded> budget::last_refusal() const { return node_->last_refusal(); }

CUOTA_INLINE std::optional<budget> budget::parent() const {
    if (!node_->parent()) return std::nullopt;
    return budget{node_->parent()};
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE prepayment::prepayment(shared<ledger> from, label const& who)
    : node_{ledger::prepaid(who.name.is_empty() ? "unnamed" : who.name.text(), std::move(from))}, who_{who} {
    node_->parent()->join(*this);
}

CUOTA_INLINE void prepayment::end() noexcept {
    if (std::exchange(ended_, true)) return;
    node_->parent()->leave(*this);
    node_->settle();
}

CUOTA_INLINE void prepayment::fund(std::size_t bytes, place where) {
    charge_request const request{bytes, 1, label{who_.name, where}, std::nullopt};
    reclaim_record record;
    charge_by([&] { return node_->fund(bytes, &request.who); }, *node_->parent(), bytes, request, record);
}

CUOTA_INLINE_IN_PLACE void prepayment::holdings(std::vector<holding>& into) const {
    budget_facts const now = node_->now();
    tag const name = who_.name.is_empty() ? tag{"reserved"} : tag::named("reserved for " + now.name);
    if (now.free() != 0) into.push_back({name, who_.where, now.free()});
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

#if CUOTA_SEPARATE
template class shared<detail::ledger>;
template class shared<detail::prepayment>;
#endif

CUOTA_INLINE reservation& reservation::operator=(reservation&& other) noexcept {
    if (this != &other) {
        end();
        state_ = std::move(other.state_);
    }
    return *this;
}

CUOTA_INLINE budget reservation::as_budget() const { return budget{state().node()}; }

CUOTA_INLINE std::size_t reservation::bytes() const { return state().node()->limit(); }

CUOTA_INLINE void reservation::grow(std::size_t more, place where) { state().fund(more, where); }

CUOTA_INLINE void reservation::shrink(std::size_t less, place where) {
    budget const prepaid = as_budget();
    if (!state().node()->try_unfund(less))
        detail::throw_misuse(
            where, "a reservation of {} cannot shrink by {}: {} of it are in use",
            {detail::as_bytes(prepaid.limit()), detail::as_bytes(less), detail::as_bytes(prepaid.held())});
}

CUOTA_INLINE reservation::reservation(shared<detail::ledger> const& from, std::size_t bytes, label const& who)
    : state_{shared<detail::prepayment>::make(from, who)} {
    state_->fund(bytes, who.where);
}

CUOTA_INLINE detail::prepayment& reservation::state() const {
    if (!state_) detail::throw_misuse("a reservation was used after it was moved from");
    if (state_->is_of_parent()) detail::throw_forked();
    return *state_;
}

CUOTA_INLINE void reservation::end() noexcept {
    if (state_) state_->end();
}

CUOTA_INLINE reservation budget::reserve(std::size_t bytes, tag name, place where) {
    return reservation{node_, bytes, label{name, where}};
}

}  // namespace cuota::inline v0

#endif
