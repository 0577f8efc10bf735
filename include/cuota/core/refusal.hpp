// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A refusal as data.
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
    source_location where{};  ///< line 0: unknown
    std::size_t bytes = 0;    ///< rounded up to the granularity
    bool is_cached = false;   ///< free in a pool, cache or loader
};

namespace detail {

/// Adds h to the sum for its tag and call site. `sums` is sorted by compare_uses. Throws: std::bad_alloc; nothing is added.
void add_up(std::vector<allocation_group>& sums, allocation_group const& h);

}  // namespace detail

/// A budget at the time of a refusal. Sizes are bytes. Example: tests/core/refusal.cpp
struct budget_info {
    std::string name;             ///< without its ancestors
    std::size_t limit = 0;        ///< inclusive
    std::size_t held = 0;         ///< charged, caches included
    std::size_t peak = 0;         ///< maximum of `held` since the last reset_peak
    bool is_reservation = false;  ///< its limit is charged to its parent and can only grow
    bool is_released = false;     ///< a reservation that has ended
    /// The part of `held` not yet allocated; the peak does not count it.
    std::size_t coming = 0;

    /// Returns limit - held, at least 0.
    [[nodiscard]] std::size_t free() const noexcept { return limit > held ? limit - held : 0; }
    /// Returns held + charge - limit; 0 if the charge fits.
    [[nodiscard]] std::size_t shortfall_for(std::size_t charge) const noexcept;
};

/// The driver's figures at the time of a refusal, or the host's. Sizes are bytes. Example: tests/core/refusal.cpp
struct device_info {
    static constexpr int host = -1;  ///< ordinal of the host

    int ordinal = 0;  ///< CUDA's ordinal, or `host`
    /// device::name; for the host, the directory of the control group that bounds it, or "".
    std::string name;
    std::size_t total = 0;     ///< capacity
    std::size_t free = 0;      ///< for every program
    std::size_t own = 0;       ///< held through cuota in this process
    std::size_t baseline = 0;  ///< external() when budget::record_baseline was called
    /// Idle in the pool of cudaMallocAsync; the driver releases it on demand.
    std::size_t pooled = 0;
    /// An administrator's limit, above which the driver may terminate this process in favor of another; `unlimited`: none.
    std::size_t soft_limit = unlimited;
    /// Bytes that count for the soft limit: of all processes of the control group.
    std::size_t soft_limit_used = 0;

    /// Returns total - free - own - pooled: other programs, the CUDA context and libraries.
    [[nodiscard]] std::size_t external() const noexcept;
};

/// A pool, cache or loader with memory to release. Sizes are bytes.
/// Example: tests/core/refusal_text.cpp
struct reclaimer_info {
    std::string name;           ///< its tag
    std::size_t requested = 0;  ///< 0: not asked
    std::size_t released = 0;   ///< as it reported
    /// Still releasable; not requested unless all together cover the shortfall.
    std::size_t reclaimable = 0;
};

/// All facts of a refused request, for refusal_text, refusal_json and suggestions. Sizes are bytes.
/// Example: tests/core/refusal.cpp
struct refusal {
    std::size_t requested = 0;              ///< `unlimited` if the size overflowed
    std::size_t charged = 0;                ///< `requested` rounded up to the granularity
    std::size_t granularity = 1;            ///< of the memory resource
    label request{};                        ///< tag, call site and unit
    std::vector<budget_info> budgets;       ///< the charged one, then its ancestors up to the root
    std::size_t refused_by = 0;             ///< index in `budgets`
    std::optional<device_info> device;      ///< empty for host memory
    std::vector<allocation_group> holders;  ///< of the refusing budget, largest first
    std::size_t reclaimed = 0;              ///< released by caches before the refusal
    /// The caches that could be asked; absent: not recorded.
    std::optional<std::vector<reclaimer_info>> reclaimers;
    std::size_t reclaimable = 0;   ///< bytes that caches could still release
    std::size_t largest_free = 0;  ///< largest free block of the pool, if any
    /// The largest request that would fit after caches release everything.
    std::size_t max_fit = 0;
    std::size_t growth_available = 0;  ///< like max_fit, for growing the reservation at the end of `budgets`
    std::string cause{};               ///< error of a lower layer, if no budget refused
    /// The holders to free to make room, computed by the pools: a freed block may be smaller than a page or not adjacent to others. Empty
    /// if no release is known to suffice; absent if not computed.
    std::optional<std::vector<allocation_group>> release{};
    /// A limit that budget::set_limit could not set. `requested` and `charged` are then 0, and `budgets` has one element.
    std::optional<std::size_t> new_limit{};

    /// Returns max_fit in units of the request.
    [[nodiscard]] std::size_t max_fit_count() const noexcept;
    /// Returns budgets[refused_by], or null.
    [[nodiscard]] budget_info const* refusing_budget() const noexcept;
    /// Returns the shortfall in the refusing budget, or the excess over new_limit; 0 if no budget refused.
    [[nodiscard]] std::size_t shortfall() const noexcept;
    /// Returns the shortfall on the device; 0 if the device, its driver's idle memory or a pool suffices.
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
    budget_info const* const at = refusing_budget();
    if (!at) return 0;
    return new_limit ? at->held - std::min(at->held, *new_limit) : at->shortfall_for(charged);
}

CUOTA_INLINE std::size_t refusal::device_shortfall() const noexcept {
    if (!device || charged <= largest_free) return 0;
    std::size_t const available = detail::saturating_add(device->free, device->pooled);
    return charged > available ? charged - available : 0;
}

}  // namespace cuota::inline v0

#endif
