// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who holds bytes of a budget, as its account knows him.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/resource/idle_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

class budget_observer;
class ledger;

/// Something that holds bytes of a budget: it can say for whom, and may be able to give some back.
/// All of it is called outside every lock of the ledger, from whichever thread met the pressure.
class stakeholder : public idle_holder {
public:
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable_if(
        std::span<holding const> released) const override;

    /// Appends what is held, by tag and place, and what is cached.
    virtual void holdings(std::vector<holding>& into) const = 0;

    /// Tells somebody new what it holds in pieces of its own, as budget_observer::holds.
    virtual void tell(budget_observer&) const noexcept {}

    /// The largest request that needs no further charge; 0 when there is no such thing.
    [[nodiscard]] virtual std::size_t largest_free() const noexcept { return 0; }
};

/// What a charge says about itself, for the refusal it may become.
struct charge_request {
    std::size_t asked = 0;
    std::size_t granule = 1;
    label who{};
    std::optional<device> on;
};

// By the account of guard/pressure.hpp, which need not be known for it.

/// From now on he is asked. Throws: std::bad_alloc.
void join(ledger& node, stakeholder& s);
void leave(ledger& node, stakeholder& s) noexcept;
/// Throws: budget_exceeded with all the facts; nothing is charged then.
void charge(ledger& node, std::size_t bytes, charge_request const& request);
/// The same for memory that has not come yet: ledger::charge_coming_or_say.
void charge_coming(ledger& node, std::size_t bytes, charge_request const& request);

/// Whether one of the holdings has that tag and place.
[[nodiscard]] bool is_one_of(std::span<holding const> holders, tag name, place where) noexcept;

/// Holdings of one tag and place in one, the largest first.
void sum_up(std::vector<holding>& holders);

}  // namespace cuota::inline v0::detail
