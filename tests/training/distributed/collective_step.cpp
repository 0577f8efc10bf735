// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/collective_step.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/guard/budget.hpp>

#include "support/catch.hpp"
#include "support/rank_threads.hpp"
#include "support/sink.hpp"

namespace {

using cuota::all_or_none;
using cuota::rank_consensus;
using namespace std::chrono_literals;

std::vector<std::string> on_ranks(std::size_t ranks,
                                  std::function<std::string(std::size_t, rank_consensus&)> const& run) {
    std::vector<std::string> texts;
    for (auto const &end : support::run_rank_threads(
             ranks, 1h, [&](std::size_t r, rank_consensus&mine, support::ended_rank&mine_end) {
                 mine_end.text = run(r, mine);
             }))
        texts.push_back(end.text);
    return texts;
}

TEST_CASE("if all ranks succeed, each rank has its own result", "[training][rank_step]") {
    auto const ends = on_ranks(3, [](std::size_t r, rank_consensus& mine) {
        all_or_none(mine, "nothing", [] {});
        return std::to_string(all_or_none(mine, "a number", [&] { return 10 * r; }));
    });
    CHECK(ends == std::vector<std::string>{"0", "10", "20"});
}

TEST_CASE("a refusal on one rank is thrown on all, names that rank, and keeps the ranks in step",
          "[training][rank_step]") {
    for (std::size_t refused = 0; refused != 3; ++refused) {
        auto const ends = on_ranks(3, [&](std::size_t r, rank_consensus& mine) {
            cuota::budget small{"small", r == refused ? 10U : 100U};
            std::string text = "nothing was thrown";
            try {
                (void)all_or_none(mine, "the step's memory", [&] { return small.reserve(50); });
            } catch (cuota::budget_exceeded const& error) {
                text = error.what();
                support::claim(r == refused, "one rank alone has a refusal of its own");
            } catch (cuota::out_of_memory const& error) { text = error.what(); }
            support::claim(small.info().held == 0, "what fitted is given back as well");
            support::claim(mine.rounds() == 1, "it took one question");
            support::claim(mine.min(7, "the next") == 7, "the ranks are in step");
            return text;
        });
        for (std::size_t r = 0; r != 3; ++r) {
            INFO(ends[r]);
            CHECK(support::has(ends[r], r == refused ? "small"
                                                     : "rank " + std::to_string(refused) +
                                                           " was refused memory for the step's memory"));
        }
    }
}

TEST_CASE("a failure is thrown as the rank's own error, and as rank_lost_error on the others",
          "[training][rank_step]") {
    auto const ends = on_ranks(3, [](std::size_t r, rank_consensus& mine) {
        all_or_none(mine, "the next batch", [&] {
            if (r == 1) throw std::runtime_error{"no such file"};
        });
        return std::string{"went on"};
    });
    CHECK(ends[1] == "no such file");
    for (std::size_t const r : {0U, 2U})
        CHECK(support::has(ends[r], "rank 1 of 3: failed at: the next batch"));
}

TEST_CASE("ragged parts of a batch have weights that sum to one, in the order of ranks",
          "[training][rank_step]") {
    std::vector<std::size_t> const counts{5, 0, 4, 7};
    std::vector<cuota::micro_batch> parts(counts.size());
    (void)on_ranks(counts.size(), [&](std::size_t r, rank_consensus& mine) {
        parts[r] = cuota::local_share(mine, counts[r]);
        return std::string{};
    });
    std::size_t first = 0;
    for (std::size_t r = 0; r != counts.size(); ++r) {
        CHECK(parts[r] == cuota::micro_batch{first, counts[r], 16});
        first += counts[r];
    }
    CHECK(parts[1].weight() == 0);
    CHECK(parts[2].weight() == 0.25);
}

TEST_CASE("a step without samples is refused on all ranks", "[training][rank_step]") {
    for (std::string const& end : on_ranks(2, [](std::size_t, rank_consensus& mine) {
             (void)cuota::local_share(mine, 0);
             return std::string{"went on"};
         }))
        CHECK(support::has(end, "no rank has a sample in this step"));
}

}  // namespace
