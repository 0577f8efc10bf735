// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as data: the request, the holders of memory, and the size that would have fitted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// Bytes charged to a budget under one tag and call site. Example: tests/core/suggestions.cpp
struct allocation_group {
    tag name{};               ///< empty: untagged
    source_location where{};  ///< call site of the allocation; line 0: unknown
    std::size_t bytes = 0;    ///< charged, so rounded up to the granularity
    bool is_cached = false;   ///< free in a pool, cache or loader: charged but not in use
};

namespace detail {

/// Adds h to the sum for its tag and call site. `sums` is sorted by compare_uses. Throws: std::bad_alloc; nothing is added.
/// Cost: a binary search, and for a new use a move of the sums after it: 30 ms for 100'000 allocation groups of 10'000 uses.
void add_up(std::vector<allocation_group>& sums, allocation_group const& h);

}  // namespace detail

/// A budget at the time of a refusal. Sizes are bytes. Example: tests/core/refusal.cpp
struct budget_info {
    std::string name;             ///< its own name, without its ancestors
    std::size_t limit = 0;        ///< inclusive
    std::size_t held = 0;         ///< charged, caches included
    std::size_t peak = 0;         ///< the maximum of `held` since the last reset_peak
    bool is_reservation = false;  ///< a reservation: its limit is charged to its parent and can only grow
    bool is_released = false;     ///< a reservation that has ended: it accepts no more charges
    /// The part of `held` for memory not yet allocated; the peak does not count it.
    std::size_t coming = 0;

    /// Returns the bytes that can still be charged; 0 if a lowered limit is below `held`.
    [[nodiscard]] std::size_t free() const noexcept { return limit > held ? limit - held : 0; }
    /// Returns held + charge - limit, the shortfall of a charge; 0 if it fits.
    [[nodiscard]] std::size_t shortfall_for(std::size_t charge) const noexcept;
};

/// The device at the time of a refusal, as reported by the driver. Sizes are bytes. Example: tests/core/refusal.cpp
struct device_info {
    int ordinal = 0;           ///< CUDA's ordinal in this process
    std::string name;          ///< same as device::name
    std::size_t total = 0;     ///< capacity
    std::size_t free = 0;      ///< free for every program
    std::size_t own = 0;       ///< held through cuota in this process
    std::size_t baseline = 0;  ///< the part of elsewhere() in use when budget::record_baseline was called
    /// Idle in the driver's pool, from which cudaMallocAsync allocates; the driver releases it when another request needs it.
    std::size_t pooled = 0;

    /// Returns the bytes of other programs, the CUDA context and libraries: total - free - own - pooled.
    [[nodiscard]] std::size_t external() const noexcept;
};

/// Bytes that a pool, cache or loader was asked to release before a refusal, and bytes it released.
/// Example: tests/core/refusal_text.cpp
struct reclaimer_info {
    std::string name;           ///< its tag
    std::size_t requested = 0;  ///< 0: not asked
    std::size_t released = 0;   ///< bytes that it reported as released
    /// Bytes it could still release; not requested if all together do not cover the shortfall.
    std::size_t reclaimable = 0;
};

/// All facts of a refused request. Sizes are bytes.
/// See refusal_text (for readers), refusal_json (one line for logs) and suggestions (suggestions).
/// Example: tests/core/refusal.cpp
struct refusal {
    std::size_t requested = 0;              ///< bytes requested; `unlimited` if the size overflowed
    std::size_t charged = 0;                ///< bytes to charge: `requested` rounded up to the granularity
    std::size_t granularity = 1;            ///< granularity of the memory resource
    label request{};                        ///< tag, call site and unit of the request
    std::vector<budget_info> budgets;       ///< the charged budget, then its ancestors up to the root
    std::size_t refused_by = 0;             ///< index in `budgets` of the one that refused
    std::optional<device_info> device;      ///< empty for host memory
    std::vector<allocation_group> holders;  ///< of the refusing budget, largest first
    std::size_t reclaimed = 0;              ///< bytes that caches released before the refusal
    /// The caches that could be asked; absent: not recorded.
    std::optional<std::vector<reclaimer_info>> reclaimers;
    std::size_t reclaimable = 0;   ///< bytes that caches could still release, if that sufficed
    std::size_t largest_free = 0;  ///< largest free block of the pool, if the request went to a pool
    /// The largest request that would have fitted after caches release all they can.
    std::size_t max_fit = 0;
    std::size_t growth_available = 0;  ///< like max_fit, for growing the reservation at the end of `budgets`
    std::string cause{};               ///< error text of a lower layer, if no budget refused
    /// The holders to release to make room for the request, as computed by the pools that hold the memory: a freed block may be smaller
    /// than a page or not adjacent to others. Empty if no release is known to suffice; absent if not computed.
    std::optional<std::vector<allocation_group>> release{};

    /// Returns max_fit in whole units of the request.
    [[nodiscard]] std::size_t max_fit_count() const noexcept;
    /// Returns budgets[refused_by], or null if no budget was charged. If the refusal has another cause, shortfall() is 0.
    [[nodiscard]] budget_info const* refusing_budget() const noexcept;
    /// Returns the shortfall in the refusing budget; 0 if no budget refused.
    [[nodiscard]] std::size_t shortfall() const noexcept;
    /// Returns the shortfall on the device; 0 if the device, its driver's idle memory or a pool suffices, or without a device.
    [[nodiscard]] std::size_t device_shortfall() const noexcept;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void detail::add_up(std::vector<allocation_group>& sums, allocation_group const& h) {
    auto const compared = [&](allocation_group const& sum) {
        return compare_uses(sum.name, sum.where, h.name, h.where);
    };
    allocation_group* const at =
        first_not(sums.data(), sums.size(), [&](allocation_group const& sum) { return compared(sum) < 0; });
    auto const index = at - sums.data();
    if (static_cast<std::size_t>(index) != sums.size() && compared(*at) == 0) at->bytes += h.bytes;
    else sums.insert(sums.begin() + index, h);
}

CUOTA_INLINE std::size_t budget_info::shortfall_for(std::size_t charge) const noexcept {
    if (charge <= free()) return 0;
    if (held <= limit) return charge - free();
    return checked_add(charge, held - limit).value_or(unlimited);
}

CUOTA_INLINE std::size_t device_info::external() const noexcept {
    std::size_t const used = total > free ? total - free : 0;
    std::size_t const known = detail::saturating_add(own, pooled);
    return used > known ? used - known : 0;
}

CUOTA_INLINE std::size_t refusal::max_fit_count() const noexcept {
    return request.unit_bytes == 0 ? 0 : max_fit / request.unit_bytes;
}

CUOTA_INLINE budget_info const* refusal::refusing_budget() const noexcept {
    return refused_by < budgets.size() ? &budgets[refused_by] : nullptr;
}

CUOTA_INLINE std::size_t refusal::shortfall() const noexcept {
    return refusing_budget() ? refusing_budget()->shortfall_for(charged) : 0;
}

CUOTA_INLINE std::size_t refusal::device_shortfall() const noexcept {
    if (!device || charged <= largest_free) return 0;
    std::size_t const available = detail::saturating_add(device->free, device->pooled);
    return charged > available ? charged - available : 0;
}

}  // namespace cuota::inline v0

#endif
