// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Progress of an epoch on a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/data/loader/loader_stats.hpp>

namespace cuota::inline v0 {

/// Returns a bar, count, rate, remaining time and bottleneck, in at most 79 columns. Throws: std::bad_alloc.
[[nodiscard]] std::string progress_text(loader_stats const& s);

/// Shows progress_text on one line, updated ten times a second; writes only to a terminal.
/// Threads: one at a time. Write errors are ignored.
/// Cost:    a clock query per call; ten times a second, one line.
/// Example: loader_options{.progress = true}, or line.show([&] { return loader.stats(); });
class progress_bar {
public:
    /// Writes to a stream that must outlive this.
    explicit progress_bar(std::FILE* to) noexcept;
    /// Continues the line of `other`, which becomes quiet.
    progress_bar(progress_bar&& other) noexcept;
    progress_bar& operator=(progress_bar&&) = delete;
    ~progress_bar() { end(); }

    /// Returns true if the stream is not a terminal, and in a forked child.
    [[nodiscard]] bool is_disabled() const noexcept { return to_ == nullptr || made_.is_of_parent(); }
    /// Updates the line if due; only then calls `facts`. Exceptions are reported.
    template <class Stats>
    void show(Stats facts) noexcept {
        if (is_disabled()) return;
        auto const now = std::chrono::steady_clock::now();
        if (now < next_) return;
        report_failure_of([&] { write(facts()); });
        next_ = now + std::chrono::milliseconds{100};
    }
    /// Updates and ends a shown line.
    template <class Stats>
    void finish(Stats facts) noexcept {
        if (!is_shown_ || is_disabled()) return;
        report_failure_of([&] { write(facts()); });
        end();
    }

private:
    void write(loader_stats const& facts);
    void end() noexcept;

    std::FILE* to_;  // null: quiet
    detail::process_mark made_;
    bool is_shown_ = false;
    std::chrono::steady_clock::time_point next_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0 {

CUOTA_INLINE std::string progress_text(loader_stats const& s) {
    constexpr std::size_t width = 24;
    double const done = s.total_batches.value_or(0) != 0
                            ? static_cast<double>(s.batches) / static_cast<double>(*s.total_batches)
                            : (s.total_batches ? 1.0 : s.covered);
    auto const filled = std::min(width, static_cast<std::size_t>(done * width));
    std::string text = detail::message(
        "epoch {} [{}{}] {}{}", {s.epoch, std::string(filled, '#'), std::string(width - filled, '.'),
                                 s.batches, s.total_batches ? '/' + std::to_string(*s.total_batches) : ""});
    if (double const rate = s.batches_per_second(); rate > 0) {
        double const to_come = done > 0 ? static_cast<double>(s.batches) * (1 / done - 1) : 0;
        auto const left = static_cast<std::uint64_t>(std::min(to_come / rate, 1e12));
        char time[32];
        (void)std::snprintf(time, sizeof time, ", %llu:%02u left", static_cast<unsigned long long>(left / 60),
                            static_cast<unsigned>(left % 60));
        detail::append_message(text, " {}/s{}", {detail::rate_text(rate), to_come > 0 ? time : ""});
    }
    if (loader_stage const slowest = s.bottleneck(); slowest != loader_stage::none)
        text += std::string{"; slowest: "} + stage_name(slowest);
    if (text.size() > 79) text.resize(79);
    return text;
}

CUOTA_INLINE progress_bar::progress_bar(std::FILE* to) noexcept
    : to_{to != nullptr && ::isatty(::fileno(to)) == 1 ? to : nullptr} {}

CUOTA_INLINE progress_bar::progress_bar(progress_bar&& other) noexcept
    : to_{std::exchange(other.to_, nullptr)},
      made_{other.made_},
      is_shown_{std::exchange(other.is_shown_, false)},
      next_{other.next_} {}

CUOTA_INLINE void progress_bar::write(loader_stats const& facts) {
    std::string const text =
        detail::message("\r{}\x1b[K", {progress_text(facts)});  // clears the rest of the line
    (void)std::fputs(text.c_str(), to_);
    (void)std::fflush(to_);
    is_shown_ = true;
}

CUOTA_INLINE void progress_bar::end() noexcept {
    if (!std::exchange(is_shown_, false) || is_disabled()) return;
    (void)std::fputc('\n', to_);
    (void)std::fflush(to_);
}

}  // namespace cuota::inline v0

#endif
