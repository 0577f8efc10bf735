// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Holder of bytes of a budget.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

class budget_observer;
class ledger;

/// Reports its allocation groups, and may release idle memory. Called by the charging thread, outside the ledger's locks.
class reclaimable_holder : public idle_holder {
public:
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable_if(
        std::span<allocation_group const> released) const override;

    /// Appends held and cached bytes.
    virtual void allocation_groups(std::vector<allocation_group>& into) const = 0;

    /// Notifies a new observer of its pieces.
    virtual void tell(budget_observer&) const noexcept {}

    /// Returns the largest request without a further charge, or 0.
    [[nodiscard]] virtual std::size_t largest_free() const noexcept { return 0; }
};

/// Description of a charge, for a refusal.
struct charge_request {
    std::size_t requested = 0;
    std::size_t granularity = 1;
    label who{};
    std::optional<device> on;
};

// Defined in guard/detail/reclaim.hpp, which callers need not include.

/// Throws: std::bad_alloc.
void join(ledger& node, reclaimable_holder& s);
void leave(ledger& node, reclaimable_holder& s) noexcept;
/// Throws: budget_exceeded; nothing is charged.
void charge(ledger& node, std::size_t bytes, charge_request const& request);
/// The same for memory not allocated yet (ledger::charge_coming_or_say).
void charge_coming(ledger& node, std::size_t bytes, charge_request const& request);

[[nodiscard]] bool is_one_of(std::span<allocation_group const> holders, tag name,
                             source_location where) noexcept;

/// Merges groups of equal tag and call site; largest first.
void sum_up(std::vector<allocation_group>& holders);

}  // namespace cuota::inline v0::detail
