// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limit of a budget from the driver's free memory, so that other programs, the CUDA context and libraries are taken into account.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/ledger_node.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0::detail {

/// limit = min(most, driver's free memory + memory of this budget - keep_free).
///
/// Memory that the driver has already allocated to this budget is not free but may still be used by it, so it is added. The terms are read
/// while other threads allocate and free. Such a race can make the limit too high by the memory in transition, never too low: no request is
/// refused falsely. If the driver then lacks the memory, the resource throws a typed refusal.
class device_limit final : public outer_limit {
public:
    device_limit(device where, std::size_t most, std::size_t keep_free,
                 std::chrono::nanoseconds good_for) noexcept;

    CUOTA_INLINE_IN_PLACE bool look(ledger_node& root) noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool is_stale() const noexcept override;
    /// Less than the smallest unit that a driver allocates, so that charges met from a stock without a query depend on no memory that
    /// another program may have allocated meanwhile.
    [[nodiscard]] std::size_t most_in_stock() const noexcept override { return 65'536; }

    /// Computes the limit from the driver's present figures. Throws: cuda_error.
    [[nodiscard]] std::size_t limit_now(ledger_node const& root) const;

    /// Records device memory that is in use now and not allocated through cuota as the baseline (budget::learn_overhead). Throws:
    /// cuda_error.
    std::size_t learn_overhead();
    [[nodiscard]] std::size_t overhead() const noexcept { return overhead_.load(std::memory_order_relaxed); }
    [[nodiscard]] device where() const noexcept { return device_; }

private:
    struct reach {
        std::size_t bytes = 0;
        bool is_exact = false;
    };
    // Adds the driver's free memory and this budget's own. is_exact: this process freed no memory during the reads. Memory that was held
    // when the driver answered is then still held, and memory allocated later makes the sum too high. Otherwise adds all memory that this
    // process held at some moment, that of other budgets included.
    [[nodiscard]] reach reach_now(ledger_node const& root) const;

    [[nodiscard]] static std::chrono::nanoseconds::rep now() noexcept;

    device const device_;
    std::size_t const most_;
    std::size_t const keep_free_;
    std::chrono::nanoseconds::rep const good_for_;
    std::atomic<std::chrono::nanoseconds::rep> due_ = 0;
    std::atomic<std::size_t> overhead_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE device_limit::device_limit(device where, std::size_t most, std::size_t keep_free,
                                        std::chrono::nanoseconds good_for) noexcept
    : device_{where}, most_{most}, keep_free_{keep_free}, good_for_{good_for.count()} {}

CUOTA_INLINE_IN_PLACE bool device_limit::look(ledger_node& root) noexcept {
    std::size_t limit = 0;
    if (!report_failure_of([&] { limit = limit_now(root); })) return false;
    due_.store(now() + good_for_, std::memory_order_relaxed);
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

CUOTA_INLINE std::size_t device_limit::learn_overhead() {
    device::memory_info const memory = device_.memory();
    device_facts const facts{device_.ordinal(),
                             {},
                             memory.total,
                             memory.free,
                             taken_on(device_).load(),
                             0,
                             rt::in_default_pool(device_).idle()};
    overhead_.store(facts.elsewhere(), std::memory_order_relaxed);
    return facts.elsewhere();
}

CUOTA_INLINE auto device_limit::reach_now(ledger_node const& root) const -> reach {
    std::size_t const given_back = given_back_on(device_).load();
    // Memory in the driver's default pool that no resource of ours uses is available: it is cached, or its free has not completed.
    std::size_t const pooled = rt::in_default_pool(device_).reserved;
    std::size_t const idle = pooled - std::min(pooled, taken_from_pool_of(device_).load());
    std::size_t const free = saturating_add(device_.memory().free, idle);
    std::size_t const held = root.now().held;
    std::size_t const ours = taken_on(device_).load();
    std::size_t const went = given_back_on(device_).load() - given_back;
    return {saturating_add(free, went == 0 ? std::min(ours, held) : ours + went), went == 0};
}

CUOTA_INLINE std::chrono::nanoseconds::rep device_limit::now() noexcept {
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

}  // namespace cuota::inline v0::detail

#endif
