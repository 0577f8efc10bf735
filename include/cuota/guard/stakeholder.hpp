// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who holds bytes of a budget, as its account knows him.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

class budget_observer;
class ledger;

/// Something that holds bytes of a budget: it can say for whom, and may be able to give some back.
/// All of it is called outside every lock of the ledger, from whichever thread met the pressure.
class stakeholder : public ref_counted {
public:
    virtual ~stakeholder() = default;

    /// Gives back at least `wanted` bytes that nobody uses, or all of them, and as little more as it can; returns what
    /// it really gave back.
    virtual std::size_t reclaim(std::size_t wanted) noexcept = 0;

    /// What reclaim(wanted) would give back now; too much rather than too little if it cannot be said.
    [[nodiscard]] virtual std::size_t reclaimable(std::size_t wanted) const noexcept = 0;

    /// Who is asked first: the higher; among equals, who gives back least more than is missing.
    [[nodiscard]] virtual int priority() const noexcept { return 0; }

    /// True when reclaim() returns what a function of the program says. The account is then asked whether it is so.
    [[nodiscard]] virtual bool speaks_for_program() const noexcept { return false; }
    /// Bytes that came free in it so far and stayed charged, as blocks in a pool do: reclaim() can give them. It only grows.
    [[nodiscard]] virtual std::size_t freed() const noexcept { return 0; }
    /// Reports to the error sink that of the bytes that reclaim() said it gave, only `shown` came back to the account.
    virtual void report_false_claim(std::size_t claimed, std::size_t shown,
                                    std::string const& account) const noexcept {
        (void)claimed, (void)shown, (void)account;
    }

    /// For messages.
    [[nodiscard]] virtual std::string title() const = 0;

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

/// Holdings of one tag and place in one, the largest first.
void sum_up(std::vector<holding>& holders);

}  // namespace cuota::inline v0::detail
