// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limit that follows the driver's free memory.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/guard/detail/ledger_node.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

/// limit = min(most, driver's free memory + memory of this budget - keep_free).
///
/// A race with other threads makes the limit too high, never too low: no request is refused falsely.
class CUOTA_PROCESS_TYPE device_limit final : public outer_limit {
public:
    device_limit(device where, std::size_t most, std::size_t keep_free,
                 std::chrono::nanoseconds max_age) noexcept;

    CUOTA_INLINE_IN_PLACE bool look(ledger_node& root) noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool is_stale() const noexcept override;
    /// Less than any driver allocates at a time: charges from a stock need no memory that another program may have allocated.
    [[nodiscard]] std::size_t most_in_stock() const noexcept override { return 65'536; }

    /// Throws: cuda_error.
    [[nodiscard]] std::size_t limit_now(ledger_node const& root) const;

    std::size_t record_baseline();
    [[nodiscard]] std::size_t baseline() const noexcept { return baseline_.load(std::memory_order_relaxed); }
    [[nodiscard]] device where() const noexcept { return device_; }

private:
    struct reach {
        std::size_t bytes = 0;
        bool is_exact = false;
    };
    // Adds the driver's free memory and this budget's; if this process freed memory meanwhile (not is_exact), all of its memory.
    [[nodiscard]] reach reach_now(ledger_node const& root) const;

    [[nodiscard]] static std::chrono::nanoseconds::rep now() noexcept;

    device const device_;
    std::size_t const most_;
    std::size_t const keep_free_;
    std::chrono::nanoseconds::rep const max_age_;
    std::atomic<std::chrono::nanoseconds::rep> due_ = 0;
    std::atomic<std::size_t> baseline_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE device_limit::device_limit(device where, std::size_t most, std::size_t keep_free,
                                        std::chrono::nanoseconds max_age) noexcept
    : device_{where}, most_{most}, keep_free_{keep_free}, max_age_{max_age.count()} {}

CUOTA_INLINE_IN_PLACE bool device_limit::look(ledger_node& root) noexcept {
    std::size_t limit = 0;
    if (!report_failure_of([&] { limit = limit_now(root); })) return false;
    due_.store(now() + max_age_, std::memory_order_relaxed);
    return root.set_limit(limit);
}

CUOTA_INLINE_IN_PLACE bool device_limit::is_stale() const noexcept {
    return now() >= due_.load(std::memory_order_relaxed);
}

CUOTA_INLINE std::size_t device_limit::limit_now(ledger_node const& root) const {
    reach found = reach_now(root);
    for (int looks = 1; !found.is_exact && looks != 16; ++looks) found = reach_now(root);
    return std::min(most_, found.bytes - std::min(found.bytes, keep_free_));
}

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

CUOTA_INLINE auto device_limit::reach_now(ledger_node const& root) const -> reach {
    std::size_t const given_back = given_back_on(device_).load();
    // Memory of the driver's default pool that no resource of ours uses is available.
    std::size_t const pooled = rt::in_default_pool(device_).reserved;
    std::size_t const idle = pooled - std::min(pooled, taken_from_pool_of(device_).load());
    std::size_t const free = saturating_add(device_.memory().free, idle);
    std::size_t const held = root.info().held;
    std::size_t const ours = taken_on(device_).load();
    std::size_t const went = given_back_on(device_).load() - given_back;
    return {saturating_add(free, went == 0 ? std::min(ours, held) : ours + went), went == 0};
}

CUOTA_INLINE std::chrono::nanoseconds::rep device_limit::now() noexcept {
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

}  // namespace cuota::inline v0::detail

#endif
