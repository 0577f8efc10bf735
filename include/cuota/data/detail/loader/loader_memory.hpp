// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A batch_loader's memory, registered with budgets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/loader_slots.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaim.hpp>

namespace cuota::inline v0::detail {

/// One part of a loader's memory, a reclaimable holder of its budget.
class loader_holder final : public reclaimable_holder {
public:
    loader_holder(intrusive_ptr<loader_slots> slots, loader_part which, budget account);
    CUOTA_INLINE_IN_PLACE ~loader_holder() override;

    CUOTA_INLINE_IN_PLACE std::size_t reclaim(std::size_t wanted) noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable(std::size_t wanted) const noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE int priority() const noexcept override;
    [[nodiscard]] std::string title() const override { return slots_->title(); }
    void allocation_groups(std::vector<allocation_group>& into) const override {
        slots_->allocation_groups(which_, into);
    }
    void tell(budget_observer& o) const noexcept override { slots_->tell(which_, o); }

private:
    intrusive_ptr<loader_slots> slots_;
    loader_part const which_;
    budget account_;
};

/// Owns a loader's memory.
/// Throws: as batch_loader's constructor.
class loader_memory {
public:
    loader_memory(loader_config shape, source_location where);
    /// Constructs; if an automatic batch size no longer fits, retries with one that does.
    [[nodiscard]] static loader_memory of(any_dataset const& from, loader_options how, source_location where);
    loader_memory(loader_memory const&) = delete;  // pointers to its slots exist
    loader_memory& operator=(loader_memory const&) = delete;
    ~loader_memory();

    [[nodiscard]] loader_slots* operator->() const noexcept { return slots_.get(); }

private:
    [[nodiscard]] intrusive_ptr<loader_holder> stake_of(loader_part which,
                                                        std::optional<budget> const& account) const;

    intrusive_ptr<loader_slots> slots_;  // may outlive this, empty, while a refusal is assembled
    intrusive_ptr<loader_holder> pinned_;
    intrusive_ptr<loader_holder> device_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE loader_holder::loader_holder(intrusive_ptr<loader_slots> slots, loader_part which,
                                          budget account)
    : slots_{std::move(slots)}, which_{which}, account_{std::move(account)} {
    budget_access::node(account_).join(*this);
    try {
        idle_registry::join(which_ == loader_part::device_slab ? memory_origin{slots_->where()}
                                                               : memory_origin::host(),
                            *this);
    } catch (...) {
        budget_access::node(account_).leave(*this);
        throw;
    }
}

CUOTA_INLINE_IN_PLACE loader_holder::~loader_holder() {
    idle_registry::leave(*this);
    budget_access::node(account_).leave(*this);
}

CUOTA_INLINE_IN_PLACE std::size_t loader_holder::reclaim(std::size_t wanted) noexcept {
    return wanted == 0 ? 0 : slots_->give_back(which_);
}

CUOTA_INLINE_IN_PLACE std::size_t loader_holder::reclaimable(std::size_t wanted) const noexcept {
    return wanted == 0 ? 0 : slots_->idle_bytes(which_);
}

CUOTA_INLINE_IN_PLACE int loader_holder::priority() const noexcept {
    return slots_->shape().options.reclaim_priority.value_or(0);
}

CUOTA_INLINE loader_memory::loader_memory(loader_config shape, source_location where)
    : slots_{intrusive_ptr<loader_slots>::make(std::move(shape), where)},
      pinned_{stake_of(loader_part::pinned_ring, slots_->shape().options.pinned_budget)},
      device_{stake_of(loader_part::device_slab, slots_->shape().options.device_budget)} {
    slots_->start_use(where);
    slots_->drop_use();
}

CUOTA_INLINE loader_memory::~loader_memory() { slots_->end(); }

CUOTA_INLINE loader_memory loader_memory::of(any_dataset const& from, loader_options how,
                                             source_location where) {
    try {
        return loader_memory{loader_config{from, how}, where};
    } catch (budget_exceeded const& refused) {
        std::size_t& size = how.*size_that_decides(how);
        bool const may_be_smaller = size == automatic_batch;
        size = refused.info().max_fit_count();
        if (!may_be_smaller || size == 0) throw;
    }
    return loader_memory{loader_config{from, how}, where};
}

CUOTA_INLINE intrusive_ptr<loader_holder> loader_memory::stake_of(
    loader_part which, std::optional<budget> const& account) const {
    if (!account) return {};
    return intrusive_ptr<loader_holder>::make(slots_, which, *account);
}

}  // namespace cuota::inline v0::detail

#endif
