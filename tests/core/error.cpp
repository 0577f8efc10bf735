// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/error.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/core/refusal_text.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using namespace cuota::literals;

namespace {

cuota::source_location const here{"/home/me/project/train.cpp", 17};

// An exception that throws while it is copied ends the program.
template <class Error, class Base>
concept is_sound = std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error> &&
    std::is_base_of_v<Base, Error>;
static_assert(is_sound<cuota::cuda_error, std::runtime_error>);
static_assert(is_sound<cuota::out_of_memory, std::bad_alloc>);
static_assert(is_sound<cuota::budget_exceeded, cuota::out_of_memory>);
static_assert(is_sound<cuota::usage_error, std::logic_error>);
static_assert(is_sound<cuota::data_error, std::runtime_error>);

cuota::refusal refusal_of(std::size_t bytes) {
    cuota::refusal r;
    r.requested = r.charged = bytes;
    r.request.where = here;
    return r;
}

}  // namespace

TEST_CASE("cuda_error names the code, the call and the call site", "[core][error]") {
    cuota::cuda_error const error{2, "cudaMalloc", "cudaErrorMemoryAllocation: out of memory", here};

    REQUIRE(error.code() == 2);
    REQUIRE(error.call() == "cudaMalloc");
    REQUIRE(error.where().line == 17);
    REQUIRE(
        std::string{error.what()} ==
        "cuota::cuda_error: cudaMalloc failed with cudaErrorMemoryAllocation: out of memory (train.cpp:17)");
}

TEST_CASE("the text of an error without a call site has no empty brackets", "[core][error]") {
    REQUIRE(std::string{cuota::cuda_error{1, "cudaFree", "why", {}}.what()} ==
            "cuota::cuda_error: cudaFree failed with why");
    REQUIRE(std::string{cuota::usage_error{"too late"}.what()} == "cuota::usage_error: too late");
    REQUIRE(std::string{cuota::usage_error{"too late", here}.what()} ==
            "cuota::usage_error: too late (train.cpp:17)");
    REQUIRE(cuota::usage_error{"too late", here}.where().line == 17);
}

TEST_CASE("out_of_memory has its facts as data and as text", "[core][error]") {
    cuota::out_of_memory const error{refusal_of(3_MiB)};

    REQUIRE(error.info().requested == 3_MiB);
    REQUIRE(std::string{error.what()} == cuota::refusal_text("out_of_memory", error.info()));
}

TEST_CASE("budget_exceeded is caught as out_of_memory and as bad_alloc", "[core][error]") {
    auto const caught_as = [](auto const* type) {
        using base = std::remove_cvref_t<decltype(*type)>;
        try {
            throw cuota::budget_exceeded{refusal_of(3_MiB)};
        } catch (base const& error) { return std::string{error.what()}; }
    };
    std::string const first_line = "cuota::budget_exceeded: cannot allocate 3.0 MiB at train.cpp:17";
    REQUIRE(caught_as(static_cast<cuota::budget_exceeded*>(nullptr)).starts_with(first_line));
    REQUIRE(caught_as(static_cast<cuota::out_of_memory*>(nullptr)).starts_with(first_line));
    REQUIRE(caught_as(static_cast<std::bad_alloc*>(nullptr)).starts_with(first_line));
}

TEST_CASE("a copy of an error outlives the original", "[core][error]") {
    auto original = std::make_unique<cuota::budget_exceeded>(refusal_of(5_MiB));
    cuota::budget_exceeded const copy{*original};
    original.reset();

    REQUIRE(copy.info().requested == 5_MiB);
    REQUIRE(std::string{copy.what()}.starts_with("cuota::budget_exceeded: cannot allocate 5.0 MiB"));
}

TEST_CASE("the text of a refusal is built once for all copies", "[core][error]") {
    cuota::budget_exceeded const error{refusal_of(5_MiB)};
    cuota::out_of_memory const copy = error;
    REQUIRE(copy.what() == error.what());
    REQUIRE(error.what() == error.what());
    REQUIRE(std::string{copy.what()} == cuota::refusal_text("budget_exceeded", error.info()));
}

TEST_CASE("threads that call what() on copies of one error get the same text", "[core][error]") {
    for (int round = 0; round != 50; ++round) {
        cuota::budget_exceeded const error{refusal_of(5_MiB)};
        std::atomic<int> waiting = 4;
        std::vector<char const*> told(4);
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i != told.size(); ++i)
            threads.emplace_back([&, i, copy = error] {
                --waiting;
                while (waiting != 0) std::this_thread::yield();
                told[i] = copy.what();
            });
        for (std::thread& t : threads) t.join();
        for (char const* const text : told) REQUIRE(text == error.what());
        REQUIRE(std::string{told[0]} == cuota::refusal_text("budget_exceeded", error.info()));
    }
}

TEST_CASE("a refusal without host memory has a short text, and the full text once memory is available",
          "[core][error]") {
    cuota::refusal r = refusal_of(5_MiB);
    r.budgets = {{"a budget whose name does not fit into a string object", 1_MiB, 0, 0}};
    for (bool const is_budget : {false, true}) {
        char const* const fallback_text =
            is_budget ? "cuota::budget_exceeded: out of memory; the details do not fit in host memory"
                      : "cuota::out_of_memory: out of memory; the details do not fit in host memory";
        bool told = false;
        std::size_t allowed = 0;
        for (; !told; ++allowed) {
            cuota::out_of_memory const error =
                is_budget ? cuota::budget_exceeded{r} : cuota::out_of_memory{r};
            std::string const full =
                cuota::refusal_text(is_budget ? "budget_exceeded" : "out_of_memory", error.info());
            char const* text = nullptr;
            std::size_t refused = 0;
            {
                support::failing_heap const heap{allowed};
                text = error.what();
                refused = heap.refused();
            }
            told = refused == 0;
            REQUIRE(std::string{text} == (told ? full : fallback_text));
            REQUIRE(std::string{error.what()} == full);
        }
        REQUIRE(allowed > 5);
    }
}

TEST_CASE("data_error names the file, the offset and the reason", "[core][error]") {
    cuota::data_error const error{"images.npy", 128, "the header ends early"};

    REQUIRE(error.file() == "images.npy");
    REQUIRE(error.offset() == 128);
    REQUIRE(error.why() == "the header ends early");
    REQUIRE(std::string{error.what()} == "cuota::data_error: images.npy: at byte 128: the header ends early");
}
