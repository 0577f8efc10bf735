// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/locked_region.hpp>

#include <csignal>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sanitizer.hpp"
#include "support/sink.hpp"

using cuota::detail::locked_region;
using cuota::detail::region_lock;

namespace {

// Error sink that takes the lock, so that a report under the lock would deadlock.
class sink_that_locks {
public:
    explicit sink_that_locks(std::mutex& guard)
        : before_{cuota::set_error_sink([this, &guard](std::exception const& error) {
              std::scoped_lock const lock{guard};
              is_misuse.push_back(dynamic_cast<cuota::usage_error const*>(&error) != nullptr);
              texts.emplace_back(error.what());
          })} {}
    sink_that_locks(sink_that_locks const&) = delete;
    sink_that_locks& operator=(sink_that_locks const&) = delete;
    ~sink_that_locks() { cuota::set_error_sink(std::move(before_)); }

    std::vector<std::string> texts{};
    std::vector<bool> is_misuse{};

private:
    cuota::error_sink before_;
};

}  // namespace

TEST_CASE(
    "errors that are reported under a lock reach the sink after the unlock, in order and with their types",
    "[core][locked_region]") {
    std::mutex guard;
    sink_that_locks const sink{guard};
    {
        region_lock const lock{guard};
        cuota::report_error(std::runtime_error{"first"});
        REQUIRE(!cuota::report_failure_of([] { throw cuota::usage_error{"second"}; }));
        try {
            throw cuota::usage_error{"third"};
        } catch (cuota::usage_error const& wrong) { cuota::report_error(wrong); }
        try {
            throw cuota::usage_error{"another one is being handled"};
        } catch (cuota::usage_error const&) { cuota::report_error(std::runtime_error{"fourth"}); }
        CHECK(sink.texts.empty());
    }
    CHECK(sink.texts == std::vector<std::string>{"first", "cuota::usage_error: second",
                                                 "cuota::usage_error: third", "fourth"});
    CHECK(sink.is_misuse == std::vector<bool>{false, true, true, false});
}

TEST_CASE("errors are reported at the unlock of the outermost lock of their own thread",
          "[core][locked_region]") {
    std::mutex outer, inner;
    support::captured_errors errors;
    {
        region_lock const first{outer};
        {
            region_lock const second{inner};
            cuota::report_error(std::runtime_error{"under two locks"});
        }
        CHECK(errors.count() == 0);
        std::thread{[] { cuota::report_error(std::runtime_error{"of another thread"}); }}.join();
        CHECK(errors.take() == std::vector<std::string>{"of another thread"});
    }
    CHECK(errors.take() == std::vector<std::string>{"under two locks"});
    CHECK(!locked_region::is_here());
}

TEST_CASE("a sink may lock mutexes of the library and report errors", "[core][locked_region]") {
    std::mutex guard;
    std::vector<std::string> texts;
    cuota::error_sink before = cuota::set_error_sink([&](std::exception const& error) {
        texts.emplace_back(error.what());
        region_lock const lock{guard};
        if (texts.size() == 1) cuota::report_error(std::runtime_error{"met in the sink"});
    });
    {
        region_lock const lock{guard};
        cuota::report_error(std::runtime_error{"a"});
        cuota::report_error(std::runtime_error{"b"});
    }
    cuota::set_error_sink(std::move(before));
    CHECK(texts == std::vector<std::string>{"a", "b", "met in the sink"});
}

TEST_CASE("kept_error keeps an error that is reported under a lock", "[core][locked_region]") {
    std::mutex guard;
    support::captured_errors errors;
    cuota::detail::kept_error const met;
    {
        region_lock const lock{guard};
        cuota::report_failure_of([] { throw cuota::usage_error{"kept"}; });
    }
    CHECK(errors.count() == 0);
    CHECK_THROWS_AS(met.rethrow(), cuota::usage_error);
}

TEST_CASE("without host memory, the number of errors and the text of the first are reported",
          "[core][locked_region]") {
    support::captured_errors errors;
    std::runtime_error const first{"the first error"};
    std::runtime_error const second{"the second error"};
    std::mutex guard;
    {
        region_lock const lock{guard};
        support::failing_heap const none{0};
        cuota::report_error(first);
        cuota::report_error(second);
    }
    std::vector<std::string> const told = errors.take();
    REQUIRE(told.size() == 1);
    CHECK(support::has(told[0], "the first error (the first of 2 errors"));
}

TEST_CASE("a call of user code under a lock aborts a checked program", "[core][locked_region]") {
#if CUOTA_CHECKED
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    std::mutex guard;
    cuota::detail::expect_no_region("a test");  // does nothing outside of locks
    pid_t const child = ::fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        (void)::freopen("/dev/null", "w", stderr);
        region_lock const lock{guard};
        cuota::detail::expect_no_region("a test");
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
#else
    CUOTA_SKIP("it is not looked at where NDEBUG is set");
#endif
}
