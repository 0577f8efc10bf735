// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Times of an epoch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/data/loader/loader_stats.hpp>

namespace cuota::inline v0::detail {

/// Adds the duration of its scope to a sum.
class stopwatch {
public:
    explicit stopwatch(std::chrono::nanoseconds& into) noexcept : into_{into} {}
    stopwatch(stopwatch const&) = delete;  // bound to one scope
    stopwatch& operator=(stopwatch const&) = delete;
    ~stopwatch() { into_ += std::chrono::steady_clock::now() - begin_; }

private:
    std::chrono::nanoseconds& into_;
    std::chrono::steady_clock::time_point const begin_ = std::chrono::steady_clock::now();
};

struct worker_times {
    std::chrono::nanoseconds waiting{0};
    std::chrono::nanoseconds drawing{0};
    std::chrono::nanoseconds reading{0};
};

enum class worker_stage { idle, waiting, drawing, reading };

/// Includes stages in progress. Threads: one at a time.
class loader_times {
public:
    void have_workers(std::size_t count) { workers_.resize(count); }

    void begin(std::uint64_t epoch) noexcept;
    /// Stops the time once.
    void end() noexcept;

    void filled(worker_times const& taken) noexcept;
    void copied(std::size_t bytes) noexcept { sum_.bytes += bytes; }
    /// Records that a worker begins a stage; filled() adds its earlier stages.
    void goes_on(std::size_t worker, worker_stage stage,
                 std::span<std::uint64_t const> samples = {}) noexcept;
    void waits() noexcept { waits_since_ = std::chrono::steady_clock::now(); }
    void waits_no_more() noexcept;
    void delivered(std::size_t samples) noexcept;

    [[nodiscard]] std::uint64_t epoch() const noexcept { return sum_.epoch; }
    [[nodiscard]] loader_stats now() const;

private:
    using instant = std::chrono::steady_clock::time_point;
    struct worker {
        worker_stage stage = worker_stage::idle;
        instant since{};
        std::uint64_t first = 0, last = 0;
    };

    loader_stats sum_;
    dynamic_array<worker> workers_;
    std::optional<instant> waits_since_;
    std::optional<std::chrono::steady_clock::time_point> begin_;  // nullopt: no epoch yet
    std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <algorithm>

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

CUOTA_INLINE void loader_times::goes_on(std::size_t number, worker_stage stage,
                                        std::span<std::uint64_t const> samples) noexcept {
    worker& w = workers_[number];
    w.stage = stage;
    w.since = std::chrono::steady_clock::now();
    w.first = samples.empty() ? 0 : samples.front();
    w.last = samples.empty() ? 0 : samples.back();
}

CUOTA_INLINE void loader_times::waits_no_more() noexcept {
    if (waits_since_) sum_.waiting_for_batches += std::chrono::steady_clock::now() - *waits_since_;
    waits_since_.reset();
}

CUOTA_INLINE loader_stats loader_times::now() const {
    loader_stats result = sum_;
    if (!begin_) return result;
    instant const until = end_.value_or(std::chrono::steady_clock::now());
    auto const lasted = [&](instant since) {
        return std::max(until - std::max(since, *begin_), instant::duration{});
    };
    result.elapsed = until - *begin_;
    if (waits_since_) result.waiting_for_batches += lasted(*waits_since_);
    for (worker const& w : workers_) {
        auto const so_far = lasted(w.since);
        if (w.stage == worker_stage::waiting) result.waiting_for_slots += so_far;
        if (w.stage == worker_stage::drawing) result.drawing += so_far;
        if (w.stage != worker_stage::reading) continue;
        result.reading += so_far;
        if (result.longest_read && result.longest_read->lasted >= so_far) continue;
        result.longest_read =
            loader_read{static_cast<std::size_t>(&w - workers_.data()), so_far, w.first, w.last};
    }
    return result;
}

}  // namespace cuota::inline v0::detail

#endif
