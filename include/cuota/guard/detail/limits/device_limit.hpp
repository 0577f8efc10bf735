// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limit that follows the driver's free memory.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/guard/detail/limits/queried_limit.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

/// Follows what the driver reports as free, and what an administrator's soft limit leaves.
class CUOTA_PROCESS_TYPE device_limit final : public queried_limit {
public:
    /// `total` bytes of the device.
    device_limit(device where, std::size_t total, std::size_t keep_free, std::chrono::nanoseconds max_age,
                 bool is_within_soft_limit);

    std::size_t record_baseline();
    [[nodiscard]] std::size_t baseline() const noexcept { return baseline_.load(std::memory_order_relaxed); }
    [[nodiscard]] device where() const noexcept { return device_; }

    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::optional<device_info> facts() const noexcept override;

private:
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t free_now() const override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE counters own() const noexcept override;

    device const device_;
    bool const is_within_soft_limit_;
    std::atomic<std::size_t> baseline_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE device_limit::device_limit(device where, std::size_t total, std::size_t keep_free,
                                        std::chrono::nanoseconds max_age, bool is_within_soft_limit)
    : queried_limit{where.uses_host_memory() ? std::max(keep_free, host_margin(total)) : keep_free, max_age},
      device_{where},
      is_within_soft_limit_{is_within_soft_limit} {}

CUOTA_INLINE std::size_t device_limit::record_baseline() {
    device::memory_info const memory = device_.memory();
    device_info const facts{device_.ordinal(),
                            {},
                            memory.total,
                            memory.free,
                            taken_on(device_).load(),
                            0,
                            rt::in_default_pool(device_).idle()};
    baseline_.store(facts.external(), std::memory_order_relaxed);
    return facts.external();
}

CUOTA_INLINE_IN_PLACE std::optional<device_info> device_limit::facts() const noexcept {
    std::optional<device_info> found = facts_of(device_);
    if (found) found->baseline = baseline();
    return found;
}

CUOTA_INLINE_IN_PLACE std::size_t device_limit::free_now() const {
    // Memory of the driver's default pool that no resource of ours uses is available.
    std::size_t const pooled = rt::in_default_pool(device_).reserved;
    std::size_t const idle = pooled - std::min(pooled, taken_from_pool_of(device_).load());
    std::size_t const free = saturating_add(device_.memory().free, idle);
    if (!is_within_soft_limit_) return free;
    auto limits = device_.limits();
    if (!limits || limits->left() >= free) return free;
    // It counts for the soft limit as well, until it is released.
    if (idle != 0) {
        (void)wait_for_async_frees(device_);
        rt::trim_default_pool(device_);
        limits = device_.limits();
    }
    return limits ? std::min(free, limits->left()) : free;
}

CUOTA_INLINE_IN_PLACE auto device_limit::own() const noexcept -> counters {
    return {taken_on(device_), given_back_on(device_)};
}

}  // namespace cuota::inline v0::detail

#endif
