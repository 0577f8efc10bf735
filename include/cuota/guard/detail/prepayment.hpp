// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The state of a reservation.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>

namespace cuota::inline v0::detail {

/// State of a reservation: its node, and a holder for its unspent bytes in refusals.
class prepayment final : public reclaimable_holder {
public:
    prepayment(intrusive_ptr<ledger> from, label const& who);
    ~prepayment() override { end(); }

    /// Refunds the unspent bytes at once, even while another thread refers to this object.
    void end() noexcept;

    void fund(std::size_t bytes, source_location where);
    [[nodiscard]] intrusive_ptr<ledger> const& node() const noexcept { return node_; }

    std::size_t reclaim(std::size_t) noexcept override { return 0; }
    [[nodiscard]] std::size_t reclaimable(std::size_t) const noexcept override { return 0; }
    [[nodiscard]] std::string title() const override { return "reservation " + node_->name(); }
    CUOTA_INLINE_IN_PLACE void allocation_groups(std::vector<allocation_group>& into) const override;

private:
    intrusive_ptr<ledger> node_;
    label who_;
    bool ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <optional>
#include <utility>

#include <cuota/guard/detail/reclaim.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE prepayment::prepayment(intrusive_ptr<ledger> from, label const& who)
    : node_{ledger::prepaid(who.name.is_empty() ? "unnamed" : who.name.text(), std::move(from))}, who_{who} {
    node_->parent()->join(*this);
}

CUOTA_INLINE void prepayment::end() noexcept {
    if (std::exchange(ended_, true)) return;
    node_->parent()->leave(*this);
    node_->settle();
}

CUOTA_INLINE void prepayment::fund(std::size_t bytes, source_location where) {
    charge_request const request{bytes, 1, label{who_.name, where}, std::nullopt};
    reclaim_record record;
    charge_by([&] { return node_->fund(bytes, &request.who); }, *node_->parent(), bytes, request, record);
}

CUOTA_INLINE_IN_PLACE void prepayment::allocation_groups(std::vector<allocation_group>& into) const {
    budget_info const now = node_->info();
    tag const name = who_.name.is_empty() ? tag{"reserved"} : tag::named("reserved for " + now.name);
    if (now.free() != 0) into.push_back({name, who_.where, now.free()});
}

}  // namespace cuota::inline v0::detail

#endif
