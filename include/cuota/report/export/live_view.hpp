// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Draws summaries on a terminal.
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
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/report/detail/export/budget_order.hpp>
#include <cuota/report/detail/export/columns.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0 {

/// Options of a live_view.
struct live_view_options {
    summary_options summary{};  ///< options of each summary
    /// Writes summaries as text if the output is not a terminal.
    bool plain = false;
    std::size_t history = 60;                                      ///< recent values per curve; 0: no curves
    std::chrono::milliseconds interval = std::chrono::seconds{1};  ///< between drawings of the thread
};

namespace detail::screen {

class curve {
public:
    void add(std::size_t figure, std::size_t most);
    /// Draws values relative to `whole`, or to the largest if that is `unlimited`.
    [[nodiscard]] std::string text(std::size_t whole, bool utf8) const;

private:
    std::vector<std::size_t> last_;
};

/// Returns the first `columns` columns of a line, with color sequences.
[[nodiscard]] std::string line_cut(std::string_view line, std::size_t columns);

/// Returns the output that redraws a terminal.
[[nodiscard]] std::string frame(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace detail::screen

/// Draws summaries in place on a terminal: on calls of `draw`, or from its own thread every `interval`.
///
///     cuota::live_view const view{stdout, [&] { return snapshot_of(budget); }};
///
/// Previous contents scroll up; the last summary remains. Curves show the recent held bytes of root budgets. Without a terminal, nothing
/// happens unless `plain` is set.
///
/// Threads: any. The callback runs outside all locks; its exceptions go to the error sink.
/// Throws: usage_error for an empty callback or an interval <= 0; std::system_error if no thread can be started.
/// Cost:   a snapshot and a summary per drawing.
class live_view {
public:
    using snapshots = std::function<memory_snapshot()>;  ///< called for each drawing

    /// The stream must outlive the view; null disables the view.
    explicit live_view(std::FILE* to, live_view_options how = {})
        : to_{to}, is_terminal_{to != nullptr && ::isatty(::fileno(to)) == 1}, how_{how} {}
    /// Also starts the thread, unless the view is disabled.
    live_view(std::FILE* to, snapshots take, live_view_options how = {},
              source_location where = source_location::current());
    live_view(live_view const&) = delete;  // its thread uses its address
    live_view& operator=(live_view const&) = delete;
    /// Waits for a running callback.
    ~live_view();

    /// Returns whether nothing is ever written.
    [[nodiscard]] bool is_disabled() const noexcept {
        return !is_terminal_ && (to_ == nullptr || !how_.plain);
    }

    /// Replaces the last summary. Ignores write errors. Throws: usage_error in a forked child; std::bad_alloc.
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
    detail::object_lock drawing_;  // guards is_drawn_ and roots_
    bool is_drawn_ = false;
    std::vector<root> roots_;
    detail::object_lock guard_;  // guards is_over_
    detail::light_unique_ptr<std::condition_variable> over_ =
        detail::light_unique_ptr<std::condition_variable>::make();
    bool is_over_ = false;
    std::thread thread_;  // last, because it uses all members above
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
        bool const is_color = line[at] == '\x1b';
        std::size_t const end = is_color ? std::min(line.find('m', at), line.size() - 1) + 1
                                         : at + std::max<std::size_t>(utf8_length(line, at), 1);
        std::string_view const next = line.substr(at, end - at);
        if (!is_color) used += columns_of(next);
        if (is_color || used <= columns) result += next;
        at = end;
    }
    return result;
}

CUOTA_INLINE std::string frame(std::string_view text, std::size_t rows, std::size_t columns) {
    std::string result = "\x1b[H";  // moves to the top
    std::size_t row = 1;
    while (row < rows) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        bool const is_last = end == text.size();
        bool const is_full = !is_last && row + 1 == rows;
        // Clears the rest of the line.
        result += (is_full ? "..." : line_cut(text.substr(0, end), columns)) + "\x1b[K\n";
        if (is_last) break;
        text.remove_prefix(end + 1);
        ++row;
    }
    return result + "\x1b[J";  // clears the rest of the screen
}

}  // namespace cuota::inline v0::detail::screen

namespace cuota::inline v0 {

CUOTA_INLINE live_view::live_view(std::FILE* to, snapshots take, live_view_options how, source_location where)
    : live_view{to, how} {
    if (!take) detail::throw_usage_error(where, "live_view: the callback that takes snapshots is empty");
    if (how.interval.count() <= 0)
        detail::throw_usage_error(where, "live_view: the interval must be positive");
    if (!is_disabled()) thread_ = std::thread{[this, ask = std::move(take)] { run(ask); }};
}

CUOTA_INLINE live_view::~live_view() {
    if (!thread_.joinable()) return;
    // In a forked child the thread does not exist: joining it, or destroying its condition variable, would block forever.
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
    if (is_disabled()) return;
    std::string text = summary(all, how_.summary);
    detail::region_lock const lock{drawing_};
    if (!is_terminal_) return write(text + "\n\n");
    text += curves(all);
    ::winsize size{};
    (void)::ioctl(::fileno(to_), TIOCGWINSZ, &size);  // leaves 0 for unknown sizes
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
    for (std::size_t i = 0; i != all.budgets.size() && how_.history != 0; ++i) {
        if (detail::screen::parent_of(all, i)) continue;
        budget_info const& b = all.budgets[i].facts;
        if (seen == roots_.size()) roots_.push_back({b.name});
        root& r = roots_[seen++];
        if (r.name != b.name) r = {b.name};  // another budget tree took its position
        r.held.add(b.held, how_.history);
        text += '\n' + detail::screen::left(detail::screen::fitted(b.name, 29), 30) + '[' +
                r.held.text(b.limit, how_.summary.utf8) + ']';
    }
    return text.empty() ? text : "\n\nheld over time" + text;
}

CUOTA_INLINE void live_view::write(std::string const& text) noexcept {
    (void)std::fputs(text.c_str(), to_);
    (void)std::fflush(to_);
}

}  // namespace cuota::inline v0

#endif
