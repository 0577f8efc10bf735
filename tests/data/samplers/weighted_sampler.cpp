// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/samplers/alias_table.hpp>
#include <cuota/data/samplers/weighted_sampler.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::any_sampler;
using cuota::weighted_sampler;
using cuota::weighted_shuffle_sampler;
using cuota::detail::alias_table;
using cuota::detail::high_of_product;
using cuota::detail::integer_weights;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

numbers order(any_sampler const& s, std::uint64_t n, std::uint64_t epoch = 0) {
    numbers all(static_cast<std::size_t>(s.size(n)));
    s.draw(n, epoch, 0, all);
    return all;
}

double chi_squared(std::vector<double> const& seen, std::vector<double> const& expected) {
    double sum = 0;
    for (std::size_t i = 0; i != seen.size(); ++i)
        if (expected[i] > 0) sum += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
    return sum;
}

// Sets of weights, including difficult ones.
std::vector<std::vector<double>> const sets{{1},
                                            {0, 1},
                                            {1, 1, 1},
                                            {3, 1, 0, 0, 5, 1e-3},
                                            {1e300, 1, 1e-300},
                                            {1e-320, 2e-320, 1e-310},
                                            {0.1, 0.2, 0.3, 0.4},
                                            {1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};

}  // namespace

TEST_CASE("high_of_product returns the high half of a product", "[data][weighted_sampler]") {
    constexpr std::uint64_t most = ~std::uint64_t{0};
    CHECK(high_of_product(most, most) == most - 1);
    CHECK(high_of_product(most, 1) == 0);
    CHECK(high_of_product(std::uint64_t{1} << 63, 10) == 5);
    CHECK(high_of_product(0xFFFFFFFF00000001, 0x1'0000'0001) == 0x1'0000'0000);
    CHECK(high_of_product(0x123456789ABCDEF0, 0xFEDCBA9876543210) == 0x121FA00AD77D7422);
}

TEST_CASE("an alias table represents the weight of each sample exactly", "[data][weighted_sampler]") {
    for (auto const& weights : sets) {
        integer_weights const whole{weights};
        alias_table const table{whole};
        std::uint64_t const n = weights.size();
        REQUIRE(table.columns().size() == n);
        REQUIRE(whole.sum < std::uint64_t{1} << 62);
        // Checks sums modulo 2^64 and approximate ones in double; a wrong sum cannot pass both.
        numbers parts(n);
        std::vector<double> about(n);
        for (std::size_t i = 0; i != n; ++i) {
            auto const [own, other] = table.columns()[i];
            REQUIRE(own <= table.height());
            REQUIRE(other < n);
            parts[i] += own;
            about[i] += static_cast<double>(own);
            parts[static_cast<std::size_t>(other)] += table.height() - own;
            about[static_cast<std::size_t>(other)] += static_cast<double>(table.height() - own);
        }
        for (std::size_t i = 0; i != n; ++i) {
            CHECK(parts[i] == whole.values[i] * n);
            double const wanted = static_cast<double>(whole.values[i]) * static_cast<double>(n);
            CHECK(std::abs(about[i] - wanted) <= 1e-5 * wanted);
            CHECK((whole.values[i] == 0) == (weights[i] == 0));
        }
    }
}

TEST_CASE("weighted_sampler draws each sample in proportion to its weight", "[data][weighted_sampler]") {
    std::vector<double> const weights{5, 1, 0, 2, 2};
    constexpr int epochs = 40;
    constexpr std::uint64_t draws = 5000;
    std::vector<double> seen(5), expected;
    std::vector<double> pairs(25), expected_pairs;  // of neighbours
    for (int e = 0; e != epochs; ++e) {
        numbers const all = order(weighted_sampler{3, weights, draws}, 5, static_cast<std::uint64_t>(e));
        for (std::size_t i = 0; i != all.size(); ++i) {
            seen[static_cast<std::size_t>(all[i])] += 1;
            if (i % 2 == 1) pairs[static_cast<std::size_t>(all[i - 1] * 5 + all[i])] += 1;
        }
    }
    for (double const a : weights) {
        expected.push_back(a / 10 * epochs * draws);
        for (double const b : weights) expected_pairs.push_back(a / 10 * b / 10 * epochs * draws / 2);
    }
    CHECK(seen[2] == 0);
    CHECK(chi_squared(seen, expected) < 3 + 5 * 2.5);
    CHECK(chi_squared(pairs, expected_pairs) < 15 + 5 * 5.5);
}

TEST_CASE("weighted_shuffle_sampler draws each sample once, by weight among the remaining samples",
          "[data][weighted_sampler]") {
    std::vector<double> const weights{5, 1, 0, 2, 2};
    weighted_shuffle_sampler const s{9, weights, 4};
    constexpr int epochs = 50'000;
    std::vector<double> pairs(25), expected(25);  // of the first two
    for (int e = 0; e != epochs; ++e) {
        numbers all = order(s, 5, static_cast<std::uint64_t>(e));
        pairs[static_cast<std::size_t>(all[0] * 5 + all[1])] += 1;
        std::ranges::sort(all);
        REQUIRE(all == numbers{0, 1, 3, 4});
    }
    for (std::size_t a = 0; a != 5; ++a)
        for (std::size_t b = 0; b != 5; ++b)
            if (a != b) expected[a * 5 + b] = weights[a] / 10 * weights[b] / (10 - weights[a]) * epochs;
    CHECK(chi_squared(pairs, expected) < 11 + 5 * 4.7);
    for (std::size_t n = 1; n <= 40; ++n) {  // trees of all shapes
        numbers all = order(weighted_shuffle_sampler{1, std::vector<double>(n, 0.5), n}, n, 2);
        std::ranges::sort(all);
        for (std::size_t i = 0; i != n; ++i) REQUIRE(all[i] == i);
    }
}

TEST_CASE("weighted samplers draw the same samples from any position and on any thread",
          "[data][weighted_sampler]") {
    std::vector<double> const weights{5, 1, 0, 2, 2, 7, 1};
    any_sampler const all[] = {weighted_sampler{1, weights, 20}, weighted_shuffle_sampler{1, weights, 6}};
    for (any_sampler const& s : all) {
        numbers const whole[] = {order(s, 7, 0), order(s, 7, 1)};
        CHECK(whole[0] != whole[1]);
        std::vector<std::thread> threads;
        std::vector<int> wrong(4);
        for (std::size_t t = 0; t != wrong.size(); ++t)
            threads.emplace_back([&, t] {
                for (std::size_t i = 0; i != 200; ++i) {
                    std::size_t const epoch = (i + t) % 2;
                    std::size_t const first = i % whole[epoch].size();
                    numbers part(std::min<std::size_t>(3, whole[epoch].size() - first));
                    s.draw(7, epoch, first, part);
                    wrong[t] += !std::equal(part.begin(), part.end(),
                                            whole[epoch].begin() + static_cast<std::ptrdiff_t>(first));
                }
            });
        for (std::thread& one : threads) one.join();
        CHECK(wrong == std::vector<int>(4));
    }
}

TEST_CASE("invalid weights and a wrong number of weights are refused", "[data][weighted_sampler]") {
    auto const why = [](std::vector<double> const& weights) {
        return std::string{thrown<cuota::usage_error>([&] { weighted_sampler{1, weights, 1}; }).what()};
    };
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr double endless = std::numeric_limits<double>::infinity();
    CHECK(why({1, -0.5}) ==
          "cuota::usage_error: weighted_sampler: weight -0.5 of sample 1 must be finite and not negative");
    CHECK(support::has(why({nan}), "of sample 0"));
    CHECK(support::has(why({1, 1, endless}), "weight inf of sample 2"));
    CHECK(why({}) ==
          "cuota::usage_error: weighted_sampler: the sum of the weights is 0; it must be finite and above 0");
    CHECK(why({0, 0}) ==
          "cuota::usage_error: weighted_sampler: the sum of the weights is 0; it must be finite and above 0");
    CHECK(support::has(why({1e308, 1e308}), "the sum of the weights is inf"));
    std::vector<double> const bad{-1};
    CHECK(std::string{thrown<cuota::usage_error>([&] {
                          weighted_shuffle_sampler{1, bad, 1};
                      }).what()} == "cuota::usage_error: weighted_shuffle_sampler: weight -1 of sample 0 "
                                    "must be finite and not negative");
    CHECK(std::string{thrown<cuota::usage_error>([&] {
                          (void)weighted_shuffle_sampler(1, std::vector{1.0}, 1).size(2);
                      }).what()} == "cuota::usage_error: weighted_shuffle_sampler: number of weights does "
                                    "not match: 1 weight for 2 samples");
    std::vector<double> const two{1, 0};
    CHECK(
        std::string{thrown<cuota::usage_error>([&] { (void)weighted_sampler(1, two, 9).size(3); }).what()} ==
        "cuota::usage_error: weighted_sampler: number of weights does not match: 2 weights for 3 samples");
    CHECK(std::string{thrown<cuota::usage_error>([&] {
                          (void)weighted_shuffle_sampler(1, two, 2).size(2);
                      }).what()} ==
          "cuota::usage_error: weighted_shuffle_sampler: cannot draw 2 samples: only 1 weight is above zero");
}

TEST_CASE("weighted samplers with different weights, seeds or draws have different fingerprints",
          "[data][weighted_sampler]") {
    std::vector<double> const a{1, 2}, b{2, 1};
    numbers const all{
        weighted_sampler(1, a, 5).fingerprint(),         weighted_sampler(2, a, 5).fingerprint(),
        weighted_sampler(1, a, 6).fingerprint(),         weighted_sampler(1, b, 5).fingerprint(),
        weighted_shuffle_sampler(1, a, 5).fingerprint(), cuota::shuffle_sampler(1).fingerprint()};
    for (std::size_t i = 0; i != all.size(); ++i)
        for (std::size_t k = 0; k != i; ++k) CHECK(all[i] != all[k]);
    CHECK(weighted_sampler(1, a, 5).fingerprint() == weighted_sampler(1, a, 5).fingerprint());
}

// Saved states stay valid across versions of the library: orders must not change.
TEST_CASE("orders of weighted samplers are the same as in earlier versions", "[data][weighted_sampler]") {
    std::vector<double> const weights{0.5, 1, 0, 2, 2, 7.25, 1e-3};
    CHECK(order(weighted_sampler{1, weights, 12}, 7, 2) == numbers{4, 3, 5, 3, 5, 5, 0, 3, 5, 3, 5, 5});
    CHECK(order(weighted_shuffle_sampler{1, weights, 6}, 7, 2) == numbers{5, 3, 4, 1, 0, 6});
}
