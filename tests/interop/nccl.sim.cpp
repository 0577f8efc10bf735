// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/nccl.hpp>

#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/training/distributed/gradient_buckets.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/fake_nccl.hpp"
#include "support/gradient_set.hpp"
#include "support/machine.hpp"
#include "support/rank_threads.hpp"
#include "support/sanitizer.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::nccl_all_reduce;
using cuota::rank_consensus;
using support::ended_rank;
using support::gradient_set;
using buckets = cuota::gradient_buckets<nccl_all_reduce>;
using namespace std::chrono_literals;

std::vector<std::size_t> const counts{5, 1000, 1, 300, 64};

void make_all(buckets& sums, gradient_set& gradients, std::size_t step = 0, std::size_t first = 0) {
    for (std::size_t g = first; g != gradients.size(); ++g) {
        gradients.make(g, step);
        sums.ready(g, gradients[g]);
    }
}
bool says(std::vector<ended_rank> const& ends, std::size_t rank, std::string const& part) {
    return support::has(ends[rank].text, part);
}

TEST_CASE("gradients are summed from device to device, in slots that are charged to the device's budget",
          "[interop][nccl]") {
    support::machine const machine;
    int const before = fake_nccl.sums;
    for (std::size_t slots = 1; slots != 3; ++slots) {
        auto const ends =
            support::run_rank_threads(3, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank& end) {
                cuota::budget device{"device", 1U << 20U};
                {
                    buckets sums{nccl_all_reduce{mine, 1h},
                                 counts,
                                 {.bytes = 512,
                                  .slots = slots,
                                  .memory = cuota::budgeted<cuota::device_memory>{device}}};
                    support::claim(device.held() >= slots * 512, "the slots are charged");
                    gradient_set gradients{r, counts};
                    for (std::size_t step = 0; step != 3; ++step)
                        sums.reduce(mine, [&] { make_all(sums, gradients, step); });
                    end.gradients = gradients.values();
                }
                support::claim(device.held() == 0, "the slots are given back");
            });
        for (ended_rank const& end : ends) {
            CHECK(end.text.empty());
            CHECK(end.gradients == support::sums_of_ranks(3, counts, 2));
        }
    }
    CHECK(fake_nccl.alive == 0);
    CHECK(fake_nccl.sums == before + 2 * 3 * 11);
    CHECK(fake_nccl.aborted == 0);
}

TEST_CASE("a refusal on one rank is a refusal on all, and the next step on the device is right",
          "[interop][nccl]") {
    support::machine const machine;
    auto const ends =
        support::run_rank_threads(3, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank& end) {
            buckets sums{nccl_all_reduce{mine, 1h}, counts, {.bytes = 512, .memory = cuota::device_memory{}}};
            gradient_set gradients{r, counts};
            cuota::budget none{"none", 8};
            std::string const why = support::thrown<cuota::out_of_memory>([&] {
                                        sums.reduce(mine, [&] {
                                            gradients.make(0);
                                            sums.ready(0, gradients[0]);
                                            if (r == 1) (void)none.reserve(100);
                                            make_all(sums, gradients, 0, 1);
                                        });
                                    }).what();
            support::claim(
                support::has(why, r == 1 ? "none" : "rank 1 was refused memory for the gradients of a step"),
                why);
            sums.reduce(mine, [&] { make_all(sums, gradients, 1); });
            end.gradients = gradients.values();
        });
    for (ended_rank const& end : ends) {
        INFO(end.text);
        CHECK(end.gradients == support::sums_of_ranks(3, counts, 1));
    }
    CHECK(fake_nccl.alive == 0);
}

TEST_CASE("a rank that has not joined a sum ends it at the deadline, and the rank_consensus names it",
          "[interop][nccl]") {
    support::machine const machine;
    int const aborted = fake_nccl.aborted;
    std::latch over{2};
    auto const ends = support::run_rank_threads(3, 6s, [&](std::size_t r, rank_consensus& mine, ended_rank&) {
        buckets sums{nccl_all_reduce{mine, r == 2 ? std::chrono::nanoseconds{1h} : 1500ms},
                     counts,
                     {.bytes = 512, .memory = cuota::device_memory{}}};
        gradient_set gradients{r, counts};
        if (r == 2) {
            over.wait();
            return;
        }
        try {
            sums.reduce(mine, [&] { make_all(sums, gradients); });
        } catch (...) {
            over.count_down();
            throw;
        }
    });
    for (std::size_t r = 0; r != 2; ++r) {
        INFO(ends[r].text);
        CHECK(says(ends, r, "rank_lost_error: rank 2 of 3: timed out"));
    }
    CHECK(fake_nccl.aborted == aborted + 2);
    CHECK(fake_nccl.alive == 0);
}

TEST_CASE("a later error of NCCL has a type and NCCL's text, and ends the step on all ranks",
          "[interop][nccl]") {
    support::machine const machine;
    fake_nccl.fails_rank = 1;
    auto const ends = support::run_rank_threads(2, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank&) {
        buckets sums{nccl_all_reduce{mine, r == 0 ? 50ms : 1h},
                     counts,
                     {.bytes = 512, .memory = cuota::device_memory{}}};
        gradient_set gradients{r, counts};
        sums.reduce(mine, [&] { make_all(sums, gradients); });
    });
    fake_nccl.fails_rank = -1;
    CHECK((says(ends, 1,
                "ncclAllReduce failed: remote process exited or there was a network error: a peer is "
                "unreachable") ||
           says(ends, 1, "rank_lost_error: rank 0")));
    CHECK(!ends[0].text.empty());
    CHECK(fake_nccl.alive == 0);
}

TEST_CASE("a communicator without all of its ranks is refused, and a failure to create its id is reported",
          "[interop][nccl]") {
    support::machine const machine;
    fake_nccl.id_error = ncclSystemError;
    auto const none = support::run_rank_threads(2, 1h, [&](std::size_t, rank_consensus& mine, ended_rank&) {
        nccl_all_reduce const sums{mine, 1h};
    });
    fake_nccl.id_error = ncclSuccess;
    CHECK(says(none, 0, "ncclGetUniqueId failed: an error of NCCL"));
    CHECK(says(none, 1, "rank 0 of 2: failed at: NCCL unique id"));
    auto const late = support::run_rank_threads(2, 1h, [&](std::size_t r, rank_consensus& mine, ended_rank&) {
        if (r == 0) {
            nccl_all_reduce const sums{mine, 20ms};
            return;
        }
        for (int question = 0; question != 17; ++question)  // takes part, but never calls NCCL
            (void)mine.all_gather(question == 0 ? 2 : 0, "NCCL unique id");
    });
    CHECK(says(late, 0, "ncclCommInitRankConfig failed: timed out (rank 0 waited): at least one of 2 ranks"));
    CHECK(late[1].text.empty());
    CHECK(fake_nccl.alive == 0);
    rank_consensus alone;
    CHECK_THROWS_AS((nccl_all_reduce{alone, 0s}), cuota::usage_error);
}

TEST_CASE("a communicator that cannot be finalized is aborted, and the error is reported",
          "[interop][nccl]") {
    support::machine machine;
    int const aborted = fake_nccl.aborted;
    rank_consensus alone;
    {
        nccl_all_reduce const sums{alone, 1h};
        fake_nccl.finalize_error = ncclSystemError;
    }
    fake_nccl.finalize_error = ncclSuccess;
    CHECK(fake_nccl.aborted == aborted + 1);
    CHECK(fake_nccl.alive == 0);
    std::vector<std::string> const reports = machine.errors.take();
    REQUIRE(reports.size() == 1);
    CHECK(support::has(reports[0], "ncclCommFinalize failed: an error of NCCL"));
}

}  // namespace

TEST_CASE("a moved-from nccl_all_reduce refuses every use by name", "[interop][nccl][moved_from]") {
    support::machine const machine;
    rank_consensus alone;
    nccl_all_reduce first{alone, 1h};
    nccl_all_reduce const second{std::move(first)};
    CHECK(second.ranks() == 1);
    CHECK_THROWS_AS(first.ranks(), cuota::usage_error);
    CHECK_THROWS_AS(first.test(0), cuota::usage_error);
    CHECK_THROWS_AS(first.check(), cuota::usage_error);
    first = nccl_all_reduce{alone, 1h};
    CHECK(first.ranks() == 1);
}

TEST_CASE("in a child, NCCL sums are destroyed without NCCL calls, and requests throw usage_error",
          "[interop][nccl][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const machine;
    rank_consensus alone;
    std::optional<buckets> sums{std::in_place, nccl_all_reduce{alone, 1h}, counts,
                                cuota::bucket_options{.memory = cuota::device_memory{}}};
    std::optional<nccl_all_reduce> link{std::in_place, alone, 1h};
    cuota::stream const s;
    cuota::device_buffer<float> x{100, 1.0F, s, cuota::device_memory{}};
    auto const floats = x.write(s);
    (void)link->start({floats.span().data(), 100}, {}, nullptr, s);
    int const alive = fake_nccl.alive;
    int const aborted = fake_nccl.aborted;
    CHECK(alive == 2);
    int const ends = support::status_of_ends_in_child([&] {
        sums.reset();
        link.reset();
        if (fake_nccl.alive != alive || fake_nccl.aborted != aborted) ::_exit(4);
    });
    CHECK(ends == 0);
    int const requests = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        rank_consensus own;
        ask.refuses("gradient_buckets::reduce", [&] { sums->reduce(own, [] {}); });
        ask.refuses("nccl_all_reduce::test", [&] { (void)link->test(0); });
        ask.refuses("nccl_all_reduce::check", [&] { link->check(); });
        ask.refuses("nccl_all_reduce::start", [&] { (void)link->start({}, {}, nullptr, s); });
        ask.refuses("nccl_all_reduce, made anew", [&] { nccl_all_reduce const fresh{own, 1h}; });
        ask.expect("no communicator is aborted", fake_nccl.aborted == aborted);
    });
    CHECK(requests == 0);
    while (!link->test(0)) link->check();
}

TEST_CASE("NCCL that the parent used before CUDA is not used by a child", "[interop][nccl][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("NCCL that the parent used before CUDA is not used by a child")) return;
    rank_consensus alone;
    std::optional<nccl_all_reduce> link{std::in_place, alone, 1h};
    int const status = support::status_of_child([&] {
        link.reset();
        ::_exit(fake_nccl.alive == 1 ? 0 : 1);
    });
    ::_exit(status == 0 ? 0 : 1);
}
