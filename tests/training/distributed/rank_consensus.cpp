// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/rank_consensus.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::rank_consensus;
using cuota::detail::round_vote;

static_assert(std::is_nothrow_move_constructible_v<rank_consensus> &&
              !std::is_copy_constructible_v<rank_consensus>);
static_assert(std::is_base_of_v<std::runtime_error, cuota::rank_lost_error>);

// Returns a link on which every rank answers like this one, after `change` has modified its ballot.
template <class Change>
cuota::rank_transport echo_of(std::size_t rank, std::size_t ranks, Change change) {
    return {rank, ranks, [=](std::span<std::uint64_t const> mine, std::span<std::uint64_t> all) {
                for (std::size_t i = 0; i != ranks; ++i) {
                    std::copy(mine.begin(), mine.end(), all.begin() + std::ptrdiff_t(i * mine.size()));
                    change(i, all.subspan(i * mine.size(), mine.size()));
                }
            }};
}

constexpr std::size_t value_word = round_vote::words - 1;

TEST_CASE("a single rank agrees with itself", "[training][rank_consensus]") {
    rank_consensus alone;
    CHECK(alone.rank() == 0);
    CHECK(alone.ranks() == 1);
    CHECK(alone.min(7, "x") == 7);
    CHECK(!alone.all_of(false, "y"));
    CHECK(alone.all_gather(9, "z") == std::vector<std::uint64_t>{9});
    CHECK(alone.rounds() == 3);
}

TEST_CASE("values are reduced in the order of ranks, by any operation", "[training][rank_consensus]") {
    rank_consensus ranks{echo_of(2, 4, [](std::size_t i, auto words) { words[value_word] = i + 1; })};
    CHECK(ranks.all_gather(3, "q") == std::vector<std::uint64_t>{1, 2, 3, 4});
    CHECK(ranks.min(3, "q") == 1);
    CHECK(ranks.max(3, "q") == 4);
    CHECK(ranks.all_reduce(
              3, [](auto a, auto b) { return 10 * a + b; }, "q") == 1234);
    CHECK(ranks.all_of(true, "q"));
}

TEST_CASE("all_of is false if it is false on one rank", "[training][rank_consensus]") {
    rank_consensus ranks{echo_of(0, 3, [](std::size_t i, auto words) {
        if (i == 2) words[value_word] = 0;
    })};
    CHECK(!ranks.all_of(true, "q"));
}

TEST_CASE("a rank with a different question is named on every rank", "[training][rank_consensus]") {
    for (std::size_t const mine : {0U, 1U, 3U}) {
        rank_consensus ranks{echo_of(mine, 4, [](std::size_t i, auto words) {
            if (i != 2) return;
            auto const other = std::bit_cast<std::array<std::uint64_t, round_vote::words>>(
                round_vote::of(words[0], "a part's size and a good deal more", 5));
            std::copy(other.begin(), other.end(), words.begin());
        })};
        auto const error =
            support::thrown<cuota::usage_error>([&] { (void)ranks.min(5, "the batch's size"); });
        CHECK(support::has(
            error.what(),
            "rank 2 is in \"a part's size and a good\" (round 0), others in \"the batch's size\" (round 0)"));
        CHECK(support::has(error.what(), "rank_consensus.cpp:"));
        CHECK(ranks.rounds() == 1);  // every rank got the error, so the rounds still match
    }
}

TEST_CASE("questions are compared by all of their characters", "[training][rank_consensus]") {
    std::string const begin(60, 'q');
    CHECK(!round_vote::of(0, begin + "a", 0).is_of_the_same(round_vote::of(0, begin + "b", 0)));
    CHECK(round_vote::of(3, begin, 1).is_of_the_same(round_vote::of(3, begin, 2)));
}

TEST_CASE("a rank in another round is named", "[training][rank_consensus]") {
    rank_consensus ranks{echo_of(1, 3, [](std::size_t i, auto words) { words[0] += i == 0 ? 1 : 0; })};
    auto const error = support::thrown<cuota::usage_error>([&] { (void)ranks.min(5, "q"); });
    CHECK(support::has(error.what(), "rank 0 is in \"q\" (round 1), others in \"q\" (round 0)"));
}

TEST_CASE("if half of the ranks disagree, the question of the lowest rank counts as right",
          "[training][rank_consensus]") {
    std::vector<round_vote> halves(4, round_vote::of(0, "a", 0));
    CHECK(cuota::detail::out_of_step(halves) == 4);
    halves[1] = halves[3] = round_vote::of(0, "b", 0);
    CHECK(cuota::detail::out_of_step(halves) == 1);
    halves[2] = halves[1];
    CHECK(cuota::detail::out_of_step(halves) == 0);
}

TEST_CASE("a rank leaves once, with a reason", "[training][rank_consensus]") {
    std::vector<std::string> left;
    auto const link = [&left] {
        auto made = echo_of(0, 2, [](std::size_t, auto) {});
        made.leave = [&left](std::string const& why) { left.push_back(why); };
        return made;
    };
    {
        rank_consensus first{link()};
        rank_consensus second{std::move(first)};
        CHECK(second.min(4, "q") == 4);
        CHECK_THROWS_AS(first.min(4, "q"), cuota::usage_error);  // NOLINT(bugprone-use-after-move)
        CHECK(left.empty());
        first = std::move(second);
        CHECK(first.rounds() == 1);
        CHECK(left.empty());
    }
    CHECK(left == std::vector<std::string>{"its rank_consensus was destroyed"});
    try {
        rank_consensus const thrown_over{link()};
        throw std::runtime_error{"x"};
    } catch (std::runtime_error const&) {}
    CHECK(left.back() == "its rank_consensus was destroyed by an exception");
    {
        rank_consensus told{link()};
        told.leave("out of data");
        CHECK_THROWS_AS(told.min(4, "q"), cuota::usage_error);
        told = rank_consensus{link()};
        CHECK(left.size() == 3);
        CHECK(left.back() == "out of data");
        told = rank_consensus{};
        CHECK(left.size() == 4);
    }
    CHECK(left.size() == 4);
}

TEST_CASE("an invalid transport is refused", "[training][rank_consensus]") {
    CHECK_THROWS_AS(rank_consensus(cuota::rank_transport{2, 2, {}, {}}), cuota::usage_error);
    CHECK_THROWS_AS(rank_consensus(cuota::rank_transport{0, 2, {}, {}}), cuota::usage_error);
    CHECK(support::has(cuota::rank_lost_error(1, 4, "its rank_consensus was destroyed").what(),
                       "cuota::rank_lost_error: rank 1 of 4: its rank_consensus was destroyed"));
}

using cuota::detail::outcome;

TEST_CASE("a failure on this rank is passed on, and a failure on another rank names that rank",
          "[training][rank_consensus]") {
    std::vector<std::uint64_t> said;
    auto const failing_rank_1 = [&said] {
        return echo_of(0, 2, [&said](std::size_t i, auto words) {
            if (i == 0) said.push_back(words[value_word]);
            else words[value_word] = 0;
        });
    };
    rank_consensus ranks{failing_rank_1()};
    auto const run = [&](auto work) {
        (void)cuota::detail::run_agreed(&ranks, "a step", work, cuota::source_location::current());
    };
    CHECK_THROWS_AS(run([]() -> outcome { throw 5; }), int);
    CHECK(said.back() == 0);
    auto const gone =
        support::thrown<cuota::rank_lost_error>([&] { run([] { return outcome::went_well; }); });
    CHECK(gone.rank() == 1);
    CHECK(support::has(gone.what(), "failed at: a step"));
    CHECK(said == std::vector<std::uint64_t>{0, 2});
}

TEST_CASE("a refusal is an outcome, on this rank or on another rank", "[training][rank_consensus]") {
    auto const found = cuota::detail::run_agreed(
        nullptr, "a step", []() -> outcome { throw cuota::out_of_memory{{}}; },
        cuota::source_location::current());
    CHECK(found.agreed == outcome::refused);
    CHECK_THROWS_AS(cuota::detail::throw_refusal(found, "x", {}), cuota::out_of_memory);

    rank_consensus ranks{
        echo_of(0, 3, [](std::size_t i, auto words) { words[value_word] -= i == 2 ? 1 : 0; })};
    auto const elsewhere = cuota::detail::run_agreed(
        &ranks, "a step", [] { return outcome::went_well; }, cuota::source_location::current());
    CHECK(elsewhere.agreed == outcome::refused);
    CHECK(elsewhere.rank == 2);
    auto const error = support::thrown<cuota::out_of_memory>(
        [&] { cuota::detail::throw_refusal(elsewhere, "a batch of 3", cuota::source_location::current()); });
    CHECK(error.info().cause == "rank 2 was refused memory for a batch of 3");
}

}  // namespace
