// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/refusal_log.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"

using cuota::refusal;
using cuota::refusal_log;
using support::captured_errors;
using support::has;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<refusal_log>);
static_assert(noexcept(std::declval<refusal_log&>().write(std::declval<refusal const&>())));
static_assert(noexcept(std::declval<refusal_log&>().write(std::declval<cuota::budget_exceeded const&>())));

namespace {

using time_of_log = std::chrono::system_clock::time_point;

// A log that writes into a list of lines and has a manual clock.
struct log_by_hand {
    std::shared_ptr<std::vector<std::string>> lines = std::make_shared<std::vector<std::string>>();
    std::shared_ptr<time_of_log> now = std::make_shared<time_of_log>(1'700'000'000'123ms);

    [[nodiscard]] cuota::refusal_log_options options() const {
        cuota::refusal_log_options how;
        how.now = [at = now] { return *at; };
        return how;
    }
    [[nodiscard]] refusal_log::sink sink() const {
        return [to = lines](std::string_view line) { to->emplace_back(line); };
    }
};

refusal a_refusal_for(cuota::tag name, unsigned line = 7, std::string budget = "loader") {
    refusal r;
    r.requested = r.charged = 100;
    r.request.name = name;
    r.request.where = {"dir/train.cpp", line};
    r.budgets = {{std::move(budget), 50, 10, 20, false, false}, {"trainer", 1000, 10, 20, false, false}};
    return r;
}

std::string content_of_log(std::string const& path) {
    std::ifstream from{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{from}, {}};
}

}  // namespace

TEST_CASE("refusal_log writes a refusal completely on one line with its time and level",
          "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};
    auto const r = a_refusal_for("rows");

    log.write(r);
    auto of_device = a_refusal_for("rows", 8);
    of_device.budgets.clear();
    log.write(of_device);

    REQUIRE(by_hand.lines->size() == 2);
    CHECK(by_hand.lines->at(0) ==
          R"({"time":"2023-11-14T22:13:20.123Z","level":"warning","event":"refused","refusal":)" +
              cuota::refusal_json(r) + "}");
    CHECK(has(by_hand.lines->at(1), R"("level":"error")"));
}

TEST_CASE("refusal_log's time is right at year ends and before 1970", "[report][refusal_log]") {
    auto const text = [](std::chrono::milliseconds at) { return cuota::detail::utc_text(time_of_log{at}); };
    CHECK(text(0ms) == "1970-01-01T00:00:00.000Z");
    CHECK(text(-1ms) == "1969-12-31T23:59:59.999Z");
    CHECK(text(951'782'399'999ms) == "2000-02-28T23:59:59.999Z");
    CHECK(text(951'782'400'000ms) == "2000-02-29T00:00:00.000Z");
    CHECK(text(4'102'444'799'000ms) == "2099-12-31T23:59:59.000Z");
}

TEST_CASE("refusal_log writes two lines for a thousand equal refusals", "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};
    auto const r = a_refusal_for("rows");

    for (int i = 0; i != 1205; ++i) {
        log.write(r);
        if (i == 1200) *by_hand.now += 9500ms;
    }
    CHECK(by_hand.lines->size() == 1);
    CHECK(log.count().suppressed == 1204);
    *by_hand.now += 1s;
    log.write(r);

    REQUIRE(by_hand.lines->size() == 3);
    CHECK(by_hand.lines->at(1) ==
          R"({"time":"2023-11-14T22:13:30.623Z","level":"warning","event":"refused_again",)"
          R"("text":"and 1'204 more like it in 10 s","more":1204,"requested":120400,"seconds":10,)"
          R"("budget":"trainer/loader","tag":"rows","location":{"file":"dir/train.cpp","line":7}})");
    CHECK(has(by_hand.lines->at(2), R"("event":"refused",)"));
    CHECK(log.count().seen == 1206);
    CHECK(log.count().lines == 3);
}

TEST_CASE("refusal_log distinguishes budgets, tags and call sites", "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};

    for (int twice = 0; twice != 2; ++twice) {
        log.write(a_refusal_for("rows"));
        log.write(a_refusal_for("labels"));
        log.write(a_refusal_for("rows", 8));
        log.write(a_refusal_for("rows", 7, "cache"));
    }

    CHECK(by_hand.lines->size() == 4);
    CHECK(log.count().suppressed == 4);
}

TEST_CASE("refusal_log writes suppressed counts at the next refusal, at flush and when destroyed",
          "[report][refusal_log]") {
    log_by_hand by_hand;
    {
        refusal_log log{by_hand.sink(), by_hand.options()};
        log.write(a_refusal_for("rows"));
        log.write(a_refusal_for("rows"));
        *by_hand.now += 10s;
        log.write(a_refusal_for("labels"));
        REQUIRE(by_hand.lines->size() == 3);
        CHECK(has(by_hand.lines->at(1), "and 1 more like it in 1 s"));

        log.write(a_refusal_for("labels"));
        log.flush();
        REQUIRE(by_hand.lines->size() == 4);
        log.flush();
        CHECK(by_hand.lines->size() == 4);

        log.write(a_refusal_for("labels"));
        log.write(a_refusal_for("labels"));
    }
    REQUIRE(by_hand.lines->size() == 6);
    CHECK(has(by_hand.lines->at(5), R"("event":"refused_again")"));
}

TEST_CASE("refusal_log ends each kind's window at its own time", "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};
    auto const twice = [&](cuota::tag name) {
        log.write(a_refusal_for(name));
        log.write(a_refusal_for(name));
    };
    twice("a");
    *by_hand.now += 5s;
    twice("b");
    *by_hand.now += 5500ms;
    twice("c");
    CHECK(by_hand.lines->size() == 4);  // a, b, repetitions of a, c
    *by_hand.now += 5s;
    log.write(a_refusal_for("c"));

    REQUIRE(by_hand.lines->size() == 5);
    CHECK(has(by_hand.lines->at(4), R"("tag":"b")"));
}

TEST_CASE("refusal_log writes a bounded number of lines for any number of kinds", "[report][refusal_log]") {
    log_by_hand by_hand;
    auto how = by_hand.options();
    how.max_kinds = 3;
    refusal_log log{by_hand.sink(), how};

    for (unsigned line = 1; line != 1000; ++line) log.write(a_refusal_for("rows", line));
    CHECK(by_hand.lines->size() == 4);
    *by_hand.now += 11s;
    for (unsigned line = 1; line != 1000; ++line) log.write(a_refusal_for("rows", line));

    CHECK(by_hand.lines->size() == 9);
    CHECK(log.count().suppressed == 2 * 995);
    std::size_t mixed = 0;
    for (auto const& line : *by_hand.lines)
        if (has(line, R"("text":"and 995 more of other kinds in 1 s")") && has(line, R"("location":null)"))
            ++mixed;
    CHECK(mixed == 1);
}

TEST_CASE("refusal_log continues when its clock is set back", "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};
    log.write(a_refusal_for("rows"));
    *by_hand.now -= 24h;

    log.write(a_refusal_for("rows"));

    CHECK(by_hand.lines->size() == 2);
}

TEST_CASE("refusal_log never throws, reports its first error to the error sink and counts all errors",
          "[report][refusal_log]") {
    captured_errors errors;
    log_by_hand by_hand;
    bool is_full = true;
    {
        refusal_log log{[&](std::string_view line) {
                            if (is_full) throw std::runtime_error{"no space left"};
                            by_hand.sink()(line);
                        },
                        by_hand.options()};
        log.write(a_refusal_for("rows"));
        log.write(a_refusal_for("labels"));
        log.write(a_refusal_for("labels"));
        CHECK(log.count().lost == 2);
        CHECK(log.count().suppressed == 1);
        CHECK(errors.take() == std::vector<std::string>{"no space left"});

        *by_hand.now += 11s;
        log.write(a_refusal_for("rows"));  // both the summary of "labels" and this line fail
        is_full = false;
        log.write(a_refusal_for("other"));
        CHECK(by_hand.lines->size() == 1);
        CHECK(log.count().lost == 3);
        CHECK(log.count().seen == 5);
    }
    CHECK(errors.take().empty());
}

TEST_CASE("a failed line of refusal_log does not lose other lines", "[report][refusal_log]") {
    captured_errors errors;
    log_by_hand by_hand;
    bool fails_once = false;
    refusal_log log{[&](std::string_view line) {
                        if (std::exchange(fails_once, false)) throw std::runtime_error{"once"};
                        by_hand.sink()(line);
                    },
                    by_hand.options()};
    for (int twice = 0; twice != 2; ++twice)
        for (unsigned line = 1; line != 4; ++line) log.write(a_refusal_for("rows", line));
    *by_hand.now += 11s;
    fails_once = true;

    log.write(a_refusal_for("labels"));

    CHECK(by_hand.lines->size() == 3 + 2 + 1);
    CHECK(log.count().lost == 0);
    CHECK(errors.count() == 1);
}

TEST_CASE("refusal_log tolerates a sink that writes to it and a clock that throws", "[report][refusal_log]") {
    captured_errors errors;
    refusal_log* self = nullptr;
    int lines = 0;
    refusal_log log{[&](std::string_view) {
        ++lines;
        self->write(a_refusal_for("sink"));
        self->flush();
    }};
    self = &log;

    log.write(a_refusal_for("rows"));

    CHECK(lines == 1);
    CHECK(log.count().lost == 1);

    cuota::refusal_log_options how;
    how.now = []() -> time_of_log { throw 7; };
    refusal_log without_time{[](std::string_view) {}, how};
    without_time.write(a_refusal_for("rows"));
    CHECK(without_time.count().lost == 1);
    CHECK(errors.count() == 1);
}

TEST_CASE("refusal_log counts every refusal of several threads and calls its sink by one at a time",
          "[report][refusal_log]") {
    std::atomic<int> inside = 0;
    std::atomic<bool> overlapped = false;
    std::size_t lines = 0;
    {
        auto how = log_by_hand{}.options();
        refusal_log log{[&](std::string_view) {
                            if (inside.fetch_add(1) != 0) overlapped = true;
                            ++lines;
                            --inside;
                        },
                        how};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t != 4; ++t)
            threads.emplace_back([&log, t] {
                for (unsigned i = 0; i != 500; ++i) {
                    log.write(a_refusal_for("rows", 1 + (i + t) % 5));
                    if (i % 100 == 0) log.flush();
                }
            });
        for (auto& thread : threads) thread.join();
        auto const count = log.count();
        CHECK(count.seen == 2000);
        CHECK(count.lost == 0);
        CHECK(count.lines == lines);
        CHECK(count.suppressed > 1000);
    }
    CHECK_FALSE(overlapped);
}

TEST_CASE("refusal_log writes whole lines to files and streams and detects when they are full",
          "[report][refusal_log]") {
    captured_errors errors;
    support::temp_folder const folder;
    std::FILE* const file = std::fopen(folder.path("log").c_str(), "w");
    REQUIRE(file);
    {
        refusal_log log{file};
        log.write(a_refusal_for("rows"));
        auto const text = content_of_log(folder.path("log"));  // written immediately
        CHECK(text.ends_with("}}\n"));
    }
    std::fclose(file);
    std::ostringstream stream;
    {
        refusal_log log{stream};
        log.write(a_refusal_for("rows"));
        CHECK(stream.str().ends_with("}}\n"));
        stream.setstate(std::ios::badbit);
        log.write(a_refusal_for("labels"));
        CHECK(log.count().lost == 1);
    }
    CHECK(errors.take() == std::vector<std::string>{"cuota::refusal_log: write failed"});
    if (std::FILE* const full = std::fopen("/dev/full", "w")) {
        refusal_log log{full};
        log.write(a_refusal_for("rows"));
        CHECK(log.count().lost == 1);
        CHECK(errors.take() == std::vector<std::string>{"cuota::refusal_log: write failed"});
        std::fclose(full);
    }
    CHECK_THROWS_AS(refusal_log{static_cast<std::FILE*>(nullptr)}, cuota::usage_error);
    CHECK_THROWS_AS(refusal_log{refusal_log::sink{}}, cuota::usage_error);
}

TEST_CASE("refusal_log accepts the exception of a budget", "[report][refusal_log]") {
    log_by_hand by_hand;
    refusal_log log{by_hand.sink(), by_hand.options()};
    cuota::budget root{"root of log", 100};

    try {
        (void)root.reserve(200, "too much");
    } catch (cuota::budget_exceeded const& e) { log.write(e); }

    REQUIRE(by_hand.lines->size() == 1);
    CHECK(has(by_hand.lines->front(), R"("requested":200)"));
    CHECK(has(by_hand.lines->front(), "root of log"));
}
