// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as data: what was asked, who holds what, and what would have fitted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Bytes that somebody holds of a budget, under one tag and from one place. Example: tests/core/next_steps.cpp
struct holding {
    tag name{};              ///< empty: nobody named it
    place where{};           ///< of the request; line 0: not known
    std::size_t bytes = 0;   ///< charged, so with the granule's rounding
    bool is_cached = false;  ///< lies free in a pool, cache or loader: charged, and in nobody's use
};

namespace detail {

/// Adds h to the sum of its tag and place. The sums are in the order of compare_uses. Throws: std::bad_alloc; nothing is added then.
/// Cost: a binary search, and a move of the sums behind it for a new use: 100'000 holdings of 10'000 uses take 30 ms.
void add_up(std::vector<holding>& sums, holding const& h);

}  // namespace detail

/// A budget at the moment of a refusal. Bytes. Example: tests/core/refusal.cpp
struct budget_facts {
    std::string name;         ///< its own, without its ancestors'
    std::size_t limit = 0;    ///< inclusive
    std::size_t held = 0;     ///< charged, caches included
    std::size_t peak = 0;     ///< the most that was held, since the last reset_peak
    bool is_prepaid = false;  ///< a reservation's: its limit was charged to its parent, and is only grown
    bool has_ended = false;   ///< a reservation's that is over: nothing can be charged to it any more
    /// The part of `held` that is charged for memory not allocated yet; the peak does not count it.
    std::size_t coming = 0;

    /// What it can still be charged; 0 where a lowered limit lies below what is held.
    [[nodiscard]] std::size_t free() const noexcept { return limit > held ? limit - held : 0; }
    /// What a charge of so many bytes lacks here; 0 when it fits.
    [[nodiscard]] std::size_t missing_for(std::size_t charge) const noexcept;
};

/// The device at the moment of a refusal, as its driver tells it. Bytes. Example: tests/core/refusal.cpp
struct device_facts {
    int ordinal = 0;           ///< as CUDA counts them in this process
    std::string name;          ///< as device::name
    std::size_t total = 0;     ///< of the device
    std::size_t free = 0;      ///< left for every program
    std::size_t ours = 0;      ///< held through cuota in this process
    std::size_t overhead = 0;  ///< of elsewhere(), what was there at the start (budget::learn_overhead)
    /// Idle in the driver's own pool, from which cudaMallocAsync takes memory; given back to the device when a request needs it.
    std::size_t pooled = 0;

    /// Held by other programs, the CUDA context and libraries: neither free, nor ours, nor idle in the driver's pool.
    [[nodiscard]] std::size_t elsewhere() const noexcept;
};

/// What a pool, cache or loader was asked to give back before a refusal, and what it gave. Bytes.
/// Example: tests/core/refusal_text.cpp
struct reclaimer_facts {
    std::string name;       ///< its tag
    std::size_t asked = 0;  ///< 0: it was not asked
    std::size_t given = 0;  ///< what it says it gave back
    std::size_t could =
        0;  ///< what it still could give; not asked for when all together would not have sufficed
};

/// Everything known when a request was refused. Sizes are bytes.
/// As text: refusal_text. As one line for logs: refusal_json. What to do about it: next_steps.
/// Example: tests/core/refusal.cpp
struct refusal {
    std::size_t asked = 0;    ///< what the caller wanted; `unlimited` when that was more than can be said
    std::size_t charged = 0;  ///< what it would have cost: asked, rounded up to the granule of its source
    std::size_t granule = 1;  ///< the rounding
    label request{};          ///< who asked, where, in which unit
    std::vector<budget_facts> budgets;   ///< the budget that was asked, then its ancestors up to the root
    std::size_t refused_by = 0;          ///< which of them refused
    std::optional<device_facts> device;  ///< absent for host memory
    std::vector<holding> holders;        ///< of the budget that refused, largest first
    std::size_t reclaimed = 0;           ///< what caches gave back before the refusal
    std::optional<std::vector<reclaimer_facts>> reclaimers;  ///< who was asked for that; absent: not recorded
    std::size_t reclaimable = 0;   ///< what caches could still give back, were that enough
    std::size_t largest_free = 0;  ///< the largest block a pool had ready, when a pool was asked
    std::size_t would_fit =
        0;  ///< the most that a request from here could have got, caches having given what they can
    std::size_t room_to_grow = 0;  ///< as would_fit, for growing the reservation that `budgets` end with
    std::string cause{};           ///< what a lower layer said, when it was not a budget that refused
    /// The holders whose release makes room for the request. The pools that hold the memory were asked, because a released block may be
    /// less than a page, or lie apart from others. Empty when no release is known to suffice; absent when it was not looked for.
    std::optional<std::vector<holding>> release{};

    /// The largest count of the request's unit that would have fitted.
    [[nodiscard]] std::size_t fitting_count() const noexcept;
    /// The budget that refused, or would have; null when none was asked.
    [[nodiscard]] budget_facts const* refuser() const noexcept;
    /// What is missing at the budget that refused; 0 when no budget did.
    [[nodiscard]] std::size_t missing() const noexcept;
    /// What is missing on the device; 0 when it has enough, or a pool does, and when no device was asked. What is idle in the driver's pool
    /// is not missing.
    [[nodiscard]] std::size_t missing_on_device() const noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/std_parts.hpp>
#include <cuota/core/text.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void detail::add_up(std::vector<holding>& sums, holding const& h) {
    auto const compared = [&](holding const& sum) {
        return compare_uses(sum.name, sum.where, h.name, h.where);
    };
    holding* const at =
        first_not(sums.data(), sums.size(), [&](holding const& sum) { return compared(sum) < 0; });
    auto const index = at - sums.data();
    if (static_cast<std::size_t>(index) != sums.size() && compared(*at) == 0) at->bytes += h.bytes;
    else sums.insert(sums.begin() + index, h);
}

CUOTA_INLINE std::size_t budget_facts::missing_for(std::size_t charge) const noexcept {
    if (charge <= free()) return 0;
    if (held <= limit) return charge - free();
    return checked_add(charge, held - limit).value_or(unlimited);
}

CUOTA_INLINE std::size_t device_facts::elsewhere() const noexcept {
    std::size_t const used = total > free ? total - free : 0;
    std::size_t const known = detail::saturating_add(ours, pooled);
    return used > known ? used - known : 0;
}

CUOTA_INLINE std::size_t refusal::fitting_count() const noexcept {
    return request.unit_bytes == 0 ? 0 : would_fit / request.unit_bytes;
}

CUOTA_INLINE budget_facts const* refusal::refuser() const noexcept {
    return refused_by < budgets.size() ? &budgets[refused_by] : nullptr;
}

CUOTA_INLINE std::size_t refusal::missing() const noexcept {
    return refuser() ? refuser()->missing_for(charged) : 0;
}

CUOTA_INLINE std::size_t refusal::missing_on_device() const noexcept {
    if (!device || charged <= largest_free) return 0;
    std::size_t const available = detail::saturating_add(device->free, device->pooled);
    return charged > available ? charged - available : 0;
}

}  // namespace cuota::inline v0

#endif
