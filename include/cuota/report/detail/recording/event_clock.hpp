// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a fast clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <cuota/core/config.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cuota::inline v0::detail {

/// Converts ticks to nanoseconds since an event_clock was constructed, by linear interpolation. Monotonic.
class tick_scale {
public:
    /// Maps `began` to 0, and `began` + `ticks` to `nanoseconds`.
    tick_scale(std::uint64_t began, std::uint64_t ticks, std::uint64_t nanoseconds) noexcept;

    /// Returns 0 for ticks before `began`.
    [[nodiscard]] std::uint64_t nanoseconds(std::uint64_t tick) const noexcept;

private:
    std::uint64_t began_;
    double rate_;
};

/// Counts ticks of the processor's counter if its rate is constant over cores and power states (x86-64: CPUID 0x80000007, EDX bit 8;
/// AArch64: always), otherwise those of steady_clock.
///
/// The duration of a tick is measured between construction and scale(), with an error well below a microsecond.
///
/// Threads: any. Cost: 5 to 10 ns per reading of the counter, 20 to 30 ns of steady_clock.
class event_clock {
public:
    /// `counter` requires has_counter().
    enum class base { counter, steady };

    event_clock() noexcept : event_clock{has_counter() ? base::counter : base::steady} {}
    explicit event_clock(base by) noexcept;

    [[nodiscard]] std::uint64_t now() const noexcept { return is_counter_ ? counter() : steady(); }
    /// Returns the calendar time of construction.
    [[nodiscard]] std::chrono::system_clock::time_point began() const noexcept { return began_at_; }

    [[nodiscard]] tick_scale scale() const noexcept;

    /// Cost: microseconds in a virtual machine.
    [[nodiscard]] static bool has_counter() noexcept;

private:
    struct moment {
        std::uint64_t tick = 0;
        std::uint64_t steady = 0;
    };

    [[nodiscard]] static std::uint64_t counter() noexcept;
    [[nodiscard]] static std::uint64_t steady() noexcept;
    // Reads both clocks: the closest of eight pairs, because the thread may be preempted within a pair.
    [[nodiscard]] moment look() const noexcept;

    bool is_counter_;
    moment began_;
    std::chrono::system_clock::time_point began_at_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE tick_scale::tick_scale(std::uint64_t began, std::uint64_t ticks,
                                    std::uint64_t nanoseconds) noexcept
    : began_{began}, rate_{ticks == 0 ? 0 : static_cast<double>(nanoseconds) / static_cast<double>(ticks)} {}

CUOTA_INLINE std::uint64_t tick_scale::nanoseconds(std::uint64_t tick) const noexcept {
    if (tick <= began_) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(tick - began_) * rate_);
}

CUOTA_INLINE event_clock::event_clock(base by) noexcept : is_counter_{by == base::counter} {
    began_ = look();
    began_at_ = std::chrono::system_clock::now();
}

CUOTA_INLINE tick_scale event_clock::scale() const noexcept {
    moment const now = look();
    std::uint64_t const ticks = now.tick > began_.tick ? now.tick - began_.tick : 0;
    return {began_.tick, ticks, now.steady - began_.steady};
}

CUOTA_INLINE bool event_clock::has_counter() noexcept {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

CUOTA_INLINE std::uint64_t event_clock::counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return steady();
#endif
}

CUOTA_INLINE std::uint64_t event_clock::steady() noexcept {
    auto const since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

CUOTA_INLINE auto event_clock::look() const noexcept -> moment {
    moment best;
    std::uint64_t closest = ~std::uint64_t{0};
    for (int i = 0; i != 8; ++i) {
        std::uint64_t const before = now();
        std::uint64_t const middle = steady();
        std::uint64_t const apart = now() - before;
        if (apart >= closest) continue;
        closest = apart;
        best = {before + apart / 2, middle};
    }
    return best;
}

}  // namespace cuota::inline v0::detail

#endif
