// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a device's driver allows a budget: other programs, the CUDA context and libraries count.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/ledger_node.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0::detail {

/// The driver's free memory and what is held already, less what is to stay free; `most` at most.
///
/// Bytes of our own that the driver has handed out are not free, and still in the budget's right: they are added. All
/// of it is read while others allocate and free. A race makes the limit too high by what is under way, never too low: no
/// false refusal, and what the driver then has not got is refused by the resource, typed as well.
class CUOTA_PROCESS_TYPE device_limit final : public outer_limit {
public:
    device_limit(device where, std::size_t most, std::size_t keep_free,
                 std::chrono::nanoseconds good_for) noexcept;

    CUOTA_INLINE_IN_PLACE bool look(ledger_node& root) noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool is_stale() const noexcept override;
    /// Less than any driver hands out at a time, so what a thread takes without looking is nobody else's by then.
    [[nodiscard]] std::size_t most_in_stock() const noexcept override { return 65'536; }

    /// Throws: cuda_error.
    [[nodiscard]] std::size_t limit_now(ledger_node const& root) const;

    /// What is in use and not ours, as of now, is from here on told apart in refusals. Throws: cuda_error.
    std::size_t learn_overhead();
    [[nodiscard]] std::size_t overhead() const noexcept { return overhead_.load(std::memory_order_relaxed); }
    [[nodiscard]] device where() const noexcept { return device_; }

private:
    struct reach {
        std::size_t bytes = 0;
        bool is_exact = false;
    };
    // Exact when nothing of ours was given back meanwhile: what was held at the driver's answer then is so still, and what
    // was taken since makes it too much. Else all that was ours at some moment is added, other budgets' bytes as well.
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
    // What the driver's own pool has and none of ours uses is to be had: cached, or freed and not yet over.
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
