// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/samplers/bucket_sampler.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cuota/data/samplers/permutation.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/ragged_texts.hpp"
#include "support/rounds.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::bucket_sampler;
using support::mentions;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

numbers some_lengths(std::size_t n, std::uint64_t most) {
    return support::ragged_texts::any(n, most).lengths;
}

numbers order_of(bucket_sampler const& by, std::size_t n, std::uint64_t epoch) {
    numbers order(n);
    by.draw(n, epoch, 0, order);
    return order;
}
numbers sorted(numbers of) {
    std::ranges::sort(of);
    return of;
}
// Returns the rows of all batches of `batch` samples when each is padded to its longest sample.
std::uint64_t padded_rows(numbers const& order, numbers const& lengths, std::size_t batch) {
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < order.size(); i += batch) {
        std::size_t const end = std::min(i + batch, order.size());
        std::uint64_t longest = 0;
        for (std::size_t k = i; k != end; ++k) longest = std::max(longest, lengths[order[k]]);
        rows += longest * (end - i);
    }
    return rows;
}

}  // namespace

TEST_CASE("bucket_sampler draws every sample once, in pieces of any size from any position",
          "[data][bucket_sampler]") {
    for (std::size_t const n : {0U, 1U, 7U, 64U, 501U})
        for (std::uint64_t const window : {8U, 50U, 64U, 4096U})
            for (std::uint64_t const bucket : {1U, 3U, 8U}) {
                bucket_sampler const by{9, some_lengths(n, 100), window, bucket};
                CHECK(by.size(n) == n);
                for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
                    numbers const whole = order_of(by, n, epoch);
                    REQUIRE(sorted(whole) == support::first_samples(n));
                    bucket_sampler const other{9, some_lengths(n, 100), window, bucket};
                    for (std::size_t first = 0; first < n; first += 13) {
                        numbers piece(std::min<std::size_t>(n - first, 40));
                        other.draw(n, epoch, first, piece);
                        REQUIRE(std::equal(piece.begin(), piece.end(),
                                           whole.begin() + static_cast<std::ptrdiff_t>(first)));
                    }
                }
            }
}

TEST_CASE("the samples of a bucket have neighbouring lengths within their window", "[data][bucket_sampler]") {
    constexpr std::size_t n = 1030;
    constexpr std::size_t window = 100;
    constexpr std::size_t bucket = 8;  // 12 buckets and 4 more samples
    numbers const lengths = some_lengths(n, 1'000'000'000);
    numbers const order = order_of(bucket_sampler{3, lengths, window, bucket}, n, 5);
    numbers shuffled(n);
    cuota::shuffle_sampler{3}.draw(n, 5, 0, shuffled);
    bool is_sorted = true;
    for (std::size_t begin = 0; begin < n; begin += window) {
        std::size_t const end = std::min(begin + window, n);
        auto const part = [&](numbers const& of) {
            return numbers(of.begin() + static_cast<std::ptrdiff_t>(begin),
                           of.begin() + static_cast<std::ptrdiff_t>(end));
        };
        REQUIRE(sorted(part(order)) == sorted(part(shuffled)));  // the shuffle of the same window
        numbers ranked = part(order);
        std::ranges::sort(ranked, {}, [&](std::uint64_t sample) { return lengths[sample]; });
        for (std::size_t i = begin; i < end; i += bucket) {
            numbers ranks;
            for (std::size_t k = i; k != std::min(i + bucket, end); ++k)
                ranks.push_back(
                    static_cast<std::uint64_t>(std::ranges::find(ranked, order[k]) - ranked.begin()));
            is_sorted = is_sorted && std::ranges::is_sorted(ranks);
            ranks = sorted(ranks);
            REQUIRE(ranks.back() - ranks.front() + 1 == ranks.size());
        }
    }
    CHECK(!is_sorted);  // the order within a bucket is random as well
}

TEST_CASE("bucket_sampler removes most of the padding", "[data][bucket_sampler]") {
    constexpr std::size_t n = 10'000;
    numbers const lengths = some_lengths(n, 512);
    std::uint64_t exact = 0;
    for (std::uint64_t const length : lengths) exact += length;
    numbers shuffled(n);
    cuota::shuffle_sampler{1}.draw(n, 0, 0, shuffled);
    std::uint64_t const by_chance = padded_rows(shuffled, lengths, 32) - exact;
    std::uint64_t const in_buckets =
        padded_rows(order_of(bucket_sampler{1, lengths, 1600, 32}, n, 0), lengths, 32) - exact;
    CHECK(in_buckets * 20 < by_chance);
}

TEST_CASE("bucket_sampler draws every sample at every position about equally often",
          "[data][bucket_sampler]") {
    constexpr std::size_t n = 48;
    std::uint64_t const epochs = std::max<std::uint64_t>(1'000, support::rounds(24'000u));
    std::vector<std::vector<std::uint64_t>> seen(n, numbers(n));
    bucket_sampler const by{11, some_lengths(n, 30), 24, 4};
    for (std::uint64_t epoch = 0; epoch != epochs; ++epoch) {
        numbers const order = order_of(by, n, epoch);
        for (std::size_t p = 0; p != n; ++p) ++seen[p][order[p]];
    }
    double const expected = static_cast<double>(epochs) / n;
    for (std::size_t p = 0; p != n; ++p) {
        double chi = 0;
        for (std::uint64_t const count : seen[p]) {
            double const off = static_cast<double>(count) - expected;
            chi += off * off / expected;
        }
        INFO(p);
        CHECK(chi < 100);  // 47 degrees of freedom: exceeded once in 100,000 positions
        CHECK(chi > 15);
    }
}

TEST_CASE("bucket_sampler's fingerprint depends on its lengths, window, bucket and seed",
          "[data][bucket_sampler]") {
    numbers const lengths = some_lengths(60, 9);
    numbers other = lengths;
    ++other[30];
    bucket_sampler const one{4, lengths, 20, 5};
    CHECK(one.fingerprint() == bucket_sampler{4, lengths, 20, 5}.fingerprint());
    for (bucket_sampler const& different :
         {bucket_sampler{5, lengths, 20, 5}, bucket_sampler{4, other, 20, 5},
          bucket_sampler{4, lengths, 30, 5}, bucket_sampler{4, lengths, 20, 4}})
        CHECK(different.fingerprint() != one.fingerprint());
    CHECK(order_of(one, 60, 0) != order_of(one, 60, 1));
    CHECK(order_of(bucket_sampler{4, lengths, 60, 5}, 60, 2) ==
          order_of(bucket_sampler{4, lengths, 1'000'000, 5}, 60, 2));  // all samples are in one window
}

TEST_CASE("bucket_sampler refuses invalid bucket sizes and a wrong number of lengths",
          "[data][bucket_sampler]") {
    auto const why = [](std::uint64_t window, std::uint64_t bucket) {
        return std::string{thrown<cuota::usage_error>([&] {
                               bucket_sampler{1, {1, 2, 3}, window, bucket};
                           }).what()};
    };
    CHECK(
        mentions(why(10, 0), "bucket_sampler: a bucket of 0 samples is out of range: 1 to the window's 10"));
    CHECK(mentions(why(0, 0), "a bucket of 0 samples is out of range: 1 to the window's 0"));
    CHECK(mentions(why(4, 5), "a bucket of 5 samples is out of range: 1 to the window's 4"));
    CHECK(mentions(thrown<cuota::usage_error>([] {
                       (void)bucket_sampler{1, {1, 2, 3}, 8, 4}.size(4);
                   }).what(),
                   "bucket_sampler: number of lengths does not match: 3 lengths for 4 samples"));
}

TEST_CASE("bucket_sampler draws without allocating, on any number of threads", "[data][bucket_sampler]") {
    constexpr std::size_t n = 5'000;
    bucket_sampler const by{2, some_lengths(n, 99), 256, 16};
    numbers batch(16);
    {
        support::heap_watch const watch;
        for (std::uint64_t epoch = 0; epoch != 3; ++epoch)
            for (std::uint64_t at = 0; at + 16 <= n; at += 16) by.draw(n, epoch, at, batch);
        std::size_t const allocations = watch.allocations();
        CHECK(allocations == 0);
    }
    numbers const whole = order_of(by, n, 7);
    std::vector<numbers> seen(4, numbers(n));
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t != seen.size(); ++t)
        threads.emplace_back([&, t] {
            for (std::size_t at = 0; at < n; at += 100)
                by.draw(n, 7, (at + t * 1'000) % n, std::span{seen[t]}.subspan((at + t * 1'000) % n, 100));
        });
    for (std::thread& t : threads) t.join();
    for (numbers const& all : seen) CHECK(all == whole);
}

TEST_CASE("sample_lengths returns the row counts of a ragged field", "[data][bucket_sampler]") {
    support::ragged_texts const texts = support::ragged_texts::any(3'000, 5);
    CHECK(cuota::sample_lengths(texts.classed()) == texts.lengths);
    CHECK_THROWS_AS(cuota::sample_lengths(texts.classed(), 1), cuota::usage_error);
    CHECK(cuota::sample_lengths(support::ragged_texts{{}}.words()).empty());
}
