// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limit that follows the free memory of a device or the host.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/detail/ledger_node.hpp>

namespace cuota::inline v0::detail {

/// limit = min(most of outer_limit, free memory + memory of this budget - keep_free).
///
/// A race with other threads makes the limit too high, never too low: no request is refused falsely.
class CUOTA_PROCESS_TYPE queried_limit : public outer_limit {
public:
    CUOTA_INLINE_IN_PLACE bool look(ledger_node& root) noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool is_stale() const noexcept override;
    /// Less than any driver allocates at a time: charges from a stock need no memory that another program may have allocated.
    [[nodiscard]] std::size_t most_in_stock() const noexcept override { return 65'536; }

    /// Ignores `most`. Throws as the query.
    [[nodiscard]] std::size_t limit_now(ledger_node const& root) const;

    /// Returns the present figures for a refusal; empty, and reported, if the query fails.
    [[nodiscard]] virtual std::optional<device_info> facts() const noexcept = 0;

protected:
    queried_limit(std::size_t keep_free, std::chrono::nanoseconds max_age) noexcept
        : keep_free_{keep_free}, max_age_{max_age.count()} {}

    /// Bytes that this process holds there through cuota, and the total that it has freed.
    struct counters {
        std::atomic<std::size_t> const& taken;
        std::atomic<std::size_t> const& given_back;
    };

private:
    /// Returns the bytes available to this process.
    [[nodiscard]] virtual std::size_t free_now() const = 0;
    [[nodiscard]] virtual counters own() const noexcept = 0;

    struct reach {
        std::size_t bytes = 0;
        bool is_exact = false;
    };
    // Adds the free memory and this budget's; if this process freed memory meanwhile (not is_exact), all of its memory.
    [[nodiscard]] reach reach_now(ledger_node const& root) const;

    [[nodiscard]] static std::chrono::nanoseconds::rep now() noexcept;

    std::size_t const keep_free_;
    std::chrono::nanoseconds::rep const max_age_;
    std::atomic<std::chrono::nanoseconds::rep> due_ = 0;
};

/// Returns the bytes that a limit leaves free of memory that the host uses too: its exhaustion stops the host, not only this program.
[[nodiscard]] constexpr std::size_t host_margin(std::size_t total) noexcept {
    return std::min(total / 16, std::size_t{2} << 30);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE_IN_PLACE bool queried_limit::look(ledger_node& root) noexcept {
    std::size_t limit = 0;
    if (!report_failure_of([&] { limit = limit_now(root); })) return false;
    due_.store(now() + max_age_, std::memory_order_relaxed);
    return root.set_limit(limit);
}

CUOTA_INLINE_IN_PLACE bool queried_limit::is_stale() const noexcept {
    return now() >= due_.load(std::memory_order_relaxed);
}

CUOTA_INLINE std::size_t queried_limit::limit_now(ledger_node const& root) const {
    reach found = reach_now(root);
    for (int looks = 1; !found.is_exact && looks != 16; ++looks) found = reach_now(root);
    return found.bytes - std::min(found.bytes, keep_free_);
}

CUOTA_INLINE auto queried_limit::reach_now(ledger_node const& root) const -> reach {
    counters const counted = own();
    std::size_t const given_back = counted.given_back.load();
    std::size_t const free = free_now();
    std::size_t const held = root.info().held;
    std::size_t const ours = counted.taken.load();
    std::size_t const went = counted.given_back.load() - given_back;
    return {saturating_add(free, went == 0 ? std::min(ours, held) : ours + went), went == 0};
}

CUOTA_INLINE std::chrono::nanoseconds::rep queried_limit::now() noexcept {
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

}  // namespace cuota::inline v0::detail

#endif
