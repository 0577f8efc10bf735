// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/live_view.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/summary_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::live_view;
using cuota::memory_snapshot;
using namespace std::chrono_literals;
namespace screen = cuota::detail::screen;

static_assert(!std::is_copy_constructible_v<live_view> && !std::is_move_constructible_v<live_view>);

namespace {

// A terminal of a given size, which captures the program's output.
class sized_terminal {
public:
    explicit sized_terminal(unsigned short rows = 0, unsigned short columns = 0)
        : master_{::posix_openpt(O_RDWR | O_NOCTTY)} {
        REQUIRE(master_ >= 0);
        REQUIRE(::grantpt(master_) == 0);
        REQUIRE(::unlockpt(master_) == 0);
        program_ = std::fopen(::ptsname(master_), "w");
        REQUIRE(program_ != nullptr);
        ::winsize size{};
        size.ws_row = rows;
        size.ws_col = columns;
        REQUIRE(::ioctl(master_, TIOCSWINSZ, &size) == 0);
    }
    ~sized_terminal() {
        (void)std::fclose(program_);
        ::close(master_);
    }
    [[nodiscard]] std::FILE* program() const { return program_; }
    // Returns the output so far, with the program's line ends. Output may arrive late, so a mark is sent after it.
    [[nodiscard]] std::string take() const {
        constexpr char mark = '\x04';
        REQUIRE(std::fputc(mark, program_) == mark);
        REQUIRE(std::fflush(program_) == 0);
        std::string all;
        for (char c = 0; ::read(master_, &c, 1) == 1 && c != mark;)
            if (c != '\r') all += c;
        return all;
    }

private:
    int master_;
    std::FILE* program_ = nullptr;
};

class written_file {
public:
    written_file() { REQUIRE(file_ != nullptr); }
    ~written_file() { (void)std::fclose(file_); }
    [[nodiscard]] std::FILE* get() const { return file_; }
    [[nodiscard]] std::string text() const {
        std::string all(static_cast<std::size_t>(std::ftell(file_)), '\0');
        std::rewind(file_);
        REQUIRE(std::fread(all.data(), 1, all.size(), file_) == all.size());
        return all;
    }

private:
    std::FILE* file_ = std::tmpfile();
};

[[nodiscard]] memory_snapshot one_budget(std::size_t held, std::string name = "gpu") {
    memory_snapshot s;
    s.budgets = {{{std::move(name), 8, held, 8}, 0, {}}};
    return s;
}
[[nodiscard]] cuota::live_view_options without_curves() {
    cuota::live_view_options how;
    how.history = 0;
    return how;
}

// Models the screen of a terminal, as rows of characters. Implements only the sequences that a live view may write.
class screen_model {
public:
    explicit screen_model(std::size_t rows) : rows_(rows) {}

    void write(std::string_view text) {
        for (std::size_t at = 0; at != text.size();) {
            if (text.substr(at).starts_with("\x1b[H")) row_ = column_ = 0, at += 3;
            else if (text.substr(at).starts_with("\x1b[K")) rows_[row_].resize(column_), at += 3;
            else if (text.substr(at).starts_with("\x1b[J")) clear_below(), at += 3;
            else if (text[at] == '\n') next_line(), ++at;
            else put(text[at++]);
        }
    }
    [[nodiscard]] std::vector<std::string> const& rows() const { return rows_; }
    [[nodiscard]] std::size_t scrolled() const { return scrolled_; }

private:
    void put(char c) {
        REQUIRE(c >= ' ');
        if (rows_[row_].size() <= column_) rows_[row_].resize(column_ + 1, ' ');
        rows_[row_][column_++] = c;
    }
    void next_line() {
        column_ = 0;
        if (++row_ != rows_.size()) return;
        rows_.erase(rows_.begin());
        rows_.emplace_back();
        --row_;
        ++scrolled_;
    }
    void clear_below() {
        rows_[row_].resize(std::min(column_, rows_[row_].size()));
        for (std::size_t r = row_ + 1; r < rows_.size(); ++r) rows_[r].clear();
    }

    std::vector<std::string> rows_;
    std::size_t row_ = 0;
    std::size_t column_ = 0;
    std::size_t scrolled_ = 0;
};

}  // namespace

TEST_CASE("a live view overwrites its last output and first scrolls existing text up",
          "[report][live_view]") {
    sized_terminal const there{6, 100};
    live_view view{there.program(), without_curves()};
    CHECK_FALSE(view.is_disabled());
    view.draw(one_budget(8));
    std::string const head = "memory at 1970-01-01 00:00:00 UTC\x1b[K\n\x1b[K\n"
                             "budget                                           full       held      limit  "
                             "available       peak\x1b[K\n";
    std::string const frame =
        "\x1b[H" + head +
        "gpu                           [##############]  100 %        8 B        8 B        "
        "0 B        8 B\x1b[K\n\x1b[J";
    CHECK(there.take() == "\n\n\n\n\n\n" + frame);
    view.draw(one_budget(8));
    CHECK(there.take() == frame);
}

TEST_CASE("a screen shows only the last summary and does not scroll", "[report][live_view]") {
    sized_terminal const there{30, 100};
    screen_model shown{30};
    live_view view{there.program(), without_curves()};
    view.draw(summary_samples::small_snapshot());
    shown.write(there.take());
    std::size_t const scrolled = shown.scrolled();
    view.draw(summary_samples::small_snapshot());
    view.draw(one_budget(4));
    shown.write(there.take());
    CHECK(shown.scrolled() == scrolled);
    CHECK(shown.rows()[0] == "memory at 1970-01-01 00:00:00 UTC");
    CHECK(
        shown.rows()[3] ==
        "gpu                           [#######.......]   50 %        4 B        8 B        4 B        8 B");
    for (std::size_t row = 4; row != 30; ++row) CHECK(shown.rows()[row].empty());
}

TEST_CASE("lines and columns that do not fit the terminal are left out", "[report][live_view]") {
    sized_terminal const there{5, 20};
    screen_model shown{5};
    live_view view{there.program()};
    for (int i = 0; i != 3; ++i) view.draw(summary_samples::small_snapshot());
    shown.write(there.take());
    CHECK(shown.scrolled() == 1);  // the five lines at the start, and none since
    CHECK(shown.rows() ==
          std::vector<std::string>{"memory at 2026-01-01", "", "budget              ", "...", ""});
}

TEST_CASE("lines are cut by columns, and colors end at the cut", "[report][live_view]") {
    CHECK(screen::line_cut("abc", 3) == "abc");
    CHECK(screen::line_cut("abcd", 3) == "abc");
    CHECK(screen::line_cut("予算a", 3) == "予");
    CHECK(screen::line_cut("a\x1b[31mbcd\x1b[0me", 2) == "a\x1b[31mb\x1b[0m");
    CHECK(screen::line_cut("a\x1b[31", 2) == "a\x1b[31");
    CHECK(screen::line_cut("", 0).empty());
    CHECK(screen::frame("a\nb\nc", 4, 9) == "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J");
    CHECK(screen::frame("a\nb\nc", 3, 9) == "\x1b[Ha\x1b[K\n...\x1b[K\n\x1b[J");
    CHECK(screen::frame("a\nb\nc", 1, 9) == "\x1b[H\x1b[J");
}

TEST_CASE("the history of a root's held bytes is a row of columns", "[report][live_view]") {
    screen::curve held;
    CHECK(held.text(8, false).empty());
    for (std::size_t i = 0; i != 10; ++i) held.add(i, 100);
    CHECK(held.text(8, false) == " .:-=+*%##");
    CHECK(held.text(8, true) == " ▁▂▃▄▅▆▇██");
    CHECK(held.text(8000, false) == " .........");  // nonzero is distinguishable from zero
    CHECK(held.text(cuota::unlimited, false) == " ..:-=+*%#");
    CHECK(held.text(0, false) == " #########");
    screen::curve of_three;
    for (std::size_t i = 0; i != 10; ++i) of_three.add(i, 3);
    CHECK(of_three.text(8, false) == "%##");
}

TEST_CASE("curves are below the summary, and restart when the budget tree changes", "[report][live_view]") {
    sized_terminal const there{30, 100};
    cuota::live_view_options how;
    how.history = 3;
    live_view view{there.program(), how};
    screen_model shown{30};
    auto const row_after = [&](memory_snapshot const& s) {
        view.draw(s);
        shown.write(there.take());
        CHECK(shown.rows()[5] == "held over time");
        return shown.rows()[6];
    };
    CHECK(row_after(one_budget(2)) == "gpu                           [:]");
    CHECK(row_after(one_budget(4)) == "gpu                           [:=]");
    CHECK(row_after(one_budget(8)) == "gpu                           [:=#]");
    CHECK(row_after(one_budget(1)) == "gpu                           [=#.]");
    CHECK(row_after(one_budget(1, "other")) == "other                         [.]");
}

TEST_CASE("without a terminal, a live view writes nothing and never calls its callback",
          "[report][live_view]") {
    written_file const file;
    for (std::FILE* const to : {file.get(), static_cast<std::FILE*>(nullptr)}) {
        std::atomic<int> requested = 0;
        live_view view{to, [&] { return ++requested, one_budget(1); }};
        CHECK(view.is_disabled());
        view.draw(one_budget(1));
        std::this_thread::sleep_for(5ms);
        CHECK(requested == 0);
    }
    CHECK(file.text().empty());
    cuota::live_view_options plain;
    plain.plain = true;
    CHECK(live_view{nullptr, plain}.is_disabled());
}

TEST_CASE("without a terminal, summaries are appended if the plain option is set", "[report][live_view]") {
    written_file const file;
    cuota::live_view_options how;
    how.plain = true;
    live_view view{file.get(), how};
    CHECK_FALSE(view.is_disabled());
    view.draw(one_budget(1));
    view.draw(one_budget(8));
    CHECK(file.text() == cuota::summary(one_budget(1)) + "\n\n" + cuota::summary(one_budget(8)) + "\n\n");
}

TEST_CASE("a view with a callback draws periodically until it is destroyed", "[report][live_view]") {
    written_file const file;
    cuota::live_view_options how;
    how.plain = true;
    how.interval = 1ms;
    std::atomic<int> requested = 0;
    {
        live_view const view{file.get(), [&] { return ++requested, one_budget(1); }, how};
        while (requested < 3) std::this_thread::yield();
    }
    int const at_end = requested;
    std::this_thread::sleep_for(5ms);
    CHECK(requested == at_end);
    std::string all;
    for (int i = 0; i != at_end; ++i) all += cuota::summary(one_budget(1)) + "\n\n";
    CHECK(file.text() == all);
}

TEST_CASE("destroying a view does not wait for its interval", "[report][live_view]") {
    written_file const file;
    cuota::live_view_options how;
    how.plain = true;
    how.interval = 24h;
    std::atomic<int> requested = 0;
    {
        live_view const view{file.get(), [&] { return ++requested, one_budget(1); }, how};
        while (requested == 0) std::this_thread::yield();
    }
    CHECK(requested == 1);
}

TEST_CASE("an exception of the callback goes to the error sink, and the callback is called again",
          "[report][live_view]") {
    support::captured_errors errors;
    written_file const file;
    cuota::live_view_options how;
    how.plain = true;
    how.interval = 1ms;
    std::atomic<int> requested = 0;
    {
        auto const take = [&] {
            if (++requested == 1) throw std::runtime_error{"no snapshot"};
            return one_budget(1);
        };
        live_view const view{file.get(), take, how};
        while (requested < 2) std::this_thread::yield();
    }
    CHECK(errors.take() == std::vector<std::string>{"no snapshot"});
    CHECK_FALSE(file.text().empty());
}

TEST_CASE("a view refuses an empty callback and invalid options", "[report][live_view]") {
    written_file const file;
    CHECK(support::has(support::thrown<cuota::usage_error>([&] {
                           live_view const view{file.get(), live_view::snapshots{}};
                       }).what(),
                       "live_view: the callback that takes snapshots is empty (live_view.cpp:"));
    for (auto const interval : {0ms, -1ms}) {
        cuota::live_view_options how;
        how.interval = interval;
        CHECK(support::has(support::thrown<cuota::usage_error>([&] {
                               live_view const view{file.get(), [] { return memory_snapshot{}; }, how};
                           }).what(),
                           "live_view: the interval must be positive (live_view.cpp:"));
    }
}

TEST_CASE("several threads may draw in one view, and each output is whole", "[report][live_view]") {
    written_file const file;
    cuota::live_view_options how;
    how.plain = true;
    live_view view{file.get(), how};
    std::string const one = cuota::summary(one_budget(1)) + "\n\n";
    {
        std::vector<std::thread> threads;
        for (int i = 0; i != 4; ++i)
            threads.emplace_back([&] {
                for (int n = 0; n != 25; ++n) view.draw(one_budget(1));
            });
        for (std::thread& t : threads) t.join();
    }
    std::string all;
    for (int i = 0; i != 100; ++i) all += one;
    CHECK(file.text() == all);
}
