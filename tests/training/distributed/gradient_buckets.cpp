// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/gradient_buckets.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/training/distributed/collective_step.hpp>

#include "support/catch.hpp"
#include "support/gradient_set.hpp"
#include "support/rank_threads.hpp"
#include "support/sink.hpp"
#include "support/thread_sums.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::bucket_options;
using cuota::rank_consensus;
using support::ended_rank;
using support::gradient_set;
using support::thread_sums;
using buckets = cuota::gradient_buckets<thread_sums>;
using namespace std::chrono_literals;

static_assert(cuota::all_reduce_backend<thread_sums>);
static_assert(!std::is_copy_constructible_v<buckets>);

std::vector<std::size_t> const counts{5, 1000, 1, 300, 64};

// Sums gradients on several ranks; each runs its steps in `backward(rank, rank_consensus, buckets, gradients)`.
template <class Backward>
std::vector<ended_rank> sum_on_ranks(std::size_t ranks, bucket_options const& options, Backward backward) {
    auto const board = std::make_shared<support::sum_board>(ranks);
    return support::run_rank_threads(ranks, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank& end) {
        buckets sums{thread_sums{board, r, 1h}, counts, options};
        gradient_set gradients{r, counts};
        backward(r, mine, sums, gradients);
        end.gradients = gradients.values();
    });
}
void make_all(buckets& sums, gradient_set& gradients, std::size_t step = 0) {
    for (std::size_t g = 0; g != gradients.size(); ++g) {
        gradients.make(g, step);
        sums.ready(g, gradients[g]);
    }
}

TEST_CASE("gradients are summed over all ranks bit for bit, for any size and number of buckets",
          "[training][gradient_buckets]") {
    for (std::size_t const bytes : {4U, 100U, 1024U, 1U << 20U})
        for (std::size_t slots = 1; slots != 4; ++slots) {
            INFO(slots << " slots of " << bytes << " bytes");
            if (bytes == 4 && slots != 3) continue;  // 1370 buckets
            auto const ends =
                sum_on_ranks(3, {.bytes = bytes, .slots = slots},
                             [](std::size_t, rank_consensus& mine, buckets& sums, gradient_set& gradients) {
                                 sums.reduce(mine, [&] { make_all(sums, gradients); });
                             });
            for (ended_rank const& end : ends) {
                CHECK(end.text.empty());
                CHECK(end.gradients == support::sums_of_ranks(3, counts));
            }
        }
}

TEST_CASE("the order in which gradients become ready can differ between ranks and changes no sum",
          "[training][gradient_buckets]") {
    auto const ends = sum_on_ranks(
        4, {.bytes = 256}, [](std::size_t r, rank_consensus& mine, buckets& sums, gradient_set& gradients) {
            std::vector<std::size_t> order(counts.size());
            std::iota(order.begin(), order.end(), 0U);
            std::rotate(order.begin(), order.begin() + std::ptrdiff_t(r), order.end());
            if (r % 2 == 1) std::reverse(order.begin(), order.end());
            sums.reduce(mine, [&] {
                for (std::size_t const g : order) {
                    gradients.make(g);
                    sums.ready(g, gradients[g]);
                }
            });
        });
    for (ended_rank const& end : ends) CHECK(end.gradients == support::sums_of_ranks(4, counts));
}

TEST_CASE("buckets can be used for many steps", "[training][gradient_buckets]") {
    auto const ends = sum_on_ranks(
        2, {.bytes = 512}, [](std::size_t, rank_consensus& mine, buckets& sums, gradient_set& gradients) {
            for (std::size_t step = 0; step != 5; ++step) {
                sums.reduce(mine, [&] { make_all(sums, gradients, step); });
                support::claim(gradients.values() == support::sums_of_ranks(2, counts, step),
                               "each step has its sums");
            }
        });
    for (ended_rank const& end : ends) CHECK(end.text.empty());
}

TEST_CASE("a bucket is summed while the backward run continues", "[training][gradient_buckets]") {
    // Each rank continues only when the sum of the first bucket has begun on all ranks.
    auto const board = std::make_shared<support::sum_board>(2);
    auto const ends =
        support::run_rank_threads(2, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank& end) {
            buckets sums{thread_sums{board, r, 1h}, counts, {.bytes = 20}};
            gradient_set gradients{r, counts};
            sums.reduce(mine, [&] {
                gradients.make(0);
                sums.ready(0, gradients[0]);
                while (board->missing(0) != 2) sums.progress();
                for (std::size_t g = 1; g != gradients.size(); ++g) {
                    gradients.make(g);
                    sums.ready(g, gradients[g]);
                }
            });
            end.gradients = gradients.values();
        });
    for (ended_rank const& end : ends) CHECK(end.gradients == support::sums_of_ranks(2, counts));
}

TEST_CASE("a refusal in one rank's backward run is thrown on all, and the next step is correct",
          "[training][gradient_buckets]") {
    for (std::size_t given = 0; given != counts.size(); ++given)
        for (std::size_t refused = 0; refused != 2; ++refused) {
            INFO("rank " << refused << ", after " << given << " gradients");
            auto const ends = sum_on_ranks(
                3, {.bytes = 512},
                [&](std::size_t r, rank_consensus& mine, buckets& sums, gradient_set& gradients) {
                    cuota::budget none{"none", 8};
                    std::string why;
                    try {
                        sums.reduce(mine, [&] {
                            for (std::size_t g = 0; g != gradients.size(); ++g) {
                                if (r == refused && g == given) (void)none.reserve(100);
                                gradients.make(g);
                                sums.ready(g, gradients[g]);
                            }
                        });
                    } catch (cuota::budget_exceeded const&) {
                        why = "its own";
                    } catch (cuota::out_of_memory const& error) { why = error.what(); }
                    support::claim(
                        r == refused
                            ? why == "its own"
                            : support::has(why, "rank " + std::to_string(refused) +
                                                    " was refused memory for the gradients of a step"),
                        "all are refused, and told whose it is: " + why);
                    sums.reduce(mine, [&] { make_all(sums, gradients, 1); });
                });
            for (ended_rank const& end : ends) {
                CHECK(end.text.empty());
                CHECK(end.gradients == support::sums_of_ranks(3, counts, 1));
            }
        }
}

TEST_CASE("a rank whose backward run fails throws its own error, and is named on the others",
          "[training][gradient_buckets]") {
    auto const ends = sum_on_ranks(
        3, {.bytes = 512}, [](std::size_t r, rank_consensus& mine, buckets& sums, gradient_set& gradients) {
            sums.reduce(mine, [&] {
                gradients.make(0);
                sums.ready(0, gradients[0]);
                if (r == 2) throw std::runtime_error{"its own"};
                for (std::size_t g = 1; g != gradients.size(); ++g) sums.ready(g, gradients[g]);
            });
        });
    CHECK(ends[2].text == "its own");
    for (std::size_t r = 0; r != 2; ++r)
        CHECK(support::has(ends[r].text, "rank 2 of 3: failed at: the gradients of a step"));
}

TEST_CASE("a rank that does not take part in a sum is named after the deadline",
          "[training][gradient_buckets]") {
    auto const board = std::make_shared<support::sum_board>(3);
    auto const ends = support::run_rank_threads(3, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank&) {
        if (r == 1) return;
        buckets sums{thread_sums{board, r, 20ms}, counts, {.bytes = 512}};
        gradient_set gradients{r, counts};
        try {
            sums.reduce(mine, [&] { make_all(sums, gradients); });
        } catch (cuota::rank_lost_error const&) {
            (void)support::thrown<cuota::usage_error>(
                [&] { sums.reduce(mine, [] {}); });  // the link has failed permanently
            (void)support::thrown<cuota::usage_error>([&] { sums.progress(); });
            throw;
        }
    });
    CHECK(ends[1].text.empty());
    for (std::size_t const r : {0U, 2U}) CHECK(support::has(ends[r].text, "rank_lost_error: rank 1 of 3"));
}

TEST_CASE("wrong use of the gradients in a step is refused, and the ranks stay in step",
          "[training][gradient_buckets]") {
    auto const board = std::make_shared<support::sum_board>(1);
    rank_consensus alone;
    buckets sums{thread_sums{board, 0, 1h}, counts, {.bytes = 512}};
    gradient_set gradients{0, counts};
    auto const why = [&](auto step) {
        return std::string{support::thrown<cuota::usage_error>([&] { sums.reduce(alone, step); }).what()};
    };
    CHECK(support::has(why([] {}), "gradient 0 of 5 was never ready"));
    CHECK(support::has(why([&] {
                           sums.ready(0, gradients[0]);
                           sums.ready(0, gradients[0]);
                       }),
                       "gradient 0 is ready twice"));
    CHECK(support::has(why([&] { sums.ready(5, gradients[0]); }),
                       "gradient 5 is out of range: the number of gradients is 5"));
    CHECK(support::has(why([&] { sums.ready(1, gradients[0]); }),
                       "gradient 1 has 5 elements, but was declared with 1'000"));
    CHECK_THROWS_AS(sums.ready(0, gradients[0]), cuota::usage_error);
    sums.reduce(alone, [&] { make_all(sums, gradients); });
    CHECK(gradients.values() == support::sums_of_ranks(1, counts));
    CHECK_THROWS_AS((buckets{thread_sums{board, 0, 1h}, counts, {.bytes = 3}}), cuota::usage_error);
    CHECK_THROWS_AS((buckets{thread_sums{board, 0, 1h}, counts, {.slots = 0}}), cuota::usage_error);
}

TEST_CASE("slots are charged exactly and at construction, independently of the network's size",
          "[training][gradient_buckets]") {
    cuota::budget const pinned{"pinned", 2048};
    auto const board = std::make_shared<support::sum_board>(1);
    rank_consensus alone;
    {
        buckets sums{thread_sums{board, 0, 1h},
                     counts,
                     {.bytes = 1024, .slots = 2, .memory = cuota::budgeted<cuota::pinned_memory>{pinned}}};
        CHECK(sums.bytes() == 2048);
        CHECK(pinned.info().held == 2048);
        gradient_set gradients{0, counts};
        sums.reduce(alone, [&] { make_all(sums, gradients); });
        CHECK(pinned.info().peak == 2048);
    }
    CHECK(pinned.info().held == 0);
    cuota::budget const less{"less", 2047};
    CHECK_THROWS_AS(
        (buckets{thread_sums{board, 0, 1h},
                 counts,
                 {.bytes = 1024, .slots = 2, .memory = cuota::budgeted<cuota::pinned_memory>{less}}}),
        cuota::budget_exceeded);
    CHECK(less.info().held == 0);
}

TEST_CASE("buckets that do not fit on one rank are constructed on no rank", "[training][gradient_buckets]") {
    auto const board = std::make_shared<support::sum_board>(3);
    auto const ends = support::run_rank_threads(3, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank&) {
        cuota::budget const pinned{"pinned", r == 1 ? 10U : 1U << 20U};
        try {
            (void)cuota::all_or_none(mine, "gradient buckets", [&] {
                return std::make_unique<buckets>(
                    thread_sums{board, r, 1h}, counts,
                    bucket_options{.bytes = 1024, .memory = cuota::budgeted<cuota::pinned_memory>{pinned}});
            });
        } catch (...) {
            support::claim(pinned.info().held == 0, "what fitted is given back");
            throw;
        }
    });
    CHECK(support::has(ends[1].text, "pinned"));
    for (std::size_t const r : {0U, 2U})
        CHECK(support::has(ends[r].text, "rank 1 was refused memory for gradient buckets"));
}

}  // namespace
