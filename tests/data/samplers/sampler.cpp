// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/samplers/sampler.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/thrown.hpp"

using cuota::any_sampler;
using cuota::block_shuffle_sampler;
using cuota::sequential_sampler;
using cuota::shuffle_sampler;
using cuota::subset_sampler;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

numbers order(any_sampler const& s, std::uint64_t n, std::uint64_t epoch = 0) {
    numbers all(static_cast<std::size_t>(s.size(n)));
    s.draw(n, epoch, 0, all);
    return all;
}
numbers sorted(numbers some) {
    std::ranges::sort(some);
    return some;
}
numbers counted(std::uint64_t n) {
    numbers all(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i != all.size(); ++i) all[i] = i;
    return all;
}

// Returns chi-squared of the counts of (position, sample) pairs over many epochs, in cells of `cell` by `cell`.
double unevenness(std::function<any_sampler(std::uint64_t seed)> const& make, std::uint64_t n,
                  std::uint64_t cell, int epochs) {
    std::uint64_t const cells = n / cell;
    std::vector<double> seen(static_cast<std::size_t>(cells * cells));
    any_sampler const s = make(11);
    for (int e = 0; e != epochs; ++e) {
        numbers const now = order(s, n, static_cast<std::uint64_t>(e));
        for (std::uint64_t p = 0; p != n; ++p)
            seen[static_cast<std::size_t>(p / cell * cells + now[static_cast<std::size_t>(p)] / cell)] += 1;
    }
    double const expected = epochs * static_cast<double>(n) / static_cast<double>(cells * cells);
    double sum = 0;
    for (double const count : seen) sum += (count - expected) * (count - expected) / expected;
    return sum;
}

}  // namespace

TEST_CASE("samplers of all samples draw each sample once", "[data][sampler]") {
    for (std::uint64_t n = 0; n <= 70; ++n)
        for (std::uint64_t const seed : {0u, 1u, 99u}) {
            INFO("n " << n << ", seed " << seed);
            CHECK(order(sequential_sampler{}, n) == counted(n));
            CHECK(sorted(order(shuffle_sampler{seed}, n)) == counted(n));
            for (std::uint64_t block = 1; block <= n + 2; ++block)
                REQUIRE(sorted(order(block_shuffle_sampler{seed, block}, n, 3)) == counted(n));
        }
    CHECK(sorted(order(block_shuffle_sampler{5, 1000}, 100'003)) == counted(100'003));
    CHECK(order(any_sampler{}, 5) == counted(5));
}

TEST_CASE("a sampler draws the same samples from any starting position", "[data][sampler]") {
    any_sampler const all[] = {sequential_sampler{}, shuffle_sampler{3}, block_shuffle_sampler{3, 7},
                               subset_sampler{{5, 5, 0, 9, 36}}, subset_sampler{{5, 5, 0, 9, 36}, 8}};
    for (any_sampler const& s : all) {
        numbers const whole = order(s, 37, 2);
        for (std::size_t first = 0; first <= whole.size(); ++first)
            for (std::size_t count = 0; first + count <= whole.size(); ++count) {
                numbers part(count);
                s.draw(37, 2, first, part);
                REQUIRE(
                    std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
            }
    }
}

TEST_CASE("shuffles have a different order for each seed and epoch", "[data][sampler]") {
    for (auto const& make : std::vector<std::function<any_sampler(std::uint64_t)>>{
             [](std::uint64_t seed) { return shuffle_sampler{seed}; },
             [](std::uint64_t seed) {
                 return block_shuffle_sampler{seed, 10};
             },
             [](std::uint64_t seed) {
                 return subset_sampler{counted(1000), seed};
             }}) {
        CHECK(order(make(1), 1000, 0) == order(make(1), 1000, 0));
        CHECK(order(make(1), 1000, 0) != order(make(1), 1000, 1));
        CHECK(order(make(1), 1000, 0) != order(make(2), 1000, 0));
        CHECK(order(make(1), 1000, 0) != counted(1000));
    }
}

TEST_CASE("shuffles draw every sample at every position equally often", "[data][sampler]") {
    // 900 cells, 841 degrees of freedom, standard deviation 41. Five standard deviations are not chance.
    constexpr double most = 841 + 5 * 41;
    CHECK(unevenness([](std::uint64_t seed) { return shuffle_sampler{seed}; }, 30, 1,
                     support::rounds(20'000)) < most);
    CHECK(unevenness(
              [](std::uint64_t seed) {
                  return block_shuffle_sampler{seed, 1};
              },
              30, 1, support::rounds(20'000)) < most);
    CHECK(unevenness(
              [](std::uint64_t seed) {
                  return block_shuffle_sampler{seed, 7};
              },
              30, 1, support::rounds(20'000)) < most);
    CHECK(unevenness(
              [](std::uint64_t seed) {
                  return block_shuffle_sampler{seed, 10};
              },
              30, 1, support::rounds(20'000)) < most);
    CHECK(unevenness(
              [](std::uint64_t seed) {
                  return block_shuffle_sampler{seed, 64};
              },
              30, 1, support::rounds(20'000)) < most);
    CHECK(unevenness([](std::uint64_t) { return sequential_sampler{}; }, 30, 1, 100) > 10 * most);
}

TEST_CASE("block_shuffle_sampler draws consecutive samples of a block together", "[data][sampler]") {
    numbers const all = order(block_shuffle_sampler{4, 8}, 100, 6);
    for (std::size_t first = 0; first + 8 <= 96; first += 8) {
        numbers const block = sorted({all.begin() + static_cast<std::ptrdiff_t>(first),
                                      all.begin() + static_cast<std::ptrdiff_t>(first + 8)});
        bool const wraps = block.front() == 0 && block.back() == 99;
        CHECK((wraps || block.back() - block.front() == 7));
    }
}

TEST_CASE("subset_sampler draws samples in the given order, and may draw a sample twice", "[data][sampler]") {
    CHECK(order(subset_sampler{{7, 3, 3, 0}}, 8) == numbers{7, 3, 3, 0});
    CHECK(sorted(order(subset_sampler{{7, 3, 3, 0}, 5}, 8, 1)) == numbers{0, 3, 3, 7});
    CHECK(order(subset_sampler{{}}, 0).empty());
}

TEST_CASE("invalid samplers and numbers of samples are refused", "[data][sampler]") {
    CHECK(std::string{thrown<cuota::usage_error>([] {
                          block_shuffle_sampler{1, 0};
                      }).what()} ==
          "cuota::usage_error: block_shuffle_sampler: the block size must be at least 1");
    CHECK(std::string{thrown<cuota::usage_error>([] {
                          (void)subset_sampler{{1, 8}}.size(8);
                      }).what()} ==
          "cuota::usage_error: subset_sampler: sample 8 is out of range: the dataset has 8");
    CHECK_THROWS_AS((void)subset_sampler{{~std::uint64_t{0}}}.size(1), cuota::usage_error);
    CHECK_THROWS_AS((void)shuffle_sampler{1}.size(~std::uint64_t{0}), cuota::usage_error);
    CHECK_THROWS_AS((void)block_shuffle_sampler(1, 5).size(~std::uint64_t{0}), cuota::usage_error);
}

TEST_CASE("different orders have different fingerprints", "[data][sampler]") {
    any_sampler const all[] = {
        sequential_sampler{},        shuffle_sampler{0},          shuffle_sampler{1},
        block_shuffle_sampler{0, 1}, block_shuffle_sampler{0, 2}, block_shuffle_sampler{1, 2},
        subset_sampler{{}},          subset_sampler{{}, 0},       subset_sampler{{1, 2}},
        subset_sampler{{2, 1}},      subset_sampler{{1, 2}, 0},   subset_sampler{{1, 2}, 1}};
    for (std::size_t i = 0; i != std::size(all); ++i)
        for (std::size_t k = 0; k != std::size(all); ++k)
            CHECK((all[i].fingerprint() == all[k].fingerprint()) == (i == k));
    CHECK(any_sampler{shuffle_sampler{7}}.fingerprint() == shuffle_sampler{7}.fingerprint());
}

// Saved states stay valid across versions of the library: orders must not change.
TEST_CASE("orders are the same as in earlier versions", "[data][sampler]") {
    CHECK(shuffle_sampler{1}.fingerprint() == 0x8E2E16A15FAE5ECA);
    CHECK(order(shuffle_sampler{1}, 10, 2) == numbers{9, 7, 1, 5, 4, 2, 0, 6, 3, 8});
    CHECK(order(block_shuffle_sampler{1, 4}, 10, 2) == numbers{4, 1, 3, 2, 8, 7, 9, 0, 5, 6});
    CHECK(order(subset_sampler{{9, 8, 7, 6, 5}, 1}, 10, 2) == numbers{7, 8, 5, 6, 9});
}
