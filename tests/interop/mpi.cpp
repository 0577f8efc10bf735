// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Run by mpirun as several processes that all execute the same cases. tests/examples/train_ranks.py tests ranks that are killed or stopped.
#include <cuota/interop/mpi.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/core/detail/threads/backoff.hpp>
#include <cuota/training/distributed/collective_step.hpp>
#include <cuota/training/distributed/gradient_buckets.hpp>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/gradient_set.hpp"
#include "support/rank_threads.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

// Calls of MPI that cuota makes: whatever it asks for, it first asks whether MPI is over.
static int calls_of_mpi = 0;
extern "C" int MPI_Finalized(int* flag) {
    ++calls_of_mpi;
    return PMPI_Finalized(flag);
}

namespace {

using cuota::mpi_all_reduce;
using cuota::mpi_group;
using cuota::rank_consensus;
using namespace std::chrono_literals;

static_assert(cuota::all_reduce_backend<mpi_all_reduce>);
static_assert(!std::is_copy_constructible_v<mpi_all_reduce>);

// Longer than the ranks are ever apart here, even on a busy machine.
constexpr auto some_seconds = 6s;

struct mpi_program {
    mpi_program() {
        int level = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    }
    mpi_program(mpi_program const&) = delete;
    mpi_program& operator=(mpi_program const&) = delete;
    ~mpi_program() { MPI_Finalize(); }
    int rank = 0;
    int ranks = 0;
};
mpi_program const program;

std::size_t me() { return std::size_t(program.rank); }
std::size_t all_of_us() { return std::size_t(program.ranks); }
// Waits without a processor: a rank is alone at the barrier for as long as the others wait for a deadline.
void meet() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    int have_met = 0;
    for (cuota::detail::backoff pause;; pause()) {
        MPI_Test(&request, &have_met, MPI_STATUS_IGNORE);
        if (have_met != 0) return;
    }
}

// Returns the error text of `step` about a lost rank.
template <class Step>
std::string why_gone(std::size_t rank, Step step) {
    auto const error = support::thrown<cuota::rank_lost_error>(step);
    CHECK(error.rank() == rank);
    return error.what();
}

TEST_CASE("mpirun runs this program as four processes", "[interop][mpi]") { REQUIRE(all_of_us() == 4); }

TEST_CASE("processes exchange values in rounds", "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, 1h};
    CHECK(group.rank() == me());
    CHECK(group.ranks() == all_of_us());
    CHECK(group.shard().rank == me());
    CHECK(group.shard().world_size == all_of_us());
    {
        rank_consensus mine = group.join();
        bool is_right = true;
        for (std::uint64_t round = 0; round != 200; ++round) {
            auto const all = mine.all_gather(me() * 1000 + round, "v");
            for (std::size_t i = 0; i != all.size(); ++i) is_right = is_right && all[i] == i * 1000 + round;
        }
        CHECK(is_right);
        CHECK(mine.rounds() == 200);
    }
    group.close();
    CHECK_THROWS_AS(group.close(), cuota::usage_error);
}

TEST_CASE("a rank that returns or throws is named to all other ranks", "[interop][mpi]") {
    for (std::size_t gone = 0; gone != all_of_us(); ++gone)
        for (bool const by_exception : {false, true}) {
            INFO("rank " << gone << (by_exception ? " fails" : " returns"));
            mpi_group const group{MPI_COMM_WORLD, 1h};
            std::string text;
            try {
                rank_consensus mine = group.join();
                CHECK(mine.max(me(), "which") + 1 == all_of_us());
                if (me() == gone && by_exception) throw std::runtime_error{"its own"};
                if (me() != gone) {
                    text = why_gone(gone, [&] { (void)mine.min(1, "q"); });
                    text += why_gone(gone, [&] { (void)mine.min(1, "q"); });  // stays unusable
                }
            } catch (std::runtime_error const& error) { CHECK(std::string{error.what()} == "its own"); }
            if (me() != gone)
                CHECK(support::has(text, by_exception ? "destroyed by an exception"
                                                      : "its rank_consensus was destroyed"));
        }
}

TEST_CASE("a rank that leaves ends the sums of the others", "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, 1h};
    auto const memory = std::make_shared<std::vector<float>>(5000, 1.0f);
    bool has_begun = false;
    {
        rank_consensus mine = group.join();
        if (me() != 1) {
            mpi_all_reduce sums{group};
            std::span<float> const floats{*memory};
            std::size_t const count = 1000;
            (void)why_gone(1, [&] {
                (void)sums.start(floats.first(count), floats.subspan(count), memory, cudaStreamLegacy);
                has_begun = true;
                for (;;) {
                    if (sums.test(0)) throw std::logic_error{"a sum without a rank"};
                    sums.check();
                }
            });
        }
    }
    CHECK((memory.use_count() > 1) == has_begun);  // memory that MPI may still write is kept forever
}

TEST_CASE("a rank that is missing at the deadline is named, and learns of it when it arrives",
          "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, some_seconds};
    rank_consensus mine = group.join();
    (void)mine.min(1, "q");
    if (me() != 2) {
        auto const text = why_gone(2, [&] { (void)mine.min(1, "q"); });
        CHECK(support::has(text, "rank 2 of 4: timed out, after 1 round"));
    }
    meet();
    if (me() == 2) (void)why_gone(2, [&] { (void)mine.min(1, "q"); });
}

TEST_CASE("a rank that has not joined a sum at the deadline is named", "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, some_seconds};
    rank_consensus const mine = group.join();
    if (me() != 3) {
        mpi_all_reduce sums{group};
        auto const memory = std::make_shared<std::vector<float>>(100'000);
        std::span<float> const floats{*memory};
        auto const number =
            sums.start(floats.first(40'000), floats.subspan(40'000), memory, cudaStreamLegacy);
        auto const text = why_gone(3, [&] {
            for (cuota::detail::backoff pause; !sums.test(number); pause()) sums.check();
        });
        CHECK(support::has(text, "did not contribute to a sum before the deadline"));
    }
    meet();
}

TEST_CASE("a group without all of its ranks is refused", "[interop][mpi]") {
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    if (me() != 1) {
        auto const error = support::thrown<cuota::mpi_error>([&] { mpi_group const group{own, 20ms}; });
        CHECK(support::has(error.what(), "at least one of 4 ranks did not construct its mpi_group"));
        CHECK(error.call() == "MPI_Comm_idup");
    }
    meet();
    if (me() == 1) CHECK_NOTHROW(mpi_group{own, 1h});  // MPI completes what the other ranks have abandoned
    meet();
}

// A rank's values in sum number n, and the sums over all ranks.
std::vector<float> part_of(std::size_t rank, std::size_t n, std::size_t count) {
    std::vector<float> all;
    for (std::size_t i = 0; i != count; ++i) all.push_back(support::part_of_sum(rank, n, i));
    return all;
}

TEST_CASE("sums have the same bits on all ranks, and equal additions in the order of ranks",
          "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, 1h};
    mpi_all_reduce sums{group};
    std::vector<std::size_t> const counts{1, 2, 3, 4, 5, 1000, 300'001, 17};
    struct open_sum {
        std::shared_ptr<std::vector<float>> memory;
        std::uint64_t number;
    };
    std::vector<open_sum> open;
    for (std::size_t n = 0; n != counts.size(); ++n) {  // all of them in flight together
        auto memory = std::make_shared<std::vector<float>>(part_of(me(), n, counts[n]));
        memory->resize(counts[n] + sums.scratch(counts[n]));
        std::span<float> const floats{*memory};
        open.push_back({memory, sums.start(floats.first(counts[n]), floats.subspan(counts[n]), memory,
                                           cudaStreamLegacy)});
    }
    std::vector<std::vector<float>> const right = support::sums_of_ranks(all_of_us(), counts);
    for (std::size_t n = counts.size(); n-- != 0;) {
        while (!sums.test(open[n].number)) sums.check();
        open[n].memory->resize(counts[n]);
        CHECK(*open[n].memory == right[n]);
        CHECK(open[n].memory.use_count() == 1);
    }
    group.close();
}

TEST_CASE("sums without enough scratch memory are refused", "[interop][mpi]") {
    mpi_group const group{MPI_COMM_WORLD, 1h};
    mpi_all_reduce sums{group};
    auto const memory = std::make_shared<std::vector<float>>(100);
    std::span<float> const floats{*memory};
    CHECK_THROWS_AS(sums.start(floats, floats.first(10), memory, cudaStreamLegacy), cuota::usage_error);
    group.close();
    CHECK_THROWS_AS(sums.start(floats.first(10), floats.subspan(10), memory, cudaStreamLegacy),
                    cuota::usage_error);
}

TEST_CASE("gradients are summed over processes, a refusal is on all ranks, and the next step is right",
          "[interop][mpi][gradient_buckets]") {
    std::vector<std::size_t> const counts{5, 40'000, 1, 300, 64};
    mpi_group const group{MPI_COMM_WORLD, 1h};
    rank_consensus mine = group.join();
    cuota::gradient_buckets sums{mpi_all_reduce{group}, counts, {.bytes = 16384, .slots = 3}};
    support::gradient_set gradients{me(), counts};
    for (std::size_t step = 0; step != 6; ++step) {
        std::size_t const refused = step % 2 == 1 ? step % 4 : all_of_us();
        cuota::budget none{"none", 8};
        auto const run = [&] {
            sums.reduce(mine, [&] {
                for (std::size_t g = 0; g != counts.size(); ++g) {
                    if (me() == refused && g == 2) (void)none.reserve(100);
                    gradients.make(g, step);
                    sums.ready(g, gradients[g]);
                }
            });
        };
        if (refused != all_of_us()) {
            auto const error = support::thrown<cuota::out_of_memory>(run);
            CHECK(support::has(
                error.what(), me() == refused ? "none" : "rank " + std::to_string(refused) + " was refused"));
            continue;
        }
        run();
        CHECK(gradients.values() == support::sums_of_ranks(all_of_us(), counts, step));
    }
}

TEST_CASE("an mpi_group refuses invalid arguments and invalid use", "[interop][mpi]") {
    CHECK_THROWS_AS((mpi_group{MPI_COMM_WORLD, 0s}), cuota::usage_error);
    mpi_group const group{MPI_COMM_WORLD, 1h};
    rank_consensus mine = group.join();
    CHECK_THROWS_AS(group.join(), cuota::usage_error);
    mpi_group const same = group;
    CHECK_THROWS_AS(same.join(), cuota::usage_error);
    std::string text;
    std::thread other{[&] {
        try {
            (void)mine.min(1, "q");
        } catch (cuota::usage_error const& error) { text = error.what(); }
    }};
    other.join();
    CHECK(support::has(text, "a thread other than the one that initialised it"));
    CHECK(mine.min(me() + 3, "q") == 3);  // that thread sent nothing
}

TEST_CASE("a gather of different lengths names the rank that differs", "[interop][mpi]") {
    auto const line =
        std::make_shared<cuota::detail::mpi_channel>(MPI_COMM_WORLD, 1h, cuota::source_location::current());
    std::vector<std::uint64_t> const mine(me() == 2 ? 3 : 2, me());
    std::vector<std::uint64_t> all(12);
    auto const error = support::thrown<cuota::usage_error>([&] { line->all_gather(mine, all); });
    CHECK(support::has(error.what(), me() == 2 ? "rank 0 sent 2" : "rank 2 sent 3"));
    line->close();
}

// Simulates rank 2 of a control channel: sends its words and its closing message, and receives nothing.
void say_and_take_nothing(cuota::detail::mpi_channel const& line, std::size_t words) {
    std::vector<std::uint64_t> const said(words + 1, 0);
    std::vector<std::uint64_t> const closed{2, 2, 1, 0, 0};
    for (auto const* message : {&said, &closed})
        for (int r = 0; r != program.ranks; ++r)
            if (r != 2) MPI_Send(message->data(), int(message->size()), MPI_UINT64_T, r, 0, line.native());
}
// Receives the remaining messages, so that MPI can finalize: the words, the closing and the abort message of each rank.
void take_all_from(cuota::detail::mpi_channel const& line, std::size_t words) {
    std::vector<std::uint64_t> taken(words + 1);
    for (int r = 0; r != program.ranks; ++r)
        for (int i = 0; i != 3 && r != 2; ++i)
            MPI_Recv(taken.data(), int(taken.size()), MPI_UINT64_T, r, 0, line.native(), MPI_STATUS_IGNORE);
}

TEST_CASE("a rank that closes the group without receiving its messages is named", "[interop][mpi]") {
    constexpr std::size_t words = 1U << 16U;  // more than MPI sends before the receiver posts its receive
    cuota::detail::mpi_channel line{MPI_COMM_WORLD, some_seconds, cuota::source_location::current()};
    std::vector<std::uint64_t> all(words * all_of_us());
    if (me() == 2) say_and_take_nothing(line, words);
    else {
        line.all_gather(std::span{all}.first(words), all);
        CHECK(support::has(why_gone(2, [&] { line.close(); }),
                           "did not receive its messages before the deadline"));
    }
    meet();
    if (me() == 2) take_all_from(line, words);
    meet();
}

TEST_CASE("an mpi_error has the code, the call and MPI's text", "[interop][mpi]") {
    auto const error = support::thrown<cuota::mpi_error>(
        [] { cuota::detail::mpi_check(MPI_ERR_COUNT, "MPI_Isend", cuota::source_location::current()); });
    CHECK(error.code() == MPI_ERR_COUNT);
    CHECK(error.call() == "MPI_Isend");
    CHECK(support::has(error.what(), "cuota::mpi_error: MPI_Isend failed: MPI_ERR_COUNT"));
    CHECK(support::has(error.what(), "mpi.cpp:"));
}

}  // namespace

TEST_CASE("a moved-from mpi_group remains valid, and a moved-from mpi_all_reduce refuses every use",
          "[interop][mpi][moved_from]") {
    mpi_group first{MPI_COMM_WORLD, 1h};
    mpi_group const second{std::move(first)};
    CHECK(first.ranks() == second.ranks());
    mpi_all_reduce sums{first};
    mpi_all_reduce const others{std::move(sums)};
    CHECK(others.ranks() == all_of_us());
    CHECK_THROWS_AS(sums.ranks(), cuota::usage_error);
    CHECK_THROWS_AS(sums.test(0), cuota::usage_error);
    CHECK_THROWS_AS(sums.check(), cuota::usage_error);
    sums = mpi_all_reduce{second};
    CHECK(sums.ranks() == all_of_us());
    second.close();
}

TEST_CASE("in a child, groups and sums are destroyed without MPI calls, and requests throw usage_error",
          "[interop][mpi][fork]") {
    mpi_group const group{MPI_COMM_WORLD, 1h};
    std::optional<rank_consensus> mine{group.join()};
    std::optional<mpi_all_reduce> sums{group};
    auto const memory = std::make_shared<std::vector<float>>(100'000);
    std::span<float> const floats{*memory};
    auto const number = sums->start(floats.first(40'000), floats.subspan(40'000), memory, cudaStreamLegacy);
    int const status = support::status_of_child([&] {
        calls_of_mpi = 0;
        int wrong = 0;
        auto const refuse = [&](auto f) { wrong += !support::is_refused_in_child(f); };
        refuse([&] { (void)mine->min(1, "q"); });
        refuse(
            [&] { (void)sums->start(floats.first(40), floats.subspan(40'000), memory, cudaStreamLegacy); });
        refuse([&] { (void)sums->test(number); });
        refuse([&] { sums->check(); });
        refuse([&] { (void)mpi_all_reduce{group}.test(0); });
        refuse([&] { group.close(); });
        refuse([&] { mpi_group const fresh{MPI_COMM_WORLD, 1s}; });
        sums.reset();
        mine.reset();
        ::_exit(calls_of_mpi != 0 ? 100 : wrong);
    });
    CHECK(status == 0);
    while (!sums->test(number)) sums->check();
    group.close();
}
