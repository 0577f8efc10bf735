// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/error.hpp>

#include <string>
#include <type_traits>

#include "support/catch.hpp"

using namespace cuota::literals;

namespace {

cuota::place const here{"/home/me/project/train.cpp", 17};

// An exception that throws while it is copied ends the program.
template <class Error, class Base>
concept is_sound = std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error> &&
    std::is_base_of_v<Base, Error>;
static_assert(is_sound<cuota::cuda_error, std::runtime_error>);
static_assert(is_sound<cuota::out_of_memory, std::bad_alloc>);
static_assert(is_sound<cuota::budget_exceeded, cuota::out_of_memory>);
static_assert(is_sound<cuota::misuse, std::logic_error>);
static_assert(is_sound<cuota::data_error, std::runtime_error>);

cuota::refusal refusal_of(std::size_t bytes) {
    cuota::refusal r;
    r.asked = r.charged = bytes;
    r.request.where = here;
    return r;
}

}  // namespace

TEST_CASE("cuda_error names the code, the call and the place", "[core][error]") {
    cuota::cuda_error const error{2, "cudaMalloc", "cudaErrorMemoryAllocation: out of memory", here};

    REQUIRE(error.code() == 2);
    REQUIRE(error.call() == "cudaMalloc");
    REQUIRE(error.where().line == 17);
    REQUIRE(
        std::string{error.what()} ==
        "cuota::cuda_error: cudaMalloc failed with cudaErrorMemoryAllocation: out of memory (train.cpp:17)");
}

TEST_CASE("an error without a place has no empty brackets", "[core][error]") {
    REQUIRE(std::string{cuota::cuda_error{1, "cudaFree", "why", {}}.what()} ==
            "cuota::cuda_error: cudaFree failed with why");
    REQUIRE(std::string{cuota::misuse{"too late"}.what()} == "cuota::misuse: too late");
    REQUIRE(std::string{cuota::misuse{"too late", here}.what()} == "cuota::misuse: too late (train.cpp:17)");
    REQUIRE(cuota::misuse{"too late", here}.where().line == 17);
}

TEST_CASE("out_of_memory carries its facts as data and as text", "[core][error]") {
    cuota::out_of_memory const error{refusal_of(3_MiB)};

    REQUIRE(error.facts().asked == 3_MiB);
    REQUIRE(std::string{error.what()} == cuota::refusal_text("out_of_memory", error.facts()));
}

TEST_CASE("budget_exceeded is caught as out_of_memory and as bad_alloc", "[core][error]") {
    auto const caught_as = [](auto const* type) {
        using base = std::remove_cvref_t<decltype(*type)>;
        try {
            throw cuota::budget_exceeded{refusal_of(3_MiB)};
        } catch (base const& error) { return std::string{error.what()}; }
    };
    std::string const first_line =
        "cuota::budget_exceeded: 3.0 MiB refused at train.cpp:17, before anything was allocated";
    REQUIRE(caught_as(static_cast<cuota::budget_exceeded*>(nullptr)).starts_with(first_line));
    REQUIRE(caught_as(static_cast<cuota::out_of_memory*>(nullptr)).starts_with(first_line));
    REQUIRE(caught_as(static_cast<std::bad_alloc*>(nullptr)).starts_with(first_line));
}

TEST_CASE("a copy of an error outlives the original", "[core][error]") {
    auto original = std::make_unique<cuota::budget_exceeded>(refusal_of(5_MiB));
    cuota::budget_exceeded const copy{*original};
    original.reset();

    REQUIRE(copy.facts().asked == 5_MiB);
    REQUIRE(std::string{copy.what()}.starts_with("cuota::budget_exceeded: 5.0 MiB"));
}

TEST_CASE("data_error names the file, the offset and why", "[core][error]") {
    cuota::data_error const error{"images.npy", 128, "the header ends early"};

    REQUIRE(error.file() == "images.npy");
    REQUIRE(error.offset() == 128);
    REQUIRE(error.why() == "the header ends early");
    REQUIRE(std::string{error.what()} == "cuota::data_error: images.npy: at byte 128: the header ends early");
}
