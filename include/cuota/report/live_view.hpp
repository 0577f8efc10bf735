// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A summary that stays in its place on a terminal and is drawn again and again.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/ioctl.h>
#include <unistd.h>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/report/budget_order.hpp>
#include <cuota/report/columns.hpp>
#include <cuota/report/memory_snapshot.hpp>
#include <cuota/report/summary.hpp>

namespace cuota::inline v0 {

/// How a live_view draws, and what it does where there is no terminal.
struct live_view_options {
    summary_options summary{};  ///< how each picture is drawn
    bool plain =
        false;  ///< where there is no terminal: each summary as text, one after the other; else nothing
    std::size_t looks = 60;  ///< of how many of the last times the curves below tell; 0: no curves
    std::chrono::milliseconds interval = std::chrono::seconds{1};  ///< of a view with a thread
};

namespace detail::screen {

/// The last figures of something, as a row of columns that are the higher the more of `whole` it was.
class curve {
public:
    void add(std::size_t figure, std::size_t most);
    /// Of all there is; where that has no limit, of the most that is shown.
    [[nodiscard]] std::string text(std::size_t whole, bool utf8) const;

private:
    std::vector<std::size_t> last_;
};

/// So many columns of a line; sequences for colours take none, and are kept.
[[nodiscard]] std::string line_cut(std::string_view line, std::size_t columns);

/// Text as a terminal of that size takes it: from the top, over what was there. Never scrolls.
[[nodiscard]] std::string frame(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace detail::screen

/// Draws summaries in the same place of a terminal: the program's, when it calls `draw`; or its own, with a callback that
/// takes snapshots and a thread that asks it at once and then every `interval`.
///
///     cuota::live_view const view{stdout, [&] { return snapshot_of(budget); }};   // until the scope ends
///
/// What stood on the screen is scrolled up first and not lost; what is drawn last stays. Lists are cut to the terminal's
/// size. Below the summary stands, for each budget without a parent, how much it held the last times. Where there is no
/// terminal nothing is asked or written, unless `plain` says so.
///
/// Threads: any; one draws at a time. The callback is called by the view's thread, outside all locks; what it throws
/// goes to the error sink, and it is asked again.
/// Throws: misuse for no callback, or an interval that is not above 0; std::system_error when there is no thread.
/// Cost:   a snapshot and its summary for each picture; without a terminal nothing.
/// Example: examples/look.cpp
class live_view {
public:
    using snapshots = std::function<memory_snapshot()>;  ///< asked for each picture

    /// Of a stream that outlives this; null is no terminal, and nothing is written.
    explicit live_view(std::FILE* to, live_view_options how = {})
        : to_{to}, is_terminal_{to != nullptr && ::isatty(::fileno(to)) == 1}, how_{how} {}
    /// With a thread, which asks at once and then each interval; none where nothing would be written.
    live_view(std::FILE* to, snapshots take, live_view_options how = {}, place where = place::here());
    live_view(live_view const&) = delete;  // its thread knows it by its address
    live_view& operator=(live_view const&) = delete;
    /// Waits for a callback that is running.
    ~live_view();

    /// True when nothing is ever written.
    [[nodiscard]] bool is_quiet() const noexcept { return !is_terminal_ && (to_ == nullptr || !how_.plain); }

    /// A picture, in place of the last one; waits for one that another thread draws. Throws: misuse in a forked child;
    /// std::bad_alloc. What cannot be written is left out.
    void draw(memory_snapshot const& all);

private:
    struct root {
        std::string name;
        detail::screen::curve held{};
    };

    void run(snapshots const& ask);

    [[nodiscard]] std::string curves(memory_snapshot const& all);

    void write(std::string const& text) noexcept;

    std::FILE* const to_;
    bool const is_terminal_;
    live_view_options const how_;
    detail::object_lock drawing_;  // for what follows
    bool is_drawn_ = false;
    std::vector<root> roots_;
    detail::object_lock guard_;  // for is_over_
    sole<std::condition_variable> over_ = sole<std::condition_variable>::make();
    bool is_over_ = false;
    std::thread thread_;  // last: it uses all of the above
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::screen {

CUOTA_INLINE void curve::add(std::size_t figure, std::size_t most) {
    last_.push_back(figure);
    if (last_.size() > most) last_.erase(last_.begin());
}

CUOTA_INLINE std::string curve::text(std::size_t whole, bool utf8) const {
    static constexpr char const* eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr char const* signs[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
    if (whole == unlimited) whole = last_.empty() ? 0 : *std::ranges::max_element(last_);
    std::string row;
    for (std::size_t const figure : last_) {
        double const share = whole == 0 ? (figure == 0 ? 0.0 : 1.0) : *share_of(figure, whole);
        auto const level = static_cast<std::size_t>(std::min(share, 1.0) * 8.0);
        std::size_t const seen = figure == 0 ? 0 : std::max<std::size_t>(level, 1);
        row += (utf8 ? eighths : signs)[seen];
    }
    return row;
}

CUOTA_INLINE std::string line_cut(std::string_view line, std::size_t columns) {
    std::string result;
    for (std::size_t at = 0, used = 0; at != line.size();) {
        bool const is_colour = line[at] == '\x1b';
        std::size_t const end = is_colour ? std::min(line.find('m', at), line.size() - 1) + 1
                                          : at + std::max<std::size_t>(utf8_length(line, at), 1);
        std::string_view const next = line.substr(at, end - at);
        if (!is_colour) used += columns_of(next);
        if (is_colour || used <= columns) result += next;
        at = end;
    }
    return result;
}

CUOTA_INLINE std::string frame(std::string_view text, std::size_t rows, std::size_t columns) {
    std::string result = "\x1b[H";  // to the top
    std::size_t row = 1;
    while (row < rows) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        bool const is_last = end == text.size();
        bool const is_full = !is_last && row + 1 == rows;
        result += (is_full ? "..." : line_cut(text.substr(0, end), columns)) +
                  "\x1b[K\n";  // clears the line's rest
        if (is_last) break;
        text.remove_prefix(end + 1);
        ++row;
    }
    return result + "\x1b[J";  // and clears what is below
}

}  // namespace cuota::inline v0::detail::screen

namespace cuota::inline v0 {

CUOTA_INLINE live_view::live_view(std::FILE* to, snapshots take, live_view_options how, place where)
    : live_view{to, how} {
    if (!take) detail::throw_misuse(where, "a live view without a callback that takes snapshots");
    if (how.interval.count() <= 0)
        detail::throw_misuse(where, "a live view with an interval that is not above 0");
    if (!is_quiet()) thread_ = std::thread{[this, ask = std::move(take)] { run(ask); }};
}

CUOTA_INLINE live_view::~live_view() {
    if (!thread_.joinable()) return;
    // In a forked child the thread does not exist: to join it, or to destroy the condition variable it waits on, would wait forever.
    if (guard_.is_of_parent()) {
        (void)new std::thread{std::move(thread_)};
        (void)over_.detach();
        return;
    }
    {
        detail::region_lock const lock{guard_};
        is_over_ = true;
    }
    over_->notify_all();
    thread_.join();
}

CUOTA_INLINE void live_view::draw(memory_snapshot const& all) {
    if (is_quiet()) return;
    std::string text = summary(all, how_.summary);
    detail::region_lock const lock{drawing_};
    if (!is_terminal_) return write(text + "\n\n");
    text += curves(all);
    ::winsize size{};
    (void)::ioctl(::fileno(to_), TIOCGWINSZ, &size);  // sizes it does not know are 0
    std::size_t const rows = size.ws_row == 0 ? 50 : size.ws_row;
    std::size_t const columns = size.ws_col == 0 ? 100 : size.ws_col;
    std::string const before = std::exchange(is_drawn_, true) ? "" : std::string(rows, '\n');
    write(before + detail::screen::frame(text, rows, columns));
}

CUOTA_INLINE void live_view::run(snapshots const& ask) {
    auto next = std::chrono::steady_clock::now();
    std::unique_lock<std::mutex> lock{guard_};
    while (!is_over_) {
        lock.unlock();
        report_failure_of([&] { draw(ask()); });
        next = std::max(next + how_.interval, std::chrono::steady_clock::now());
        lock.lock();
        over_->wait_until(lock, next, [&] { return is_over_; });
    }
}

CUOTA_INLINE std::string live_view::curves(memory_snapshot const& all) {
    std::string text;
    std::size_t seen = 0;
    for (std::size_t i = 0; i != all.budgets.size() && how_.looks != 0; ++i) {
        if (detail::screen::parent_of(all, i)) continue;
        budget_facts const& b = all.budgets[i].facts;
        if (seen == roots_.size()) roots_.push_back({b.name});
        root& r = roots_[seen++];
        if (r.name != b.name) r = {b.name};  // another tree is in its place
        r.held.add(b.held, how_.looks);
        text += '\n' + detail::screen::left(detail::screen::fitted(b.name, 29), 30) + '[' +
                r.held.text(b.limit, how_.summary.utf8) + ']';
    }
    return text.empty() ? text : "\n\nheld, the last times" + text;
}

CUOTA_INLINE void live_view::write(std::string const& text) noexcept {
    (void)std::fputs(text.c_str(), to_);
    (void)std::fflush(to_);
}

}  // namespace cuota::inline v0

#endif
