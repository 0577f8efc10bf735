// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/thread_group.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::rank_consensus;
using cuota::thread_group;
using namespace std::chrono_literals;

constexpr std::size_t rounds_of_a_case = 3;

struct rank_end {
    std::size_t rounds = 0;
    std::optional<std::size_t> gone;
    std::string text;
};

// Calls `run(rank, mine, end)` in one thread per rank and returns their results.
template <class Run>
std::vector<rank_end> run_ranks(thread_group const& group, Run run) {
    std::vector<rank_end> ends(group.ranks());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank != group.ranks(); ++rank)
        threads.emplace_back([&, rank] {
            rank_end& end = ends[rank];
            try {
                rank_consensus mine = group.join(rank);
                run(rank, mine, end);
            } catch (cuota::rank_lost_error const& error) {
                end.gone = error.rank();
                end.text = error.what();
            } catch (std::exception const& error) { end.text = error.what(); }
        });
    for (std::thread& t : threads) t.join();
    return ends;
}

enum class way_to_go { by_exception, by_return, by_silence };

// Runs ranks of which all but `gone` reach round `last`.
std::vector<rank_end> lose_one(std::size_t ranks, std::size_t gone, std::size_t last, way_to_go way,
                               std::chrono::nanoseconds deadline) {
    thread_group const group{ranks, deadline};
    std::latch all_there{std::ptrdiff_t(ranks)};
    std::latch others_are_over{std::ptrdiff_t(ranks) - 1};
    return run_ranks(group, [&](std::size_t rank, rank_consensus& mine, rank_end& end) {
        for (std::size_t round = 0; round != rounds_of_a_case; ++round) {
            if (round == last) all_there.arrive_and_wait();
            if (rank == gone && round == last) {
                if (way == way_to_go::by_exception) throw std::runtime_error{"its own"};
                if (way == way_to_go::by_return) return;
                others_are_over.wait();
            }
            try {
                if (mine.max(rank, "which") + 1 != ranks) return;
                ++end.rounds;
            } catch (...) {
                if (rank != gone) others_are_over.count_down();
                throw;
            }
        }
    });
}

void check_one_lost(std::vector<rank_end> const& ends, std::size_t gone, std::size_t last, way_to_go way) {
    for (std::size_t rank = 0; rank != ends.size(); ++rank) {
        INFO("rank " << rank << " of " << ends.size() << ", without " << gone << " from round " << last
                     << " on, way " << int(way) << ": " << ends[rank].text);
        CHECK(ends[rank].rounds == last);
        if (rank == gone && way == way_to_go::by_exception) CHECK(ends[rank].text == "its own");
        else if (rank == gone && way == way_to_go::by_return) CHECK(ends[rank].text.empty());
        else {
            CHECK(ends[rank].gone == gone);  // a late rank gets its own number
            CHECK(support::has(ends[rank].text, way == way_to_go::by_exception ? "destroyed by an exception"
                                                : way == way_to_go::by_return
                                                    ? "its rank_consensus was destroyed"
                                                    : "timed out"));
        }
    }
}

TEST_CASE("threads agree in each round", "[training][thread_group]") {
    thread_group const group{4};
    auto const ends = run_ranks(group, [&](std::size_t rank, rank_consensus& mine, rank_end& end) {
        for (std::uint64_t round = 0; round != 200; ++round) {
            auto const all = mine.all_gather(rank * 1000 + round, "v");
            bool is_right = all.size() == 4;
            for (std::size_t i = 0; i != all.size(); ++i) is_right = is_right && all[i] == i * 1000 + round;
            end.rounds += is_right;
        }
    });
    for (rank_end const& end : ends) {
        CHECK(end.rounds == 200);
        CHECK(end.text.empty());  // a rank that ends after the last round disturbs no other
    }
}

TEST_CASE("a rank that leaves in any round and in any way is named on all others",
          "[training][thread_group]") {
    for (std::size_t ranks = 2; ranks != 5; ++ranks)
        for (std::size_t gone = 0; gone != ranks; ++gone)
            for (std::size_t last = 0; last != rounds_of_a_case; ++last)
                for (auto const way : {way_to_go::by_exception, way_to_go::by_return})
                    check_one_lost(lose_one(ranks, gone, last, way, 1h), gone, last, way);
}

TEST_CASE("a rank that does not take part is named after the deadline, and no rank hangs",
          "[training][thread_group]") {
    // All cases run concurrently, since each waits for its deadline.
    std::vector<std::vector<rank_end>> ends(3 * rounds_of_a_case);
    std::vector<std::thread> cases;
    for (std::size_t i = 0; i != ends.size(); ++i)
        cases.emplace_back([&, i] { ends[i] = lose_one(3, i % 3, i / 3, way_to_go::by_silence, 6s); });
    for (std::thread& t : cases) t.join();
    for (std::size_t i = 0; i != ends.size(); ++i)
        check_one_lost(ends[i], i % 3, i / 3, way_to_go::by_silence);
}

TEST_CASE("a rank that has not joined is named", "[training][thread_group]") {
    thread_group const group{3, 20ms};
    rank_consensus here = group.join(1);
    rank_consensus there = group.join(2);
    std::thread other{[&] {
        try {
            (void)there.min(1, "q");
        } catch (cuota::rank_lost_error const&) {}
    }};
    auto const error = support::thrown<cuota::rank_lost_error>([&] { (void)here.min(1, "q"); });
    other.join();
    // On a slow machine either of the two may be late as well, but the rank that has not joined is named first.
    CHECK(error.rank() == 0);
    CHECK(support::has(error.what(), "rank 0 of 3: did not join before the deadline, after 0 rounds"));
    auto const again = support::thrown<cuota::rank_lost_error>([&] { (void)here.min(1, "q"); });
    CHECK(again.rank() == 0);
    rank_consensus late = group.join(0);
    CHECK(support::thrown<cuota::rank_lost_error>([&] { (void)late.min(1, "q"); }).rank() == 0);
}

TEST_CASE("ranks with different questions all receive the error, and stay in step",
          "[training][thread_group]") {
    thread_group const group{3, 1h};
    auto const ends = run_ranks(group, [&](std::size_t rank, rank_consensus& mine, rank_end& end) {
        try {
            (void)mine.min(1, rank == 1 ? "part" : "batch");
        } catch (cuota::usage_error const& error) { end.text = error.what(); }
        end.rounds = mine.min(rank + 5, "batch");
    });
    for (rank_end const& end : ends) {
        CHECK(end.rounds == 5);
        CHECK(support::has(end.text, "rank 1 is in \"part\" (round 0), others in \"batch\" (round 0)"));
    }
}

TEST_CASE("only the ranks of a thread_group can join, each once", "[training][thread_group]") {
    CHECK_THROWS_AS(thread_group{0}, cuota::usage_error);
    CHECK_THROWS_AS((thread_group{2, 0s}), cuota::usage_error);
    thread_group const group{2};
    CHECK_THROWS_AS(group.join(2), cuota::usage_error);
    rank_consensus const first = group.join(0);
    CHECK_THROWS_AS(group.join(0), cuota::usage_error);
    CHECK(first.ranks() == 2);
    rank_consensus second = group.join(1);
    { rank_consensus const over = std::move(second); }
    CHECK_THROWS_AS(group.join(1), cuota::usage_error);  // a rank that has left cannot join again
}

}  // namespace
