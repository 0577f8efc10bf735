// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/alert_event.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/catch.hpp"

using namespace std::chrono_literals;

namespace {

cuota::alert_event full() {
    cuota::alert_event e;
    e.budget = "step \"7\"";
    e.index = 1;
    e.threshold = 80;
    e.held = 90;
    e.limit = 100;
    e.peak = 95;
    e.number = 3;
    e.missed = 2;
    e.time += 5s;
    e.growth = -12.7;
    e.time_to_limit = 1500ms;
    e.charge_tag = "weights";
    e.charge_site = {"/home/me/train.cpp", 17};
    return e;
}

// While it exists, standard error is redirected to `descriptor`, or closed if that is negative.
class other_stderr {
public:
    explicit other_stderr(int descriptor) : before_{::dup(STDERR_FILENO)} {
        if (descriptor < 0) ::close(STDERR_FILENO);
        else ::dup2(descriptor, STDERR_FILENO);
    }
    ~other_stderr() {
        ::dup2(before_, STDERR_FILENO);
        ::close(before_);
    }
    other_stderr(other_stderr const&) = delete;
    other_stderr& operator=(other_stderr const&) = delete;

private:
    int before_;
};

bool is_pending(int signal) {
    ::sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, signal) == 1;
}

}  // namespace

TEST_CASE("an alert's event is one line of JSON", "[guard][alert_event]") {
    REQUIRE(
        cuota::alert_json(full()) ==
        R"({"event":"alert","budget":"step \"7\"","signal":"threshold","rising":true,"index":1,"threshold":80,)"
        R"("held":90,"limit":100,"free":10,"peak":95,"number":3,"missed":2,"growth":-12,"time_to_limit_ms":1500,)"
        R"("tag":"weights","location":{"file":"/home/me/train.cpp","line":17},"steady_ns":5000000000})");
}

TEST_CASE("an event without limit, growth and name is valid JSON", "[guard][alert_event]") {
    cuota::alert_event e;
    e.signal = cuota::alert_signal::time_to_limit;
    e.rising = false;
    e.limit = cuota::unlimited;
    REQUIRE(
        cuota::alert_json(e) ==
        R"({"event":"alert","budget":"","signal":"time_to_limit","rising":false,"index":0,"threshold":0,)"
        R"("held":0,"limit":null,"free":null,"peak":0,"number":0,"missed":0,"growth":0,"time_to_limit_ms":null,)"
        R"("tag":"","location":null,"steady_ns":0})");
    e.growth = 1e300;
    REQUIRE(cuota::alert_json(e).find(R"("growth":9000000000000000000,)") != std::string::npos);
}

TEST_CASE("free bytes are never less than 0", "[guard][alert_event]") {
    cuota::alert_event e = full();
    REQUIRE(e.free() == 10);
    e.held = 101;
    REQUIRE(e.free() == 0);
}

TEST_CASE("lines that threads write to standard error do not mix", "[guard][alert_event]") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::string const line = cuota::alert_json(full()) + '\n';
    constexpr int threads = 3;
    constexpr int lines = 40;
    std::string all;
    {
        other_stderr const here{ends[1]};
        std::vector<std::thread> writers;
        for (int t = 0; t != threads; ++t)
            writers.emplace_back([&] {
                auto const log = cuota::log_to_stderr();
                for (int i = 0; i != lines; ++i) log(full());
            });
        char some[4096];
        while (all.size() < line.size() * threads * lines)
            all.append(some, static_cast<std::size_t>(::read(ends[0], some, sizeof some)));
        for (std::thread& t : writers) t.join();
    }
    ::close(ends[0]);
    ::close(ends[1]);
    bool is_whole = true;
    for (std::size_t at = 0; at != all.size(); at += line.size())
        is_whole &= all.substr(at, line.size()) == line;
    REQUIRE(is_whole);
}

TEST_CASE("a closed standard error is ignored", "[guard][alert_event]") {
    {
        other_stderr const here{-1};
        cuota::log_to_stderr()(full());
    }
    REQUIRE(!is_pending(SIGPIPE));
}

TEST_CASE("a standard error whose reader was closed is ignored", "[guard][alert_event]") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::close(ends[0]);
    {
        other_stderr const here{ends[1]};
        cuota::log_to_stderr()(full());
        cuota::log_to_stderr()(full());
    }
    ::close(ends[1]);
    REQUIRE(!is_pending(SIGPIPE));
}

TEST_CASE("a standard error file that may not grow is ignored", "[guard][alert_event]") {
    std::FILE* const file = std::tmpfile();
    REQUIRE(file);
    ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    ::rlimit const none{0, before.rlim_max};
    {
        other_stderr const here{::fileno(file)};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
        cuota::log_to_stderr()(full());
        ::setrlimit(RLIMIT_FSIZE, &before);
    }
    REQUIRE(!is_pending(SIGXFSZ));
    REQUIRE(std::fseek(file, 0, SEEK_END) == 0);
    REQUIRE(std::ftell(file) == 0);
    std::fclose(file);
}

TEST_CASE("a signal that was pending before a line is written is still pending afterwards",
          "[guard][alert_event]") {
    ::sigset_t one;
    ::sigset_t before;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &one, &before);
    ::raise(SIGPIPE);
    { cuota::detail::quiet_writes const here; }
    bool const is_still = is_pending(SIGPIPE);
    int taken = 0;
    if (is_still) ::sigwait(&one, &taken);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    REQUIRE(is_still);
    REQUIRE(taken == SIGPIPE);
}
