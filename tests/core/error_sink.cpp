// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/error_sink.hpp>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"

TEST_CASE("a reported error reaches the sink", "[core][error_sink]") {
    support::captured_errors errors;
    cuota::report_error(std::runtime_error{"the disk is on fire"});
    REQUIRE(errors.take() == std::vector<std::string>{"the disk is on fire"});
}

TEST_CASE("set_error_sink returns the previous sink", "[core][error_sink]") {
    support::captured_errors errors;
    int first = 0;
    int second = 0;
    cuota::error_sink before = cuota::set_error_sink([&](std::exception const&) { ++first; });
    cuota::error_sink const mine = cuota::set_error_sink([&](std::exception const&) { ++second; });
    cuota::report_error(std::runtime_error{"to the second"});
    mine(std::runtime_error{"to the first"});
    cuota::set_error_sink(before);
    cuota::report_error(std::runtime_error{"to the one before"});

    REQUIRE(first == 1);
    REQUIRE(second == 1);
    REQUIRE(errors.take() == std::vector<std::string>{"to the one before"});
}

TEST_CASE("an empty sink restores standard error and is returned as empty", "[core][error_sink]") {
    cuota::error_sink before = cuota::set_error_sink({});
    REQUIRE(!cuota::set_error_sink([](std::exception const&) {}));
    REQUIRE(cuota::set_error_sink(std::move(before)));
}

TEST_CASE("an exception thrown by a sink is ignored", "[core][error_sink]") {
    cuota::error_sink before = cuota::set_error_sink([](std::exception const&) { throw 42; });
    cuota::report_error(std::runtime_error{"lost"});
    REQUIRE(!cuota::report_failure_of([] { throw std::runtime_error{"lost too"}; }));
    cuota::set_error_sink(std::move(before));
}

TEST_CASE("a sink may set another sink and report to it", "[core][error_sink]") {
    support::captured_errors errors;
    cuota::error_sink const mine = cuota::set_error_sink({});
    cuota::set_error_sink([&](std::exception const& error) {
        cuota::set_error_sink(mine);
        cuota::report_error(error);
    });
    cuota::report_error(std::runtime_error{"handed on"});
    REQUIRE(errors.take() == std::vector<std::string>{"handed on"});
}

TEST_CASE("report_failure_of returns whether the function succeeded", "[core][error_sink]") {
    support::captured_errors errors;
    bool ran = false;
    REQUIRE(cuota::report_failure_of([&] { ran = true; }));
    REQUIRE(ran);
    REQUIRE(errors.count() == 0);

    REQUIRE(!cuota::report_failure_of([] { throw std::runtime_error{"no"}; }));
    REQUIRE(!cuota::report_failure_of([] { throw 7; }));
    REQUIRE(errors.take() == std::vector<std::string>{"no", "an exception that is not a std::exception"});
    static_assert(noexcept(cuota::report_failure_of([] { throw 7; })));
}

TEST_CASE("kept_error keeps the first error of its own thread with its type", "[core][error_sink]") {
    support::captured_errors errors;
    {
        cuota::detail::kept_error const outer;
        {
            cuota::detail::kept_error const kept;
            CHECK_NOTHROW(kept.rethrow());
            cuota::report_failure_of([] { throw std::out_of_range{"first"}; });
            cuota::report_failure_of([] { throw std::runtime_error{"second"}; });
            std::thread{[] { cuota::report_error(std::runtime_error{"another's"}); }}.join();
            CHECK_THROWS_AS(kept.rethrow(), std::out_of_range);
        }
        try {
            throw std::out_of_range{"on its way already"};
        } catch (std::exception const&) { cuota::report_error(std::runtime_error{"told, not thrown"}); }
        try {
            outer.rethrow();
            FAIL("nothing was thrown");
        } catch (std::runtime_error const& error) { CHECK(std::string{error.what()} == "told, not thrown"); }
    }
    cuota::report_error(std::runtime_error{"after it"});
    CHECK(errors.take() == std::vector<std::string>{"second", "another's", "after it"});
}

TEST_CASE("the error that CUDA is shutting down is not reported, but can be rethrown", "[core][error_sink]") {
    support::captured_errors errors;
    constexpr int unloading = 4;
    auto const ended = [](int code) {
        throw cuota::cuda_error{code, "cudaFree", "driver shutting down", {}};
    };
    CHECK_FALSE(cuota::report_failure_of([&] { ended(unloading); }));
    cuota::report_error(cuota::cuda_error{unloading, "cudaFree", "driver shutting down", {}});
    CHECK(errors.count() == 0);
    CHECK_FALSE(cuota::report_failure_of([&] { ended(unloading + 1); }));
    CHECK(errors.take().size() == 1);
    {
        cuota::detail::kept_error const kept;
        cuota::report_failure_of([&] { ended(unloading); });
        CHECK_THROWS_AS(kept.rethrow(), cuota::cuda_error);
    }
    CHECK(errors.count() == 0);
}

TEST_CASE("each error that threads report while the sink changes reaches one of the sinks",
          "[core][error_sink]") {
    support::captured_errors errors;
    std::atomic<int> counted = 0;
    constexpr int reports = 2000;
    std::vector<std::thread> threads;
    for (int t = 0; t != 3; ++t)
        threads.emplace_back([] {
            for (int i = 0; i != reports; ++i) cuota::report_error(std::runtime_error{"one"});
        });
    for (int i = 0; i != 500; ++i) cuota::set_error_sink([&](std::exception const&) { ++counted; });
    for (std::thread& t : threads) t.join();

    REQUIRE(static_cast<int>(errors.count()) + counted == 3 * reports);
}
