// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Event of a budget alert, as data and as JSON.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/select.h>
#include <unistd.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal_json.hpp>

namespace cuota::inline v0 {

/// Kind of crossing.
enum class alert_signal {
    threshold,      ///< held bytes crossed a threshold
    time_to_limit,  ///< estimated time to the limit crossed alert_options::time_to_limit
};

/// A crossing and the figures of its instant, in bytes. Copies allocate nothing.
struct alert_event {
    std::string_view budget{};                      ///< name; valid as long as the budget
    alert_signal signal = alert_signal::threshold;  ///< kind of crossing
    bool rising = true;                             ///< false: the all-clear
    std::size_t index = 0;                          ///< 0: the lowest threshold
    std::size_t threshold = 0;                      ///< for time_to_limit the budget's limit
    std::size_t held = 0;                           ///< after the change
    std::size_t limit = 0;                          ///< `unlimited` if none
    std::size_t peak = 0;                           ///< so far
    std::uint64_t number = 0;                       ///< from 1, missed crossings included
    std::uint64_t missed = 0;                       ///< dropped since the previous call
    std::chrono::steady_clock::time_point time{};   ///< by alert_options::clock
    double growth = 0;                              ///< smoothed, bytes per second; negative: shrinking
    std::optional<std::chrono::duration<double>> time_to_limit;  ///< empty: no limit, or not growing
    tag charge_tag{};                                            ///< of the charge; empty for a refund
    source_location charge_site{};                               ///< its call site

    /// Returns limit - held, or 0.
    [[nodiscard]] std::size_t free() const noexcept { return limit > held ? limit - held : 0; }
};

/// Callback of an alert.
using alert_callback = std::function<void(alert_event const&)>;

/// Returns a line of JSON, without a newline. Sizes are bytes; `unlimited` and an unknown "time_to_limit_ms" are null. Throws:
/// std::bad_alloc. Cost: microseconds.
[[nodiscard]] std::string alert_json(alert_event const& e);

namespace detail {

/// Makes this thread's writes to a pipe without readers, or beyond the file size limit, fail without a signal.
class quiet_writes {
public:
    quiet_writes() noexcept;
    quiet_writes(quiet_writes const&) = delete;
    quiet_writes& operator=(quiet_writes const&) = delete;
    ~quiet_writes();

private:
    void take_back(int signal) const noexcept;
    ::sigset_t both_{};
    ::sigset_t before_{};
    ::sigset_t pending_{};
};

}  // namespace detail

/// Returns a callback that writes alert_json and a newline to standard error in one write. Lines that cannot be written are lost. Threads:
/// any. Cost: a write.
[[nodiscard]] alert_callback log_to_stderr();

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <csignal>

namespace cuota::inline v0 {

CUOTA_INLINE std::string alert_json(alert_event const& e) {
    auto const integer = [](double n) {  // clamped to std::int64_t
        return std::to_string(static_cast<std::int64_t>(std::clamp(n, -9e18, 9e18)));
    };
    detail::json_object line;
    line.add("event", "alert").add("budget", e.budget);
    line.add("signal", e.signal == alert_signal::threshold ? "threshold" : "time_to_limit");
    line.add("rising", e.rising).add("index", e.index).add("threshold", e.threshold);
    line.add("held", e.held).add("limit", e.limit);
    line.add("free", e.limit == unlimited ? unlimited : e.free()).add("peak", e.peak);
    line.add_json("number", std::to_string(e.number)).add_json("missed", std::to_string(e.missed));
    line.add_json("growth", integer(e.growth));
    line.add_json("time_to_limit_ms", e.time_to_limit ? integer(1e3 * e.time_to_limit->count()) : "null");
    line.add("tag", e.charge_tag.text()).add_json("location", detail::json_location(e.charge_site));
    line.add_json("steady_ns", std::to_string(std::chrono::nanoseconds{e.time.time_since_epoch()}.count()));
    return line.text();
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE quiet_writes::quiet_writes() noexcept {
    ::sigemptyset(&both_);
    ::sigaddset(&both_, SIGPIPE);
    ::sigaddset(&both_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &both_, &before_);
    ::sigpending(&pending_);
}

CUOTA_INLINE quiet_writes::~quiet_writes() {
    take_back(SIGPIPE);
    take_back(SIGXFSZ);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

CUOTA_INLINE void quiet_writes::take_back(int signal) const noexcept {
    ::sigset_t now;
    ::sigpending(&now);
    if (::sigismember(&now, signal) != 1 || ::sigismember(&pending_, signal) == 1) return;
    ::sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    int taken = 0;
    ::sigwait(&one, &taken);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE alert_callback log_to_stderr() {
    return [](alert_event const& e) {
        std::string const line = alert_json(e) + '\n';
        detail::quiet_writes const here;
        while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {}
    };
}

}  // namespace cuota::inline v0

#endif
