// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Budgets: limits on bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

class reservation;

/// The treatment of bytes held above a new limit by `budget::set_limit`. Example: tests/guard/budget_limit.cpp
enum class when_held {
    refuse,  ///< throws and keeps the old limit, unless pools, caches and loaders can release the excess
    keep,    ///< sets the limit at once; charges are refused until the excess has been refunded
};

/// The administrator's limit that a device's budget obeys. Example: tests/guard/detail/limits/device_limit.sim.cpp
enum class stay_within {
    soft_limit,  ///< the driver never terminates the process for its memory
    hard_limit   ///< allocations succeed up to it
};

namespace detail {
struct budget_access;
class ledger;
class prepayment;
class queried_limit;
}  // namespace detail
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::ledger>;
extern template class detail::intrusive_ptr<detail::prepayment>;
#endif

/// A limit in bytes and the account of the memory charged to it. Copies are handles of the same budget.
///
/// Exact under any number of threads: charged bytes never exceed the limit (inclusive), and no charge that fits is refused. A charge is
/// made at every ancestor or at none. If it does not fit, pools, caches and loaders release idle memory before it is refused.
///
/// Counts only memory that is charged to it: pass it to a pool, a loader or `budgeted`. Bytes still charged when a nested budget is
/// destroyed are reported to the error sink and stay charged to its parent.
/// Units:   bytes as charged.
/// Order:   none: charges and refunds take effect at once.
/// Threads: any. Throws on construction: std::bad_alloc.
/// Cost:    a few loads and stores at any depth to charge and refund bytes that this thread has refunded here before; otherwise, and for
///          queries, the lock of the whole tree.
/// Example: examples/first.cpp, examples/one_budget.cpp
class budget {
public:
    /// Makes a root; `unlimited` only counts.
    budget(std::string name, std::size_t limit);

    /// Makes a budget nested in `parent`.
    budget(std::string name, std::size_t limit, budget const& parent);
    /// Refers to the same budget, as does a move.
    budget(budget const&) noexcept = default;
    budget& operator=(budget const&) noexcept = default;  ///< refers to the argument's budget
    ~budget() = default;

    /// Makes a budget for a device's memory. Its limit follows the memory that other programs use:
    ///
    ///     limit = min(share * total, the driver's free bytes + bytes charged here - keep_free),  0 <= share <= 1
    ///
    /// If the device uses the host's memory, keep_free is at least a sixteenth of the total, up to 2 GiB: exhausted memory stops the host. An
    /// administrator's soft limit (memory_limits) bounds the free bytes, unless `bound` is the hard one.
    /// The driver's figure is cached for `max_age` and queried again before a refusal; charges of up to 64 KiB in total per thread may use
    /// an older one. A failed query is reported to the error sink, and the last figure is kept. While `limit()` is below `held()`, nothing
    /// can be charged.
    /// Throws: cuda_error; usage_error if share is out of range.
    [[nodiscard]] static budget for_device(device where, double share = 1.0, std::size_t keep_free = 0,
                                           std::chrono::nanoseconds max_age = std::chrono::milliseconds{10},
                                           stay_within bound = stay_within::soft_limit);

    /// Makes a budget for the host's memory, as host_memory reports it: of the machine, and of the control groups of a container. Its limit
    /// follows the memory that is in use:
    ///
    ///     limit = min(share * total, available bytes + page-locked bytes of cuota charged here - keep_free),  0 <= share <= 1
    ///
    /// keep_free is at least a sixteenth of the total, up to 2 GiB: memory that cannot be swapped out stops the host, or the kernel kills a
    /// process. Queried as for_device. `root` is the directory of proc and sys.
    /// Throws: usage_error if share is out of range.
    [[nodiscard]] static budget for_host(double share = 1.0, std::size_t keep_free = 0,
                                         std::chrono::nanoseconds max_age = std::chrono::milliseconds{10},
                                         std::string root = {});

    /// Records the device memory that cuota did not allocate (the CUDA context, libraries) as the baseline, which refusals report apart
    /// from other programs' later allocations. Call it once libraries are initialized. Returns the bytes.
    /// Throws: cuda_error; usage_error if this budget was not made by for_device.
    std::size_t record_baseline();

    /// Charges `bytes`. Refusals and alerts name the request by `name` and `where`. Throws: budget_exceeded; nothing is charged.
    void charge(std::size_t bytes, tag name = {}, source_location where = source_location::current());

    /// Like charge, but reclaims nothing and returns false if the bytes do not fit.
    [[nodiscard]] bool try_charge(std::size_t bytes) noexcept;

    /// Refunds bytes charged to this budget itself. Refunding more is reported to the error sink as misuse and changes nothing.
    void refund(std::size_t bytes, source_location where = source_location::current()) noexcept;

    /// Charges bytes, to be spent through the reservation's own budget, which is named `name`. Throws: budget_exceeded; nothing is charged.
    [[nodiscard]] reservation reserve(std::size_t bytes, tag name = {},
                                      source_location where = source_location::current());

    /// Sets the limit. If it is lower and more is held, pools, caches and loaders release idle memory; the rest is treated as `excess` says. Of
    /// the budget of a device or the host, `bytes` replaces the share of the total.
    ///
    /// A charge that another thread makes meanwhile obeys the old limit or the new one.
    /// Throws: budget_exceeded with refusal::new_limit, and usage_error for the budget of a reservation; the limit is as it was.
    void set_limit(std::size_t bytes, when_held excess = when_held::refuse,
                   source_location where = source_location::current());

    /// Returns the name; "device 0" for a device's budget. Valid as long as the budget.
    [[nodiscard]] std::string const& name() const noexcept;
    /// Returns the limit: for a device as of the last query, for a reservation the reserved bytes.
    [[nodiscard]] std::size_t limit() const;
    /// Returns the bytes charged here and to descendants. Exact while no other thread charges.
    [[nodiscard]] std::size_t held() const;
    /// Returns the most bytes held at one instant since construction or `reset_peak`.
    [[nodiscard]] std::size_t peak() const;
    /// Returns the bytes that this budget and its ancestors have available now.
    [[nodiscard]] std::size_t available() const noexcept;
    /// Returns all figures, of one instant if no other thread charges.
    [[nodiscard]] budget_info info() const;
    /// Sets this budget's peak to the bytes held now.
    void reset_peak() noexcept;
    /// Returns the last refusal here or in a descendant.
    [[nodiscard]] std::optional<budget_exceeded> last_refusal() const;
    /// Returns the parent; empty for a root.
    [[nodiscard]] std::optional<budget> parent() const;

    /// Returns whether both are the same budget.
    friend bool operator==(budget const&, budget const&) noexcept = default;

private:
    friend class reservation;
    friend struct detail::budget_access;
    explicit budget(detail::intrusive_ptr<detail::ledger> node) noexcept : node_{std::move(node)} {}
    void follow(detail::light_unique_ptr<detail::queried_limit> queried, std::size_t most);

    detail::intrusive_ptr<detail::ledger> node_;
};

namespace detail {
/// Gives library classes access to a budget's account.
struct budget_access {
    /// Valid as long as a copy of the budget exists.
    [[nodiscard]] static ledger& node(budget const& b) noexcept { return *b.node_; }
};
}  // namespace detail

/// Bytes of a budget that are charged in advance, to be spent through `as_budget()`. Move-only.
///
/// On destruction unspent bytes return to the budget; spent bytes stay charged until they are refunded, and no more can be spent.
/// Units:   bytes.
/// Threads: any for charges to its budget; otherwise one at a time.
/// Throws:  budget_exceeded where it charges; usage_error if moved from.
/// Cost:    the tree's lock to make, grow or shrink it.
/// Example: tests/guard/budget.cpp
class reservation {
public:
    reservation(reservation&&) noexcept = default;  ///< moves the bytes; copies of its budget stay valid
    /// Ends the current reservation, then moves `other`'s.
    reservation& operator=(reservation&& other) noexcept;
    ~reservation() { end(); }

    /// Returns the reservation's budget.
    [[nodiscard]] budget as_budget() const;
    /// Returns the reserved bytes, spent or not.
    [[nodiscard]] std::size_t bytes() const;

    /// Reserves `more` bytes. On failure, nothing is changed.
    void grow(std::size_t more, source_location where = source_location::current());

    /// Returns `less` unspent bytes. Throws: usage_error if fewer are unspent.
    void shrink(std::size_t less, source_location where = source_location::current());

    /// Moves unspent bytes to a new reservation of the same budget; no other charge can take them meanwhile. Throws: usage_error if fewer are
    /// unspent; nothing is changed.
    [[nodiscard]] reservation split(std::size_t bytes, tag name = {},
                                    source_location where = source_location::current());

    /// Moves the unspent bytes of `other` here and ends it; its spent bytes return to the budget once they are refunded. Throws: usage_error
    /// if `other` is this one or of another budget; nothing is changed.
    void merge(reservation&& other, source_location where = source_location::current());

private:
    friend class budget;
    explicit reservation(detail::intrusive_ptr<detail::prepayment> state) noexcept;
    [[nodiscard]] detail::prepayment& state() const;

    void end() noexcept;

    detail::intrusive_ptr<detail::prepayment> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/guard/detail/limits/device_limit.hpp>
#include <cuota/guard/detail/limits/host_limit.hpp>
#include <cuota/guard/detail/prepayment.hpp>
#include <cuota/guard/detail/reclaim.hpp>
#include <cuota/runtime/host_memory.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE budget::budget(std::string name, std::size_t limit)
    : node_{detail::intrusive_ptr<detail::ledger>::make(std::move(name), limit,
                                                        detail::intrusive_ptr<detail::ledger>{})} {}

CUOTA_INLINE budget::budget(std::string name, std::size_t limit, budget const& parent)
    : node_{detail::intrusive_ptr<detail::ledger>::make(std::move(name), limit, parent.node_)} {}

CUOTA_INLINE budget budget::for_device(device where, double share, std::size_t keep_free,
                                       std::chrono::nanoseconds max_age, stay_within bound) {
    if (!(share >= 0.0 && share <= 1.0))
        detail::throw_usage_error("budget::for_device: share = {} is out of range [0, 1]", {share});
    std::size_t const total = where.memory().total;
    std::size_t const most = std::min(total, static_cast<std::size_t>(share * static_cast<double>(total)));
    budget made{"device " + std::to_string(where.ordinal()), most};
    made.follow(detail::light_unique_ptr<detail::device_limit>::make(where, total, keep_free, max_age,
                                                                     bound == stay_within::soft_limit),
                most);
    return made;
}

CUOTA_INLINE budget budget::for_host(double share, std::size_t keep_free, std::chrono::nanoseconds max_age,
                                     std::string root) {
    if (!(share >= 0.0 && share <= 1.0))
        detail::throw_usage_error("budget::for_host: share = {} is out of range [0, 1]", {share});
    host_memory_info const host = host_memory(root);
    detail::report_ignored(host);
    std::size_t const most =
        std::min(host.total, static_cast<std::size_t>(share * static_cast<double>(host.total)));
    budget made{"host", most};
    made.follow(
        detail::light_unique_ptr<detail::host_limit>::make(host.total, keep_free, max_age, std::move(root)),
        most);
    return made;
}

CUOTA_INLINE void budget::follow(detail::light_unique_ptr<detail::queried_limit> queried, std::size_t most) {
    queried->most = most;
    std::size_t const limit = queried->limit_now(*node_);
    node_->set_outer_limit(std::move(queried));
    node_->set_limit(limit);
}

CUOTA_INLINE std::size_t budget::record_baseline() {
    if (auto* const driver = dynamic_cast<detail::device_limit*>(node_->outer()))
        return driver->record_baseline();
    detail::throw_usage_error("budget {}: record_baseline requires a budget made by budget::for_device",
                              {name()});
}

CUOTA_INLINE void budget::charge(std::size_t bytes, tag name, source_location where) {
    detail::charge(*node_, bytes, {bytes, 1, label{name, where}, std::nullopt});
}

CUOTA_INLINE bool budget::try_charge(std::size_t bytes) noexcept { return node_->try_charge(bytes); }

CUOTA_INLINE void budget::refund(std::size_t bytes, source_location where) noexcept {
    if (node_->try_refund(bytes)) [[likely]]
        return;
    report_failure_of([&] {
        detail::throw_usage_error(where, "budget {}: cannot refund {}: only {} are charged",
                                  {name(), detail::as_bytes(bytes), detail::as_bytes(node_->charged_here())});
    });
}

CUOTA_INLINE void budget::set_limit(std::size_t bytes, when_held excess, source_location where) {
    if (node_->is_prepaid())
        detail::throw_usage_error(
            where, "budget {}: cannot set the limit of a reservation; use reservation::grow or shrink",
            {name()});
    detail::change_limit(*node_, bytes, excess == when_held::keep, where);
}

CUOTA_INLINE std::string const& budget::name() const noexcept { return node_->name(); }

CUOTA_INLINE std::size_t budget::limit() const { return node_->info().limit; }

CUOTA_INLINE std::size_t budget::held() const { return node_->info().held; }

CUOTA_INLINE std::size_t budget::peak() const { return node_->info().peak; }

CUOTA_INLINE std::size_t budget::available() const noexcept { return node_->available(); }

CUOTA_INLINE budget_info budget::info() const { return node_->info(); }

CUOTA_INLINE void budget::reset_peak() noexcept { node_->reset_peak(); }

CUOTA_INLINE std::optional<budget_exceeded> budget::last_refusal() const { return node_->last_refusal(); }

CUOTA_INLINE std::optional<budget> budget::parent() const {
    if (!node_->parent()) return std::nullopt;
    return budget{node_->parent()};
}

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::ledger>;
template class detail::intrusive_ptr<detail::prepayment>;
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

CUOTA_INLINE void reservation::grow(std::size_t more, source_location where) { state().fund(more, where); }

CUOTA_INLINE void reservation::shrink(std::size_t less, source_location where) {
    budget const prepaid = as_budget();
    if (!state().node()->try_unfund(less))
        detail::throw_usage_error(
            where, "reservation: cannot shrink {} by {}: {} of it are in use",
            {detail::as_bytes(prepaid.limit()), detail::as_bytes(less), detail::as_bytes(prepaid.held())});
}

CUOTA_INLINE reservation reservation::split(std::size_t bytes, tag name, source_location where) {
    detail::ledger& from = *state().node();
    reservation made{detail::intrusive_ptr<detail::prepayment>::make(from.parent(), label{name, where})};
    if (!from.try_move_to(*made.state_->node(), bytes))
        detail::throw_usage_error(where, "reservation {}: cannot split off {}: {} of {} are in use",
                                  {from.name(), detail::as_bytes(bytes), detail::as_bytes(from.info().held),
                                   detail::as_bytes(from.limit())});
    return made;
}

CUOTA_INLINE void reservation::merge(reservation&& other, source_location where) {
    detail::ledger& to = *state().node();
    detail::ledger& from = *other.state().node();
    if (&to == &from)
        detail::throw_usage_error(where, "reservation {}: cannot be merged with itself", {to.name()});
    if (to.parent() != from.parent())
        detail::throw_usage_error(where, "reservation {}: cannot merge {}: it is of budget {} in place of {}",
                                  {to.name(), from.name(), from.parent()->name(), to.parent()->name()});
    from.move_unused_to(to);
    reservation{std::move(other)}.end();
}

CUOTA_INLINE reservation::reservation(detail::intrusive_ptr<detail::prepayment> state) noexcept
    : state_{std::move(state)} {}

CUOTA_INLINE detail::prepayment& reservation::state() const {
    if (!state_) detail::throw_usage_error("a reservation was used after it was moved from");
    if (state_->is_of_parent()) detail::throw_forked();
    return *state_;
}

CUOTA_INLINE void reservation::end() noexcept {
    if (state_) state_->end();
}

CUOTA_INLINE reservation budget::reserve(std::size_t bytes, tag name, source_location where) {
    reservation made{detail::intrusive_ptr<detail::prepayment>::make(node_, label{name, where})};
    made.state_->fund(bytes, where);
    return made;
}

}  // namespace cuota::inline v0

#endif
