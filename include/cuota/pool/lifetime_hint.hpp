// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Hints by which a pool separates short-lived from long-lived memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuota/version.hpp>

namespace cuota::inline v0 {

/// The expected lifetime of an allocation. Example: tests/pool/pool_step.cpp
enum class lifetime_hint {
    scratch,    ///< allocated and freed at any time
    step,       ///< freed before its step ends (`scoped_pool::begin_step`)
    persistent  ///< outlives steps: weights, optimizer states
};

namespace detail {

/// Steps begun plus steps ended in a pool: odd while a step is open.
using step_time = std::uint32_t;

/// The step of an allocation and its lifetime hint, in four bytes. Correct for 5e8 steps.
class allocation_epoch {
public:
    constexpr allocation_epoch() noexcept = default;
    constexpr allocation_epoch(step_time now, lifetime_hint lifetime) noexcept
        : bits_{now << 2 | static_cast<std::uint32_t>(lifetime)} {}

    [[nodiscard]] constexpr lifetime_hint lifetime() const noexcept {
        return static_cast<lifetime_hint>(bits_ & 3);
    }
    [[nodiscard]] constexpr std::uint32_t age(step_time now) const noexcept {
        std::uint32_t const begun = (now + 1) >> 1;
        std::uint32_t const begun_then = ((bits_ >> 2) + 1) >> 1;
        return (begun - begun_then) & (~std::uint32_t{0} >> 3);
    }
    friend bool operator==(allocation_epoch, allocation_epoch) noexcept = default;

private:
    std::uint32_t bits_ = 0;
};

/// Counts steps, of which at most one is open. Any thread may read it.
class step_clock {
public:
    [[nodiscard]] step_time now() const noexcept { return time_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_open() const noexcept { return now() % 2 == 1; }
    /// Begins or ends a step; returns the time before.
    step_time go_on() noexcept { return time_.fetch_add(1, std::memory_order_relaxed); }

private:
    std::atomic<step_time> time_ = 0;
};

}  // namespace detail

}  // namespace cuota::inline v0
