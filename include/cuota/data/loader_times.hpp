// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Adds up what an epoch takes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/data/loader_stats.hpp>

namespace cuota::inline v0::detail {

/// Adds the time of a scope.
class stopwatch {
public:
    explicit stopwatch(std::chrono::nanoseconds& into) noexcept : into_{into} {}
    stopwatch(stopwatch const&) = delete;  // a scope is one place
    stopwatch& operator=(stopwatch const&) = delete;
    ~stopwatch() { into_ += std::chrono::steady_clock::now() - begin_; }

private:
    std::chrono::nanoseconds& into_;
    std::chrono::steady_clock::time_point const begin_ = std::chrono::steady_clock::now();
};

/// What one batch took of a worker's time.
struct worker_times {
    std::chrono::nanoseconds waiting{0};
    std::chrono::nanoseconds drawing{0};
    std::chrono::nanoseconds reading{0};
};

/// Of the epoch that goes on, or went on last. Threads: one at a time.
class loader_times {
public:
    void begin(std::uint64_t epoch) noexcept;
    /// Once: what comes later does not count.
    void end() noexcept;

    void filled(worker_times const& taken) noexcept;
    void copied(std::size_t bytes) noexcept { sum_.bytes += bytes; }
    void waited_for_batch(std::chrono::nanoseconds taken) noexcept { sum_.waiting_for_batches += taken; }
    void delivered(std::size_t samples) noexcept;

    [[nodiscard]] std::uint64_t epoch() const noexcept { return sum_.epoch; }
    [[nodiscard]] loader_stats now() const noexcept;

private:
    loader_stats sum_;
    std::optional<std::chrono::steady_clock::time_point> begin_;  // none: there was no epoch
    std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE void loader_times::begin(std::uint64_t epoch) noexcept {
    sum_ = {};
    sum_.epoch = epoch;
    begin_ = std::chrono::steady_clock::now();
    end_.reset();
}

CUOTA_INLINE void loader_times::end() noexcept {
    if (!end_) end_ = std::chrono::steady_clock::now();
}

CUOTA_INLINE void loader_times::filled(worker_times const& taken) noexcept {
    sum_.waiting_for_slots += taken.waiting;
    sum_.drawing += taken.drawing;
    sum_.reading += taken.reading;
}

CUOTA_INLINE void loader_times::delivered(std::size_t samples) noexcept {
    ++sum_.batches;
    sum_.samples += samples;
}

CUOTA_INLINE loader_stats loader_times::now() const noexcept {
    loader_stats result = sum_;
    if (begin_) result.elapsed = end_.value_or(std::chrono::steady_clock::now()) - *begin_;
    return result;
}

}  // namespace cuota::inline v0::detail

#endif
