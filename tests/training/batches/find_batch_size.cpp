// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/batches/find_batch_size.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/distributed/thread_group.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::batch_search_options;
using cuota::batch_search_result;
using cuota::budget;
using cuota::find_batch_size;
using cuota::footprint;
using namespace cuota::literals;

// A step that fits if `fits` returns true; records its calls.
struct batch_oracle {
    std::function<bool(std::size_t)> fits;
    std::vector<cuota::batch_trial> asked{};

    void operator()(std::size_t batch) {
        bool const fitted = fits(batch);
        asked.push_back({batch, fitted});
        if (!fitted) throw cuota::out_of_memory{{}};
    }
    [[nodiscard]] bool has_repeats() const {
        std::vector<std::size_t> sizes;
        for (auto const& a : asked) sizes.push_back(a.batch);
        std::ranges::sort(sizes);
        return std::ranges::adjacent_find(sizes) != sizes.end();
    }
    [[nodiscard]] bool saw_fit(std::size_t batch) const {
        return std::ranges::any_of(asked, [&](auto const& a) { return a.batch == batch && a.fitted; });
    }
};

// Returns the documented maximum of tries.
std::size_t most_tries(batch_search_options const& o) {
    std::size_t const width = std::size_t(std::bit_width(o.largest / o.multiple_of));
    return 2 * width + 1 + (o.margin > 0 ? width : 0);
}

// Returns whether the search kept its guarantees with this oracle. `found` is empty if the smallest size was refused.
bool keeps_promises(batch_oracle& step, batch_search_options const& o,
                    std::optional<batch_search_result>& found) {
    std::size_t const least = (o.smallest + o.multiple_of - 1) / o.multiple_of * o.multiple_of;
    try {
        found = find_batch_size(step, o);
    } catch (cuota::out_of_memory const&) {
        found.reset();
        bool const least_was_refused =
            std::ranges::any_of(step.asked, [&](auto const& a) { return a.batch == least && !a.fitted; });
        return least_was_refused && !step.has_repeats() && step.asked.size() <= most_tries(o);
    }
    bool is_in_range = true;
    std::size_t largest = 0;
    std::size_t refused = 0;
    for (auto const& a : step.asked) {
        is_in_range = is_in_range && a.batch >= least && a.batch <= o.largest && a.batch % o.multiple_of == 0;
        if (a.fitted) largest = std::max(largest, a.batch);
        else if (refused == 0 || a.batch < refused) refused = a.batch;
    }
    return is_in_range && step.saw_fit(found->batch) && !step.has_repeats() &&
           step.asked.size() <= most_tries(o) && found->attempts() == step.asked.size() &&
           found->largest_fitted == largest && found->smallest_refused == refused &&
           found->is_monotone() == (refused == 0 || refused > largest) &&
           (o.margin > 0 || found->batch == largest || !found->is_monotone());
}

std::uint64_t mixed(std::uint64_t n) {
    n = (n ^ (n >> 31)) * 0x7fb5d329728ea185U;
    n = (n ^ (n >> 27)) * 0x81dadef4bc2dd44dU;
    return n ^ (n >> 33);
}

constexpr std::size_t capacities = 20'000;

std::vector<batch_search_options> const& search_ranges() {
    static std::vector<batch_search_options> const ranges{
        {.smallest = 1, .largest = 19'999},
        {.smallest = 1, .largest = 8192},
        {.smallest = 2, .largest = 30'000, .multiple_of = 8},
        {.smallest = 300, .largest = 600},
        {.smallest = 1, .largest = cuota::unlimited},
        {.smallest = 7, .largest = 25'000, .margin = 0.05},
        {.smallest = 1, .largest = 10'000, .multiple_of = 3, .margin = 0.5},
    };
    return ranges;
}

TEST_CASE("the search finds the largest size that fits at every capacity, and tries each size once",
          "[training][find_batch_size]") {
    std::size_t wrong = 0;
    std::size_t const stride = 2 * (capacities / support::rounds(capacities));
    for (std::size_t capacity = 0; capacity != capacities; ++capacity)
        for (std::size_t r = capacity % stride; r < search_ranges().size(); r += stride) {
            batch_search_options const& o = search_ranges()[r];
            batch_oracle step{[=](std::size_t batch) { return batch <= capacity; }};
            std::optional<batch_search_result> found;
            bool is_right = keeps_promises(step, o, found);
            std::size_t const best = std::min(capacity, o.largest) / o.multiple_of * o.multiple_of;
            if (best < o.smallest) is_right = is_right && !found;
            else {
                is_right = is_right && found && found->largest_fitted == best && found->is_monotone();
                auto const less = std::size_t(std::ceil(double(best) * o.margin));
                std::size_t const want = (best - less) / o.multiple_of * o.multiple_of;
                std::size_t const least = (o.smallest - 1) / o.multiple_of * o.multiple_of + o.multiple_of;
                is_right = is_right && found && found->batch == std::max(want, least);
            }
            wrong += !is_right;
            if (!is_right) {
                INFO("capacity " << capacity << ", range " << r);
                CHECK(is_right);
            }
            if (wrong > 5) FAIL("and more");
        }
    CHECK(wrong == 0);
}

TEST_CASE("if a step is not monotone or not repeatable, the search returns a size that it tried",
          "[training][find_batch_size]") {
    std::size_t wrong = 0;
    std::size_t not_monotone = 0;
    std::size_t const stride = capacities / support::rounds(capacities);
    for (std::size_t capacity = 0; capacity < capacities; capacity += stride)
        for (bool const is_flaky : {false, true}) {
            std::size_t const r = (capacity + (is_flaky ? 3 : 0)) % search_ranges().size();
            std::uint64_t turn = 0;
            batch_oracle step{[&, capacity](std::size_t batch) {
                std::uint64_t const chance = mixed(capacity * 31 + (is_flaky ? ++turn : batch)) % 8;
                return batch <= capacity ? chance != 0 : chance == 1;
            }};
            std::optional<batch_search_result> found;
            bool const is_right = keeps_promises(step, search_ranges()[r], found);
            not_monotone += found && !found->is_monotone();
            wrong += !is_right;
            if (!is_right) {
                INFO("capacity " << capacity << ", range " << r << (is_flaky ? ", flaky" : ""));
                CHECK(is_right);
            }
            if (wrong > 5) FAIL("and more");
        }
    CHECK(wrong == 0);
    CHECK(not_monotone > support::rounds(500U));
}

TEST_CASE("the search avoids known defects of other tools", "[training][find_batch_size]") {
    SECTION("the largest size of a range is tried before it is returned") {
        for (std::size_t capacity = 4096; capacity != 8192; ++capacity) {
            batch_oracle step{[=](std::size_t batch) { return batch <= capacity; }};
            REQUIRE(find_batch_size(step, {.smallest = 2, .largest = 8192}).batch == capacity);
        }
    }
    SECTION("the search ends if 550 of at most 600 samples fit") {
        batch_oracle step{[](std::size_t batch) { return batch <= 550; }};
        CHECK(find_batch_size(step, {.largest = 600}).batch == 550);
        CHECK(std::ranges::all_of(step.asked, [](auto const& a) { return a.batch <= 600; }));
    }
    SECTION("if nothing fits, the search throws and does not return a batch of 0 or 1") {
        for (std::size_t const smallest : {1U, 16U}) {
            batch_oracle step{[](std::size_t) { return false; }};
            CHECK_THROWS_AS(find_batch_size(step, {.smallest = smallest, .largest = 600}),
                            cuota::out_of_memory);
            CHECK(step.asked.size() == 1);
        }
    }
    SECTION("an exception whose message mentions memory is not a refusal") {
        std::size_t tries = 0;
        auto const broken = [&](std::size_t) {
            ++tries;
            throw std::runtime_error{"CUDA out of memory. Tried to allocate 2.00 GiB"};
        };
        CHECK_THROWS_AS(find_batch_size(broken, {.largest = 600}), std::runtime_error);
        CHECK(tries == 1);
        CHECK_THROWS_AS(find_batch_size([](std::size_t) { throw std::bad_alloc{}; }, {.largest = 600}),
                        std::bad_alloc);
    }
}

TEST_CASE("the refusal of the smallest size is thrown with its facts", "[training][find_batch_size]") {
    budget account{"gpu", 100};
    auto const step = [&](std::size_t batch) {
        account.charge(batch * 60, "activations");
        account.refund(batch * 60);
    };
    auto const refused = support::thrown<cuota::budget_exceeded>(
        [&] { (void)find_batch_size(step, {.smallest = 2, .largest = 8, .budget = account}); });
    CHECK(refused.info().requested == 120);
    CHECK(refused.info().request.name == cuota::tag{"activations"});
    CHECK(account.held() == 0);
}

TEST_CASE("a step whose planned size fits is tried once", "[training][find_batch_size]") {
    budget account{"gpu", 1000};
    auto const plan = footprint::with_granularity(1).add<char>("w", 100).per_sample<char>("x", 7);
    std::size_t needs = 7;
    auto const step = [&](std::size_t batch) {
        account.charge(100 + needs * batch);
        account.refund(100 + needs * batch);
    };
    batch_search_options const options{.largest = 600, .budget = account, .plan = &plan};
    auto const found = find_batch_size(step, options);
    CHECK(found.batch == 128);
    CHECK(found.attempts() == 1);
    CHECK(found.planned->batch == 128);
    CHECK(found.text() == "a batch of 128 fits (128 was planned): 1 try");

    needs = 9;  // more than planned
    auto const less = find_batch_size(step, options);
    CHECK(less.batch == 100);
    CHECK(less.attempts() <= 1 + 8);
    CHECK(less.text() == "a batch of 100 fits (128 was planned), 101 was refused: " +
                             std::to_string(less.attempts()) + " tries");

    needs = 1;  // less: the planned size is not exceeded
    CHECK(find_batch_size(step, options).batch == 128);
}

TEST_CASE("a plan whose smallest size does not fit is refused before anything is tried",
          "[training][find_batch_size]") {
    budget account{"gpu", 1000};
    auto const plan = footprint::with_granularity(1).add<char>("w", 100).per_sample<char>("x", 7);
    std::size_t tries = 0;
    auto const step = [&](std::size_t) { ++tries; };
    auto const refused = support::thrown<cuota::budget_exceeded>([&] {
        (void)find_batch_size(step, {.smallest = 129, .largest = 600, .budget = account, .plan = &plan});
    });
    CHECK(support::has(refused.info().cause, "the largest batch that fits is 128"));
    CHECK(tries == 0);
    auto const fixed = footprint::with_granularity(1).add<char>("w", 100);
    auto const any = find_batch_size(step, {.largest = 600, .budget = account, .plan = &fixed});
    CHECK(any.batch == 600);
    CHECK(any.text() == "a batch of 600 fits (any was planned): 1 try");
}

TEST_CASE("the bytes of keep_free are available during the try of the returned size",
          "[training][find_batch_size]") {
    budget account{"gpu", 1000};
    auto const plan = footprint::with_granularity(1).per_sample<char>("x", 10);
    std::size_t most = 0;
    auto const step = [&](std::size_t batch) {
        account.charge(10 * batch);
        most = std::max(most, 10 * batch);
        account.refund(10 * batch);
    };
    for (footprint const* const by : {&plan, static_cast<footprint const*>(nullptr)}) {
        most = 0;
        auto const found =
            find_batch_size(step, {.largest = 600, .budget = account, .plan = by, .keep_free = 201});
        CHECK(found.batch == 79);
        CHECK(most == 790);
        CHECK(account.held() == 0);
        CHECK(found.attempts() <= (by ? 1 : 20));
    }
    auto const refused = support::thrown<cuota::budget_exceeded>(
        [&] { (void)find_batch_size(step, {.largest = 600, .budget = account, .keep_free = 1001}); });
    CHECK(refused.info().request.name == cuota::tag{"kept free"});
}

TEST_CASE("a size that the margin reduced is tried before it is returned", "[training][find_batch_size]") {
    batch_oracle step{[](std::size_t batch) { return batch <= 500; }};
    auto const found = find_batch_size(step, {.largest = 600, .multiple_of = 4, .margin = 0.1});
    CHECK(found.batch == 448);
    CHECK(found.largest_fitted == 500);
    CHECK(step.saw_fit(448));
    CHECK(support::has(found.text(), "a batch of 448 fits, 500 fitted, 504 was refused: "));

    batch_oracle smaller_do_not{[](std::size_t batch) { return batch == 600 || batch == 56; }};
    footprint const any;
    budget const account{"gpu", 1};
    auto const strange =
        find_batch_size(smaller_do_not, {.largest = 600, .budget = account, .plan = &any, .margin = 0.25});
    CHECK(strange.batch == 56);  // 450, 225, 112, 56
    CHECK(!strange.is_monotone());
    CHECK(support::has(strange.text(), "; not monotone"));

    batch_oracle none_is_smaller{[](std::size_t batch) { return batch == 600; }};
    auto const largest =
        find_batch_size(none_is_smaller, {.largest = 600, .budget = account, .plan = &any, .margin = 0.25});
    CHECK(largest.batch == 600);
}

TEST_CASE("a try that leaves memory allocated is refused with the holders of that memory",
          "[training][find_batch_size][gpu]") {
    cuota::stream const s;
    budget account{"trainer", 1_MiB};
    cuota::budgeted const memory{account, cuota::device_memory{}};
    cuota::device_buffer<char> const weights{100'000, s, memory, "weights"};
    std::vector<cuota::device_buffer<char>> left;
    std::size_t tries = 0;
    auto const leaks = [&](std::size_t batch) {
        ++tries;
        left.push_back({batch * 1024, s, memory, cuota::no_init, "gradients"});
        cuota::device_buffer<char> const more{batch * 512, s, memory};
    };
    auto const error = support::thrown<cuota::usage_error>(
        [&] { (void)find_batch_size(leaks, {.smallest = 4, .largest = 8, .budget = account}); });
    CHECK(support::has(error.what(), "budget trainer: 4.0 KiB more in use after a try of a batch of 4 than"));
    CHECK(support::has(error.what(), "than before it: gradients 4.0 KiB ("));
    CHECK(!support::has(error.what(), "weights"));
    CHECK(tries == 1);

    left.clear();
    auto const leaks_when_refused = [&](std::size_t) {
        left.push_back({1000, s, memory, cuota::no_init});
        cuota::device_buffer<char> const more{2_MiB, s, memory};
    };
    auto const second = support::thrown<cuota::usage_error>(
        [&] { (void)find_batch_size(leaks_when_refused, {.largest = 8, .budget = account}); });
    CHECK(support::has(second.what(), "after a refused try of a batch of 1"));

    auto const charges = [&](std::size_t) { account.charge(10); };
    auto const third = support::thrown<cuota::usage_error>(
        [&] { (void)find_batch_size(charges, {.largest = 8, .budget = account}); });
    CHECK(support::has(third.what(), "charged without a tag 10 B"));
    account.refund(10);
}

TEST_CASE("idle memory of a pool is not counted as left behind, and is available to the next try",
          "[training][find_batch_size][gpu]") {
    cuota::stream const s;
    budget const account{"trainer", 64_MiB};
    cuota::scoped_pool const pool{account};
    cuota::device_buffer<char> const weights{4_MiB, s, pool, "weights"};
    auto plan = footprint::with_granularity(512);
    plan.per_sample<char>("activations", 1_MiB);
    auto const step = [&](std::size_t batch) {
        cuota::device_buffer<char> const activations{batch * 1_MiB, s, pool, cuota::no_init};
    };
    batch_search_options const options{.largest = 600, .budget = account, .plan = &plan};
    auto const first = find_batch_size(step, options);
    CHECK(first.batch <= 60);
    CHECK(first.batch >= 50);
    CHECK(account.held() > 30_MiB);  // held by the pool
    auto const again = find_batch_size(step, options);
    CHECK(again.batch == first.batch);
    CHECK(again.attempts() == first.attempts());
    s.synchronize();
}

TEST_CASE("invalid search options are refused with their values", "[training][find_batch_size]") {
    auto const step = [](std::size_t) {};
    footprint const plan;
    auto const why = [&](batch_search_options const& o) {
        return std::string{
            support::thrown<cuota::usage_error>([&] { (void)find_batch_size(step, o); }).what()};
    };
    CHECK(support::has(why({}), "largest must be at least 1"));
    CHECK(support::has(why({.smallest = 0, .largest = 1}), "smallest and multiple_of must be at least 1"));
    CHECK(support::has(why({.largest = 1, .multiple_of = 0}), "smallest and multiple_of must be at least 1"));
    CHECK(support::has(why({.smallest = 9, .largest = 15, .multiple_of = 8}),
                       "empty batch range: no multiple of 8 in [9, 15] (find_batch_size.cpp:"));
    CHECK(support::has(why({.largest = 1, .margin = 1}), "margin = 1 is out of range [0, 1)"));
    CHECK(support::has(why({.largest = 1, .margin = -0.1}), "margin = -0.1 is out of range"));
    CHECK(support::has(why({.largest = 1, .plan = &plan}), "require a budget"));
    CHECK(support::has(why({.largest = 1, .keep_free = 1}), "plan and keep_free require a budget"));
    CHECK(find_batch_size(step, {.largest = cuota::unlimited, .margin = 1e-17}).batch < cuota::unlimited);
}

// Returns each rank's size or failure.
template <class Run>
std::vector<std::string> ends_of_ranks(std::size_t ranks, Run run) {
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
            } catch (cuota::budget_exceeded const&) {
                ends[rank] = "refused";
            } catch (cuota::out_of_memory const& refused) {
                ends[rank] = refused.info().cause;
            } catch (std::exception const& error) { ends[rank] = error.what(); }
        });
    for (std::thread& t : threads) t.join();
    return ends;
}

std::string found_by(cuota::rank_consensus& mine, std::size_t capacity, batch_search_options o,
                     std::vector<cuota::batch_trial>* tried = nullptr) {
    budget account{"gpu", capacity};
    o.budget = account;
    o.ranks = &mine;
    auto const found = find_batch_size(
        [&](std::size_t batch) {
            account.charge(batch);
            account.refund(batch);
        },
        o);
    if (tried) *tried = found.trials;
    return std::to_string(found.batch);
}

using all_ends = std::vector<std::string>;

TEST_CASE("ranks find one size, which fits the rank with the fewest available bytes",
          "[training][find_batch_size]") {
    for (bool const is_planned : {false, true}) {
        std::vector<std::vector<cuota::batch_trial>> tried(3);
        auto const ends = ends_of_ranks(3, [&](std::size_t rank, cuota::rank_consensus& mine) {
            auto const plan = footprint::with_granularity(1).per_sample<char>("x", 1);
            batch_search_options o{.smallest = rank + 1, .largest = 600 - rank};
            if (is_planned && rank != 2) o.plan = &plan;  // a rank without a plan follows the others
            return found_by(mine, 300 + 50 * ((rank + 1) % 3), o, &tried[rank]);
        });
        CHECK(ends == all_ends{"300", "300", "300"});
        for (auto const& t : tried) CHECK(t.size() == tried[0].size());
        if (!is_planned) CHECK(tried[0].size() > 3);
    }
}

TEST_CASE("a rank whose smallest size is refused is named on the other ranks",
          "[training][find_batch_size]") {
    footprint const plan = footprint::with_granularity(1).per_sample<char>("x", 1);
    auto const run = [&](footprint const* by) {
        return ends_of_ranks(3, [=](std::size_t rank, cuota::rank_consensus& mine) {
            return found_by(mine, rank == 1 ? 3 : 100, {.smallest = 4, .largest = 600, .plan = by});
        });
    };
    CHECK(run(nullptr) == all_ends{"rank 1 was refused memory for a batch of 4", "refused",
                                   "rank 1 was refused memory for a batch of 4"});
    CHECK(run(&plan) == all_ends{"rank 1 was refused memory for the plan of a batch of 4", "refused",
                                 "rank 1 was refused memory for the plan of a batch of 4"});
}

TEST_CASE("a rank that fails in another way throws its own error, and the others do not wait for it",
          "[training][find_batch_size]") {
    for (std::size_t fails_at = 0; fails_at != 6; ++fails_at) {
        auto const ends = ends_of_ranks(3, [=](std::size_t rank, cuota::rank_consensus& mine) {
            std::size_t tries = 0;
            auto const found = find_batch_size(
                [&](std::size_t batch) {
                    if (rank == 2 && tries++ == fails_at) throw std::runtime_error{"its own"};
                    if (batch > 20) throw cuota::out_of_memory{{}};
                },
                {.largest = 600, .ranks = &mine});
            return std::to_string(found.batch);
        });
        CHECK(ends == all_ends{"gone: 2", "gone: 2", "its own"});
    }
}

TEST_CASE("ranks with different search options are named", "[training][find_batch_size]") {
    auto const ends = ends_of_ranks(3, [](std::size_t rank, cuota::rank_consensus& mine) {
        return found_by(mine, 100, {.largest = 64, .multiple_of = rank == 1 ? 4U : 8U});
    });
    for (std::string const& end : ends) CHECK(support::has(end, "rank 1 is in \"smallest batch in steps "));
    auto const apart = ends_of_ranks(2, [](std::size_t rank, cuota::rank_consensus& mine) {
        return found_by(mine, 100, {.smallest = 1 + 50 * rank, .largest = 40 + 50 * rank});
    });
    for (std::string const& end : apart) CHECK(support::has(end, "no multiple of 1 in ["));
}

}  // namespace

TEST_CASE("a search passes each refusal to on_refusal", "[training][find_batch_size]") {
    budget limited{"trainer", 1000};
    std::vector<std::size_t> refused;
    std::size_t bytes = 0;
    auto const found = find_batch_size(
        [&](std::size_t batch) {
            limited.charge(100 * batch);
            limited.refund(100 * batch);
        },
        {.largest = 64, .on_refusal = [&](std::size_t samples, cuota::out_of_memory const& why) {
             refused.push_back(samples);
             bytes += why.info().requested;
         }});
    CHECK(found.batch == 10);
    CHECK(refused == std::vector<std::size_t>{16, 12, 11});
    CHECK(bytes == 3900);
    CHECK_THROWS_AS(
        find_batch_size([](std::size_t) { throw cuota::out_of_memory{{}}; },
                        {.largest = 2, .on_refusal = [](auto...) { throw std::logic_error{"no log"}; }}),
        std::logic_error);
}

TEST_CASE("keep_largest_batch returns the memory of the size found", "[training][find_batch_size]") {
    budget const limited{"trainer", 1000 * 256};
    cuota::stream const s;
    struct activations {
        cuota::device_buffer<std::byte> bytes;
    };
    std::size_t runs = 0;
    auto const make = [&](std::size_t batch) {
        ++runs;
        return activations{{batch * 25'600, s, cuota::budgeted<>{limited}, cuota::no_init, "activations"}};
    };
    {
        auto const kept = cuota::keep_largest_batch(make, {.largest = 64, .budget = limited});
        CHECK(kept.search.batch == 10);
        CHECK(kept.search.smallest_refused == 11);
        CHECK(kept.value.bytes.size() == 256'000);
        CHECK(limited.held() == 256'000);
        CHECK(kept.search.trials.back().batch == 10);
        CHECK(kept.search.attempts() == runs);
    }
    CHECK(limited.held() == 0);

    footprint plan;
    plan.per_sample<std::byte>("activations", 25'600);
    runs = 0;
    {
        auto const kept = cuota::keep_largest_batch(make, {.largest = 64, .budget = limited, .plan = &plan});
        CHECK(kept.search.batch == 10);
        CHECK(runs == 1);  // an exact plan: allocated once
        CHECK(limited.peak() == 256'000);
    }
    runs = 0;
    auto const smaller = cuota::keep_largest_batch(make, {.largest = 64, .budget = limited, .margin = 0.5});
    CHECK(smaller.search.batch == 5);
    CHECK(smaller.value.bytes.size() == 128'000);
    CHECK(limited.held() == 128'000);
}

TEST_CASE("keep_largest_batch refuses memory that an owner left behind", "[training][find_batch_size]") {
    budget limited{"trainer", 1000};
    std::string const text = support::thrown<cuota::usage_error>([&] {
                                 (void)cuota::keep_largest_batch(
                                     [&](std::size_t batch) {
                                         limited.charge(100 * batch, "lost");
                                         return batch;
                                     },
                                     {.largest = 64, .budget = limited});
                             }).what();
    CHECK(text.find("the destruction of a try's owner") != std::string::npos);
    limited.refund(limited.held());
}

TEST_CASE("keep_largest_batch throws the refusal of the smallest size", "[training][find_batch_size]") {
    budget limited{"trainer", 99};
    auto const make = [&](std::size_t batch) {
        limited.charge(100 * batch, "x");
        return batch;
    };
    CHECK_THROWS_AS(cuota::keep_largest_batch(make, {.largest = 64, .budget = limited}),
                    cuota::budget_exceeded);
}
