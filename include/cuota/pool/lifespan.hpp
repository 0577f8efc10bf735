// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// For how long memory is meant to live, so that a pool can keep apart what goes soon from what stays.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuota/version.hpp>

namespace cuota::inline v0 {

/// For how long an allocation is meant to live. Example: tests/pool/pool_step.cpp
enum class lifespan {
    scratch,    ///< comes and goes at any time
    step,       ///< until its step ends (`scoped_pool::begin_step`)
    persistent  ///< longer than any step: weights, states of optimisers
};

namespace detail {

/// How many steps of a pool have begun, and how many ended, together: odd while one is open.
using step_time = std::uint32_t;

/// When a block was taken, in steps, and for how long. Four bytes; right for half a thousand million steps.
class birth {
public:
    constexpr birth() noexcept = default;
    constexpr birth(step_time now, lifespan meant) noexcept
        : bits_{now << 2 | static_cast<std::uint32_t>(meant)} {}

    [[nodiscard]] constexpr lifespan meant() const noexcept { return static_cast<lifespan>(bits_ & 3); }
    /// How many steps have begun since.
    [[nodiscard]] constexpr std::uint32_t age(step_time now) const noexcept {
        std::uint32_t const begun = (now + 1) >> 1;
        std::uint32_t const begun_then = ((bits_ >> 2) + 1) >> 1;
        return (begun - begun_then) & (~std::uint32_t{0} >> 3);
    }
    friend bool operator==(birth, birth) noexcept = default;

private:
    std::uint32_t bits_ = 0;
};

/// Counts steps, one at a time. Written rarely, read at each request, by any thread.
class step_clock {
public:
    [[nodiscard]] step_time now() const noexcept { return time_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_open() const noexcept { return now() % 2 == 1; }
    /// From within a step to without, or back. Returns what it was.
    step_time go_on() noexcept { return time_.fetch_add(1, std::memory_order_relaxed); }

private:
    std::atomic<step_time> time_ = 0;
};

}  // namespace detail

}  // namespace cuota::inline v0
