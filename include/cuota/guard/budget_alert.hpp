// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Alerts when a budget fills up.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/guard/alert_event.hpp>
#include <cuota/guard/budget.hpp>

namespace cuota::inline v0 {

/// A threshold: a double is a share of the budget's present limit, an integer bytes. So `1.0` is the whole limit, `1` one byte.
class alert_threshold {
public:
    /// 0 < share <= 1, which `budget_alert` checks.
    alert_threshold(double share) noexcept : share_{share}, is_relative_{true} {}
    /// Throws: usage_error if negative.
    template <std::integral Bytes>
    alert_threshold(Bytes bytes) : bytes_{static_cast<std::size_t>(bytes)} {
        if (std::cmp_less(bytes, 0))
            detail::throw_usage_error("alert_threshold: the number of bytes is negative: {}", {bytes});
    }

    [[nodiscard]] bool is_relative() const noexcept { return is_relative_; }  ///< false: bytes
    /// Returns bytes, rounded to nearest, at least 1.
    [[nodiscard]] std::size_t bytes_for(std::size_t limit) const noexcept;
    /// Returns whether it is above 0 and, as a share, at most 1.
    [[nodiscard]] bool is_valid() const noexcept;
    /// Requires that both are shares or both bytes.
    [[nodiscard]] bool is_below(alert_threshold const& other) const noexcept;
    /// Returns "0.9" or "1024 bytes". Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;

private:
    double share_ = 0;
    std::size_t bytes_ = 0;
    bool is_relative_ = false;
};

/// Further options of an alert.
struct alert_options {
    bool falling = false;  ///< also call for the all-clear
    /// Calls when the limit would be reached within this time at the present growth; the all-clear is at twice the time. Evaluated at
    /// changes only.
    std::optional<std::chrono::nanoseconds> time_to_limit{};
    std::chrono::nanoseconds half_life = std::chrono::seconds{5};  ///< of the weight of past growth
    /// A clock for tests, called under a lock: it must only return the time.
    std::chrono::steady_clock::time_point (*clock)() noexcept = std::chrono::steady_clock::now;
};

namespace detail {
class alert_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::alert_state>;
#endif

/// Calls a callback when a budget's held bytes rise to a threshold, once per crossing.
/// A threshold is crossed at `held() >= threshold` and re-armed at `held() <= threshold - hysteresis` (the all-clear). Thresholds crossed
/// at construction are notified at once. A reservation counts when it is made. Thresholds ascend; with the hysteresis, all are bytes or all
/// are shares.
///
/// Calls:   on the thread of the crossing charge or refund, outside the library's locks, in the order of crossing, one at a time: the
///          calling thread also delivers crossings by other threads and by the callback. The last 64 are kept; `missed` counts older ones.
///          A callback may use budgets and alerts freely, and destroy its own alert. Its exceptions go to the error sink;
///          a charge or refund neither throws nor allocates for an alert.
/// Ends:    with its destruction, which waits for a call on another thread: do not destroy it under a lock that the callback takes, nor two
///          alerts in each other's callbacks.
/// Cost:    50 to 110 ns and the tree's lock for each charge or refund at or below the watched budget.
/// Threads: any, one at a time per object.
/// Throws:  on construction only.
/// Example: tests/guard/budget_alert.cpp
class budget_alert {
public:
    /// Requires a threshold or `time_to_limit`, and a hysteresis above 0 and at most the lowest threshold; shares and `time_to_limit`
    /// require a limit. Throws: usage_error with the reason; std::bad_alloc.
    [[nodiscard]] budget_alert(budget const& watched, std::vector<alert_threshold> thresholds,
                               alert_threshold hysteresis, alert_callback callback,
                               alert_options const& options = {});
    budget_alert(budget_alert&&) noexcept = default;  ///< moves the alert; `other` observes nothing
    /// Moves the other, then ends the previous one.
    budget_alert& operator=(budget_alert&& other) noexcept;
    ~budget_alert();

private:
    explicit budget_alert(detail::intrusive_ptr<detail::alert_state> state) noexcept
        : state_{std::move(state)} {}

    detail::intrusive_ptr<detail::alert_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/growth_rate.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/usage_observer.hpp>

namespace cuota::inline v0::detail {

void check_alert(std::string const& name, std::size_t limit, std::vector<alert_threshold> const& levels,
                 alert_threshold hysteresis, alert_options const& options);

/// State of an alert.
class alert_state final : public usage_observer, public ref_counted {
public:
    alert_state(budget b, std::vector<alert_threshold> levels, alert_threshold hysteresis,
                alert_callback callback, alert_options const& options);

    void begin() { budget_access::node(budget_).join(*this); }

    /// Afterwards the callback does not run, except for a call that this is called from.
    void end() noexcept;

    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool note(usage_sample const& now) noexcept override;

    CUOTA_INLINE_IN_PLACE void deliver() noexcept override;

private:
    [[nodiscard]] std::size_t all_clear(alert_threshold const& level, std::size_t limit) const noexcept;
    // Once near, it stays so until the remaining time has doubled.
    [[nodiscard]] bool is_near(std::size_t limit) const noexcept;

    // Requires the tree's lock. Overwrites the oldest event. Returns true if no delivery is pending.
    [[nodiscard]] bool keep(usage_sample const& now, std::chrono::steady_clock::time_point time,
                            alert_signal signal, bool rising, std::size_t index) noexcept;

    // Requires guard_.
    [[nodiscard]] std::optional<alert_event> take_out() noexcept;

    budget const budget_;
    std::vector<alert_threshold> const levels_;
    alert_threshold const hysteresis_;
    alert_options const options_;

    // Protected by the tree's lock.
    growth_rate growth_;
    std::size_t over_ = 0;  // number of crossed thresholds, from the lowest
    bool near_ = false;

    std::mutex guard_;  // for all below; locked inside the tree's lock
    std::condition_variable returned_;
    std::array<alert_event, 64> kept_;
    std::uint64_t crossings_ = 0;
    std::uint64_t called_ = 0;   // delivered or missed crossings
    bool is_delivered_ = false;  // delivery is pending or running
    bool ended_ = false;
    std::thread::id caller_{};  // in the callback
    alert_callback callback_;   // called without the lock
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t alert_threshold::bytes_for(std::size_t limit) const noexcept {
    if (!is_relative_) return bytes_;
    double const nearest = share_ * static_cast<double>(limit) + 0.5;
    if (nearest >= static_cast<double>(limit)) return std::max<std::size_t>(limit, 1);
    return std::max<std::size_t>(static_cast<std::size_t>(nearest), 1);
}

CUOTA_INLINE bool alert_threshold::is_valid() const noexcept {
    return is_relative_ ? share_ > 0.0 && share_ <= 1.0 : bytes_ != 0;
}

CUOTA_INLINE bool alert_threshold::is_below(alert_threshold const& other) const noexcept {
    return is_relative_ ? share_ < other.share_ : bytes_ < other.bytes_;
}

CUOTA_INLINE std::string alert_threshold::text() const {
    return is_relative_ ? detail::real_text(share_) : detail::counted(bytes_, "bytes");
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_alert(std::string const& name, std::size_t limit,
                              std::vector<alert_threshold> const& levels, alert_threshold hysteresis,
                              alert_options const& options) {
    auto const wrong = [&](std::string const& what) -> usage_error {
        return usage_error{"alert of budget " + name + ": " + what};
    };
    auto const check_one = [&](char const* what, alert_threshold level) {
        if (!level.is_valid())
            throw wrong(std::string{what} + level.text() +
                        (level.is_relative() ? " is out of range (0, 1]" : ": must be at least 1"));
        if (level.is_relative() && limit == unlimited)
            throw wrong(std::string{what} + level.text() + " is relative, but the budget has no limit");
        if (level.is_relative() != levels.front().is_relative())
            throw wrong(std::string{what} + level.text() + " beside " + levels.front().text() +
                        ": cannot mix shares and bytes");
    };
    if (levels.empty() && !options.time_to_limit) throw wrong("no threshold; pass one, or set time_to_limit");
    for (alert_threshold const& level : levels) check_one("threshold ", level);
    for (std::size_t i = 1; i < levels.size(); ++i)
        if (!levels[i - 1].is_below(levels[i]))
            throw wrong("threshold " + levels[i].text() + " after " + levels[i - 1].text() +
                        ": thresholds must ascend");
    if (!levels.empty()) {
        check_one("hysteresis ", hysteresis);
        if (levels.front().is_below(hysteresis))
            throw wrong("hysteresis " + hysteresis.text() + " exceeds threshold " + levels.front().text());
    }
    if (options.half_life.count() <= 0) throw wrong("half_life must be positive");
    if (!options.clock) throw wrong("clock is empty; set it");
    if (!options.time_to_limit) return;
    if (options.time_to_limit->count() <= 0) throw wrong("time_to_limit must be positive");
    if (limit == unlimited) throw wrong("time_to_limit requires a budget with a limit");
}

CUOTA_INLINE alert_state::alert_state(budget b, std::vector<alert_threshold> levels,
                                      alert_threshold hysteresis, alert_callback callback,
                                      alert_options const& options)
    : budget_{std::move(b)},
      levels_{std::move(levels)},
      hysteresis_{hysteresis},
      options_{options},
      growth_{options.half_life},
      callback_{std::move(callback)} {}

CUOTA_INLINE void alert_state::end() noexcept {
    if (is_of_parent()) return;
    budget_access::node(budget_).leave(*this);
    alert_callback last;
    std::unique_lock lock{guard_};
    ended_ = true;
    if (caller_ == std::this_thread::get_id()) return;  // in the callback: its deliverer now owns this
    returned_.wait(lock, [&] { return caller_ == std::thread::id{}; });
    last.swap(callback_);
    lock.unlock();  // before the captures are destroyed
}

CUOTA_INLINE_IN_PLACE bool alert_state::note(usage_sample const& now) noexcept {
    auto const time = options_.clock();
    growth_.see(now.held, time);
    bool due = false;
    while (over_ != levels_.size() && now.held >= levels_[over_].bytes_for(now.limit))
        due |= keep(now, time, alert_signal::threshold, true, over_++);
    while (over_ != 0 && now.held <= all_clear(levels_[over_ - 1], now.limit)) {
        --over_;
        if (options_.falling) due |= keep(now, time, alert_signal::threshold, false, over_);
    }
    if (options_.time_to_limit && is_near(now.limit) != near_) {
        near_ = !near_;
        if (near_ || options_.falling) due |= keep(now, time, alert_signal::time_to_limit, near_, 0);
    }
    return due;
}

CUOTA_INLINE_IN_PLACE void alert_state::deliver() noexcept {
    intrusive_ptr<alert_state> const me =
        intrusive_ptr<alert_state>::adopt(this);  // keep() has added this owner
    std::unique_lock lock{guard_};
    while (std::optional<alert_event> const next = take_out()) {
        caller_ = std::this_thread::get_id();
        lock.unlock();
        expect_no_region("the callback of an alert");
        report_failure_of([&] { callback_(*next); });
        lock.lock();
        caller_ = {};
    }
    is_delivered_ = false;
    lock.unlock();
    returned_.notify_all();
}

CUOTA_INLINE std::size_t alert_state::all_clear(alert_threshold const& level,
                                                std::size_t limit) const noexcept {
    std::size_t const from = level.bytes_for(limit);
    return from - std::min(from, hysteresis_.bytes_for(limit));
}

CUOTA_INLINE bool alert_state::is_near(std::size_t limit) const noexcept {
    auto const left = growth_.time_to(limit);
    return left && *left < *options_.time_to_limit * (near_ ? 2 : 1);
}

CUOTA_INLINE bool alert_state::keep(usage_sample const& now, std::chrono::steady_clock::time_point time,
                                    alert_signal signal, bool rising, std::size_t index) noexcept {
    bool const is_level = signal == alert_signal::threshold;
    region_lock const lock{guard_};
    alert_event& e = kept_[crossings_++ % kept_.size()];
    e = {};
    e.budget = budget_.name();
    e.signal = signal;
    e.rising = rising;
    e.index = index;
    e.threshold = is_level ? levels_[index].bytes_for(now.limit) : now.limit;
    e.held = now.held;
    e.limit = now.limit;
    e.peak = now.peak;
    e.number = crossings_;
    e.time = time;
    e.growth = growth_.per_second();
    e.time_to_limit = growth_.time_to(now.limit);
    if (now.who) {
        e.charge_tag = now.who->name;
        e.charge_site = now.who->where;
    }
    if (std::exchange(is_delivered_, true)) return false;
    add_ref();
    return true;
}

CUOTA_INLINE std::optional<alert_event> alert_state::take_out() noexcept {
    if (ended_ || called_ == crossings_) return std::nullopt;
    std::uint64_t const oldest = crossings_ - std::min<std::uint64_t>(crossings_, kept_.size());
    std::uint64_t const next = std::max(called_, oldest);
    alert_event e = kept_[next % kept_.size()];
    e.missed = next - called_;
    called_ = next + 1;
    return e;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::alert_state>;
#endif

CUOTA_INLINE budget_alert::budget_alert(budget const& watched, std::vector<alert_threshold> thresholds,
                                        alert_threshold hysteresis, alert_callback callback,
                                        alert_options const& options) {
    detail::check_alert(watched.name(), watched.limit(), thresholds, hysteresis, options);
    if (!callback)
        detail::throw_usage_error("alert of budget {}: callback is empty; pass one", {watched.name()});
    state_ = detail::intrusive_ptr<detail::alert_state>::make(watched, std::move(thresholds), hysteresis,
                                                              std::move(callback), options);
    state_->begin();
}

CUOTA_INLINE budget_alert& budget_alert::operator=(budget_alert&& other) noexcept {
    budget_alert taken{std::move(other)};  // before the previous one ends: both may be one object
    std::swap(state_, taken.state_);
    return *this;
}

CUOTA_INLINE budget_alert::~budget_alert() {
    if (state_) state_->end();
}

}  // namespace cuota::inline v0

#endif
