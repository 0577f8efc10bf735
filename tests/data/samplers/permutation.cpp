// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/samplers/permutation.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"

namespace {

using cuota::epoch_key;
using cuota::keyed_permutation;

std::vector<std::uint64_t> order(std::uint64_t n, std::uint64_t key) {
    keyed_permutation const at{n, key};
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t position = 0; position != n; ++position) numbers.push_back(at(position));
    return numbers;
}

bool is_bijection(std::vector<std::uint64_t> const& numbers) {
    std::vector<bool> seen(numbers.size());
    for (std::uint64_t const number : numbers) {
        if (number >= numbers.size() || seen[number]) return false;
        seen[number] = true;
    }
    return true;
}

/// Returns chi-squared of counts that should be equal.
double chi_squared(std::vector<std::uint64_t> const& counts, double expected) {
    double sum = 0;
    for (std::uint64_t const count : counts) {
        double const off = static_cast<double>(count) - expected;
        sum += off * off / expected;
    }
    return sum;
}

constexpr std::uint64_t at_compile_time = keyed_permutation{10, 1}(3);
static_assert(at_compile_time < 10);

}  // namespace

TEST_CASE("keyed_permutation contains every number once", "[data][permutation]") {
    for (std::uint64_t n = 0; n <= 300; ++n)
        for (std::uint64_t const key : {0ULL, 1ULL, 42ULL, 0xffffffffffffffffULL}) {
            INFO("n " << n << " key " << key);
            CHECK(is_bijection(order(n, key)));
        }
    for (std::uint64_t const n : {1023ULL, 1024ULL, 1025ULL, 60'000ULL, 65'537ULL})
        CHECK(is_bijection(order(n, 7)));
}

TEST_CASE("keyed_permutation may have no numbers or one number", "[data][permutation]") {
    CHECK(keyed_permutation{0, 5}.size() == 0);
    REQUIRE_THROWS_AS((keyed_permutation{0, 5}(0)), cuota::usage_error);
    CHECK(keyed_permutation{1, 5}(0) == 0);
    REQUIRE_THROWS_AS((keyed_permutation{1, 5}(1)), cuota::usage_error);
}

TEST_CASE("keyed_permutation supports up to 2^63 numbers", "[data][permutation]") {
    std::uint64_t const most = keyed_permutation::max_size;
    keyed_permutation const at{most, 3};
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i != 1000; ++i) {
        seen.insert(at(i));
        seen.insert(at(most - 1 - i));
    }
    CHECK(seen.size() == 2000);
    CHECK(*seen.rbegin() < most);
    CHECK(*seen.rbegin() > most / 2);

    keyed_permutation const walks{most / 2 + 1, 3};  // permutes about half of the values again
    for (std::uint64_t i = 0; i != 1000; ++i) CHECK(walks(i) <= most / 2);

    REQUIRE_THROWS_AS((keyed_permutation{most + 1, 3}), cuota::usage_error);
    REQUIRE_THROWS_AS(at(most), cuota::usage_error);
}

TEST_CASE("keyed_permutation has a different order for each key", "[data][permutation]") {
    std::set<std::vector<std::uint64_t>> orders;
    for (std::uint64_t key = 0; key != 200; ++key) orders.insert(order(100, key));
    CHECK(orders.size() == 200);
}

TEST_CASE("keyed_permutation is the same on every machine: algorithm 1", "[data][permutation]") {
    CHECK(cuota::permutation_version == 1);
    CHECK(order(10, 0) == std::vector<std::uint64_t>{1, 2, 7, 9, 6, 4, 8, 3, 5, 0});
    CHECK(order(10, 42) == std::vector<std::uint64_t>{3, 6, 8, 1, 9, 0, 2, 4, 5, 7});
    keyed_permutation const large{60'000, epoch_key(1, 0)};
    CHECK(large(0) == 41911U);
    CHECK(large(1) == 13867U);
    CHECK(large(59'999) == 44621U);
    CHECK(keyed_permutation{keyed_permutation::max_size, 9}(123'456'789) == 6786812879076017156U);
    CHECK(epoch_key(0, 0) == 1682421431772697299U);
    CHECK(epoch_key(1234, 5) == 14819040971722276418U);
}

TEST_CASE("keyed_permutation has every order of a few numbers equally often", "[data][permutation]") {
    // 24 orders of 4 numbers, 24,000 keys, 23 degrees of freedom: 99.9 % of fair shuffles are below 49.7.
    std::vector<std::uint64_t> counts(256);
    for (std::uint64_t key = 0; key != 24'000; ++key) {
        auto const numbers = order(4, epoch_key(7, key));
        ++counts[numbers[0] * 64 + numbers[1] * 16 + numbers[2] * 4 + numbers[3]];
    }
    std::erase(counts, 0U);
    REQUIRE(counts.size() == 24);
    CHECK(chi_squared(counts, 1000) < 49.7);
}

TEST_CASE("keyed_permutation spreads the positions evenly over the numbers", "[data][permutation]") {
    // 10 x 10 cells of the plot of numbers over positions, 81 degrees of freedom: 99.9 % are below 125.
    for (std::uint64_t const n : {1000ULL, 5000ULL, 60'000ULL, 70'000ULL}) {
        INFO(n);
        std::vector<std::uint64_t> squares(100);
        auto const numbers = order(n, 11);
        for (std::uint64_t i = 0; i != n; ++i) ++squares[i * 10 / n * 10 + numbers[i] * 10 / n];
        CHECK(chi_squared(squares, static_cast<double>(n) / 100) < 125);
    }
}

TEST_CASE("keyed_permutation does not keep neighbours together", "[data][permutation]") {
    // Differences of successive numbers in 100 classes, 99 degrees of freedom: 99.9 % are below 149.
    std::uint64_t const n = 50'000;
    auto const numbers = order(n, 3);
    std::vector<std::uint64_t> classes(100);
    for (std::size_t i = 0; i + 1 != n; ++i) ++classes[(numbers[i + 1] + n - numbers[i]) % n * 100 / n];
    CHECK(chi_squared(classes, static_cast<double>(n - 1) / 100) < 149);
}

TEST_CASE("epoch_key differs for every epoch and every seed", "[data][permutation]") {
    std::set<std::uint64_t> keys;
    for (std::uint64_t seed = 0; seed != 100; ++seed)
        for (std::uint64_t epoch = 0; epoch != 100; ++epoch) keys.insert(epoch_key(seed, epoch));
    CHECK(keys.size() == 10'000);
}
