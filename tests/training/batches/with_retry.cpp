// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/batches/with_retry.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/training/distributed/thread_group.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::budget;
using cuota::micro_batch;
using cuota::retry_from;
using cuota::retry_options;
using cuota::retry_result;
using cuota::with_retry;
using namespace cuota::literals;

std::int64_t loss_of(std::size_t sample) {
    auto const i = static_cast<std::int64_t>(sample);
    return i * i * 7 - 40 * i + 3;
}

std::int64_t sum_of_losses(std::size_t first, std::size_t count) {
    std::int64_t sum = 0;
    for (std::size_t i = first; i != first + count; ++i) sum += loss_of(i);
    return sum;
}

// Adds to its gradient. The call number `refused_call` throws, before adding anything or after adding half.
struct adding_step {
    std::size_t refused_call;
    bool adds_before;
    std::int64_t gradient = 0;
    std::size_t calls = 0;

    void operator()(std::size_t first, std::size_t count) {
        bool const is_refused = calls++ == refused_call;
        if (is_refused && !adds_before) throw cuota::out_of_memory{{}};
        gradient += sum_of_losses(first, count / 2);
        if (is_refused) throw cuota::out_of_memory{{}};
        gradient += sum_of_losses(first + count / 2, count - count / 2);
    }
};

}  // namespace

TEST_CASE("a batch that fits is run once and as a whole", "[training][with_retry]") {
    std::vector<micro_batch> seen;
    std::size_t begun = 0;
    retry_result const how =
        with_retry(10, [&](micro_batch part) { seen.push_back(part); }, {.on_start = [&] { ++begun; }});
    CHECK(seen == std::vector<micro_batch>{{0, 10, 10}});
    CHECK(begun == 1);
    CHECK(how.part == 10);
    CHECK(how.parts == 1);
    CHECK(how.refusals == 0);
}

TEST_CASE("after a refusal at any part, the gradient equals the whole batch's bit for bit",
          "[training][with_retry]") {
    for (std::size_t n = 1; n != 20; ++n)
        for (std::size_t largest = 2; largest != 21; ++largest)
            for (std::size_t call = 0; call != n; ++call)
                for (bool const adds_before : {false, true}) {
                    adding_step step{call, adds_before};
                    retry_result how;
                    bool is_refused = false;
                    try {
                        how =
                            with_retry(n, step, {.largest = largest, .on_start = [&] { step.gradient = 0; }});
                    } catch (cuota::out_of_memory const&) { is_refused = true; }
                    INFO(n << " samples in parts of " << largest << ", call " << call << " refused");
                    REQUIRE(is_refused == (n == 1 && call == 0));
                    if (is_refused) continue;
                    REQUIRE(step.gradient == sum_of_losses(0, n));
                    bool const was_met = call < (n + largest - 1) / largest;
                    REQUIRE(how.refusals == std::size_t{was_met});
                    std::size_t const part = std::min(n, largest) / (was_met ? 2 : 1);
                    REQUIRE(how.part == part);
                    REQUIRE(how.parts == (n + part - 1) / part);
                }
}

TEST_CASE("parts are halved until they fit", "[training][with_retry]") {
    std::vector<std::pair<std::size_t, std::size_t>> run;
    retry_result const how = with_retry(100,
                                        [&](std::size_t first, std::size_t count) {
                                            if (count > 12) throw cuota::out_of_memory{{}};
                                            run.emplace_back(first, count);
                                        },
                                        {.on_start = [&] { run.clear(); }});
    CHECK(how.part == 12);
    CHECK(how.parts == 9);
    CHECK(how.refusals == 3);
    CHECK(run.front() == std::pair<std::size_t, std::size_t>{0, 12});
    CHECK(run.back() == std::pair<std::size_t, std::size_t>{96, 4});
}

TEST_CASE("with same_part, completed parts are kept and the refused part is split",
          "[training][with_retry]") {
    std::vector<std::pair<std::size_t, std::size_t>> run;
    std::size_t calls = 0;
    std::size_t begun = 0;
    retry_result const how =
        with_retry(10,
                   [&](std::size_t first, std::size_t count) {
                       if (++calls == 2) throw cuota::out_of_memory{{}};
                       run.emplace_back(first, count);
                   },
                   {.largest = 4, .from = retry_from::same_part, .on_start = [&] { ++begun; }});
    CHECK(run == std::vector<std::pair<std::size_t, std::size_t>>{{0, 4}, {4, 2}, {6, 2}, {8, 2}});
    CHECK(begun == 1);
    CHECK(how.part == 2);
    CHECK(how.parts == 4);
    CHECK(how.refusals == 1);
}

TEST_CASE("with same_part, the work of a step that adds before it is refused counts twice",
          "[training][with_retry]") {
    for (std::size_t call = 0; call != 3; ++call) {
        adding_step takes_first{call, false};
        with_retry(12, takes_first, {.largest = 4, .from = retry_from::same_part});
        CHECK(takes_first.gradient == sum_of_losses(0, 12));

        adding_step adds_first{call, true};
        with_retry(12, adds_first, {.largest = 4, .from = retry_from::same_part});
        // This is why same_part is not the default.
        CHECK(adds_first.gradient == sum_of_losses(0, 12) + sum_of_losses(4 * call, 2));
        CHECK(adds_first.gradient != sum_of_losses(0, 12));
    }
}

TEST_CASE("retry_from::start requires a function that sets gradients to zero", "[training][with_retry]") {
    std::size_t calls = 0;
    auto const step = [&](std::size_t, std::size_t) { ++calls; };
    auto const error = support::thrown<cuota::usage_error>([&] { with_retry(4, step, {}); });
    CHECK(support::has(error.what(), "retry_from::start requires options.on_start"));
    CHECK(support::has(error.what(), "with_retry.cpp:"));
    CHECK_THROWS_AS(with_retry(4, step, {.smallest = 0, .on_start = [] {}}), cuota::usage_error);
    CHECK(calls == 0);
}

TEST_CASE("a batch of no samples has no parts, and its gradients are zero", "[training][with_retry]") {
    std::size_t calls = 0;
    std::size_t begun = 0;
    retry_result const how =
        with_retry(0, [&](std::size_t, std::size_t) { ++calls; }, {.on_start = [&] { ++begun; }});
    CHECK(calls == 0);
    CHECK(begun == 1);
    CHECK(how.part == 0);
    CHECK(how.parts == 0);
}

TEST_CASE("the refusal of a smallest part is thrown with its facts", "[training][with_retry]") {
    budget account{"gpu", 1000};
    std::vector<std::size_t> sizes;
    auto const step = [&](std::size_t, std::size_t count) {
        sizes.push_back(count);
        account.charge(300 * count, "activations");
        account.refund(300 * count);
    };
    auto const refused = support::thrown<cuota::budget_exceeded>(
        [&] { with_retry(40, step, {.smallest = 4, .on_start = [] {}, .budget = account}); });
    CHECK(refused.info().requested == 1200);
    CHECK(sizes == std::vector<std::size_t>{40, 20, 10, 5, 4});
    CHECK(account.held() == 0);
    CHECK(with_retry(3, step, {.smallest = 4, .on_start = [] {}}).part == 3);  // a batch may be smaller
    CHECK_THROWS_AS(
        with_retry(7, [](std::size_t, std::size_t) { throw std::bad_alloc{}; }, {.on_start = [] {}}),
        std::bad_alloc);
    CHECK_THROWS_AS(with_retry(7, [](micro_batch) { throw std::runtime_error{"CUDA out of memory"}; },
                               {.on_start = [] {}}),
                    std::runtime_error);
}

namespace {

struct add_losses_kernel {
    cuota::device_span<std::int64_t> gradient;
    cuota::device_span<std::int64_t const> activations;
    CUOTA_KERNEL void operator()(std::size_t) const {
        for (std::size_t i = 0; i != activations.size(); ++i) gradient[0] += activations[i];
    }
};
struct compute_losses_kernel {
    cuota::device_span<std::int64_t> activations;
    std::size_t first;
    CUOTA_KERNEL void operator()(std::size_t at) const {
        auto const i = static_cast<std::int64_t>(first + at);
        activations[at] = i * i * 7 - 40 * i + 3;
    }
};
struct set_to_zero_kernel {
    cuota::device_span<std::int64_t> gradient;
    CUOTA_KERNEL void operator()(std::size_t i) const { gradient[i] = 0; }
};

// A forward run whose activations stay allocated, and a backward run that needs as much again after adding half.
struct device_step {
    cuota::stream_ref s;
    cuota::any_resource memory;
    cuota::device_buffer<std::int64_t>& gradient;

    void operator()(std::size_t first, std::size_t count) const {
        std::size_t const half = count / 2;
        add(first, half);
        cuota::device_buffer<std::int64_t> const for_backward{count * 128, s, memory, cuota::no_init,
                                                              "backward"};
        add(first + half, count - half);
    }
    void add(std::size_t first, std::size_t count) const {
        cuota::device_buffer<std::int64_t> activations{count, s, memory, cuota::no_init, "activations"};
        {
            auto const to = activations.write(s);
            cuota::for_each_index(s, count, compute_losses_kernel{to, first});
        }
        auto const from = std::as_const(activations).read(s);
        auto const sum = gradient.write(s);
        cuota::for_each_index(s, 1, add_losses_kernel{sum, from});
    }
    void set_to_zero() const {
        auto const sum = gradient.write(s);
        cuota::for_each_index(s, 1, set_to_zero_kernel{sum});
    }
};

}  // namespace

TEST_CASE("on the device, a batch that does not fit has the whole batch's gradient and leaks nothing",
          "[training][with_retry][gpu]") {
    cuota::stream const s;
    budget const account{"trainer", 256_KiB};
    cuota::budgeted const counted{account, cuota::device_memory{}};
    cuota::device_buffer<std::int64_t> gradient{1, s, counted};
    std::vector<std::size_t> held;
    auto const run = [&](std::size_t n, budget const& of, cuota::any_resource const& memory) {
        held.clear();
        device_step const step{s, memory, gradient};
        auto const begin = [&] {
            held.push_back(of.held());
            step.set_to_zero();
        };
        retry_result const how = with_retry(n, step, {.on_start = begin, .budget = of});
        CHECK(how.refusals >= 2);
        CHECK(how.part <= n / 4);
        CHECK(gradient.to_vector(s) == std::vector<std::int64_t>{sum_of_losses(0, n)});
    };
    run(1000, account, counted);
    CHECK(held.size() >= 3);
    for (std::size_t const bytes : held) CHECK(bytes == held.front());

    budget const pages{"pool", 8_MiB};  // pages that the pool caches are not in use
    cuota::scoped_pool const pool{pages};
    run(20'000, pages, pool);
}

TEST_CASE("a refused part that leaves memory allocated is reported with the holders of that memory",
          "[training][with_retry]") {
    cuota::stream const s;
    budget const account{"trainer", 64_KiB};
    cuota::budgeted const memory{account, cuota::device_memory{}};
    std::vector<cuota::device_buffer<char>> left;
    auto const error = support::thrown<cuota::usage_error>([&] {
        with_retry(64,
                   [&](std::size_t, std::size_t count) {
                       left.push_back({1024, s, memory, cuota::no_init, "kept"});
                       cuota::device_buffer<char> const much{count * 4096, s, memory, cuota::no_init};
                   },
                   {.on_start = [] {}, .budget = account});
    });
    CHECK(support::has(error.what(), "1.0 KiB more in use after a refused part of 64 than before it: kept"));
    CHECK(left.size() == 1);
}

namespace {

// Returns each rank's result or failure.
template <class Run>
std::vector<std::string> ends_of_retries(std::size_t ranks, Run run) {
    cuota::thread_group const group{ranks, std::chrono::hours{1}};
    std::vector<std::string> ends(ranks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank != ranks; ++rank)
        threads.emplace_back([&, rank] {
            try {
                cuota::rank_consensus mine = group.join(rank);
                ends[rank] = run(rank, mine);
            } catch (cuota::rank_lost_error const& gone) {
                ends[rank] = "gone: " + std::to_string(gone.rank());
            } catch (cuota::out_of_memory const& refused) {
                ends[rank] = refused.info().cause;
            } catch (std::exception const& error) { ends[rank] = error.what(); }
        });
    for (std::thread& t : threads) t.join();
    return ends;
}

}  // namespace

TEST_CASE("all ranks use parts of one size, whichever rank is refused", "[training][with_retry]") {
    for (auto const from : {retry_from::start, retry_from::same_part})
        for (std::size_t refused_rank = 0; refused_rank != 3; ++refused_rank) {
            auto const ends = ends_of_retries(3, [=](std::size_t rank, cuota::rank_consensus& mine) {
                std::int64_t gradient = 0;
                std::size_t const n = 20 + 17 * rank;  // batches of different sizes
                auto const step = [&](std::size_t first, std::size_t count) {
                    if (rank == refused_rank && count > 5) throw cuota::out_of_memory{{}};
                    gradient += sum_of_losses(first, count);
                };
                retry_result const how =
                    with_retry(n, step, {.from = from, .on_start = [&] { gradient = 0; }, .ranks = &mine});
                return std::to_string(how.part) + (gradient == sum_of_losses(0, n) ? " right" : " wrong");
            });
            // 54 is the largest batch: 27, 13, 6, 3.
            CHECK(ends == std::vector<std::string>(3, "3 right"));
        }
}

TEST_CASE("a rank that fails, or whose smallest part is refused, is named on the other ranks",
          "[training][with_retry]") {
    for (bool const is_refused : {true, false})
        for (std::size_t call = 0; call != 3; ++call) {
            auto const ends = ends_of_retries(3, [=](std::size_t rank, cuota::rank_consensus& mine) {
                std::size_t calls = 0;
                auto const step = [&](std::size_t, std::size_t) {
                    if (rank != 1 || calls++ < call) return;
                    cuota::refusal facts;
                    facts.cause = "its own";
                    if (is_refused) throw cuota::out_of_memory{facts};
                    throw std::runtime_error{"its own"};
                };
                with_retry(12, step, {.largest = 4, .smallest = 4, .on_start = [] {}, .ranks = &mine});
                return std::string{"through"};
            });
            std::string const others = is_refused ? "rank 1 was refused memory for a part of 4" : "gone: 1";
            CHECK(ends == std::vector<std::string>{others, "its own", others});
        }
}

TEST_CASE("with_retry passes each refusal to on_refusal", "[training][with_retry]") {
    std::vector<std::size_t> refused;
    auto const how =
        cuota::with_retry(8,
                          [](std::size_t, std::size_t count) {
                              if (count > 2) throw cuota::out_of_memory{{}};
                          },
                          {.on_start = [] {},
                           .on_refusal = [&](std::size_t samples,
                                             cuota::out_of_memory const&) { refused.push_back(samples); }});
    CHECK(how.part == 2);
    CHECK(refused == std::vector<std::size_t>{8, 4});
}
