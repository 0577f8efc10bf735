// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/batches/micro_batches.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::micro_batch;
using cuota::micro_batches;

static_assert(std::ranges::random_access_range<micro_batches>);
static_assert(std::ranges::sized_range<micro_batches> && std::is_trivially_copyable_v<micro_batches>);
static_assert(micro_batches{10, 4}.size() == 3);
static_assert(micro_batches{10, 4}[2] == micro_batch{8, 2, 10});
static_assert(micro_batches{cuota::unlimited, cuota::unlimited}.size() == 1);
static_assert(micro_batches{cuota::unlimited, 2}[cuota::unlimited / 2].count == 1);
static_assert(micro_batches{cuota::unlimited, 2}[cuota::unlimited / 2].is_last());

// Gradients of the two weights of a line through points, for half the mean squared error.
template <class T>
struct line_gradient {
    T slope{};
    T offset{};
    friend bool operator==(line_gradient const&, line_gradient const&) = default;
};

// Scale that makes every sum divisible by all counts up to 12.
constexpr std::int64_t all_counts = 27'720;

template <class T>
T x_of(std::size_t i) {
    return static_cast<T>((i * 37 + 11) % 23) - static_cast<T>(9);
}
template <class T>
T y_of(std::size_t i) {
    return static_cast<T>((i * 53 + 5) % 31) - static_cast<T>(14);
}

template <class T>
line_gradient<T> sum_over(std::size_t first, std::size_t count, T scale) {
    line_gradient<T> sum;
    for (std::size_t i = first; i != first + count; ++i) {
        T const error = 3 * x_of<T>(i) + 2 - y_of<T>(i);
        sum.slope += scale * error * x_of<T>(i);
        sum.offset += scale * error;
    }
    return sum;
}

template <class T>
line_gradient<T> mean_over(std::size_t first, std::size_t count, T scale) {
    line_gradient<T> mean = sum_over<T>(first, count, scale);
    mean.slope /= static_cast<T>(count);
    mean.offset /= static_cast<T>(count);
    return mean;
}

line_gradient<double> accumulated(std::size_t n, std::size_t micro) {
    line_gradient<double> gradient;
    for (micro_batch const part : micro_batches{n, micro}) {
        if (part.is_first()) gradient = {};
        auto const mean = mean_over<double>(part.first, part.count, 1);
        gradient.slope += part.weight() * mean.slope;
        gradient.offset += part.weight() * mean.offset;
    }
    return gradient;
}

bool is_close(line_gradient<double> const& a, line_gradient<double> const& b) {
    return std::abs(a.slope - b.slope) < 1e-9 && std::abs(a.offset - b.offset) < 1e-9;
}

TEST_CASE("micro-batches cover a batch once, in order, with weights that sum to exactly one",
          "[training][micro_batches]") {
    for (std::size_t n = 0; n != 70; ++n)
        for (std::size_t micro = 1; micro != 75; ++micro) {
            micro_batches const parts{n, micro};
            std::size_t next = 0;
            std::size_t numerators = 0;
            std::size_t index = 0;
            bool is_right = parts.samples() == n && parts.empty() == (n == 0);
            for (micro_batch const part : parts) {
                is_right = is_right && part.first == next && part.count != 0 && part.batch_size == n;
                is_right = is_right && (part.count == micro || (part.is_last() && part.count < micro));
                is_right = is_right && part.is_first() == (index == 0);
                is_right = is_right && part.is_last() == (index + 1 == parts.size());
                is_right = is_right && part == parts[index] && part == parts.begin()[std::ptrdiff_t(index)];
                next = part.end();
                numerators += part.count;
                ++index;
            }
            INFO(n << " samples in parts of " << micro);
            REQUIRE(is_right);
            REQUIRE(numerators == n);
            REQUIRE(index == parts.size());
            REQUIRE(std::size_t(parts.end() - parts.begin()) == index);
        }
}

TEST_CASE("micro-batches can be iterated in both directions from any position", "[training][micro_batches]") {
    micro_batches const parts{10, 4};
    auto at = parts.end();
    CHECK(*--at == micro_batch{8, 2, 10});
    at -= 2;
    CHECK(at-- == parts.begin());
    at += 2;
    CHECK(*at++ == micro_batch{4, 4, 10});
    CHECK(at == 2 + parts.begin());
    CHECK(at - 1 < at);
}

TEST_CASE("parts of no samples and indices that are out of range are refused", "[training][micro_batches]") {
    auto const error = support::thrown<cuota::usage_error>([] { (void)micro_batches{10, 0}; });
    CHECK(support::has(error.what(), "cannot divide a batch of 10 into parts of 0 (micro_batches.cpp:"));
    CHECK_THROWS_AS((micro_batches{10, 4}[3]), cuota::usage_error);
    CHECK_THROWS_AS((micro_batches{0, 4}[0]), cuota::usage_error);
}

TEST_CASE("accumulated gradients equal the full batch's bit for bit in integers",
          "[training][micro_batches]") {
    for (std::size_t n = 1; n != 13; ++n)
        for (std::size_t micro = 1; micro != 14; ++micro) {
            line_gradient<std::int64_t> numerators;
            for (micro_batch const part : micro_batches{n, micro}) {
                auto const mean = mean_over(part.first, part.count, all_counts);
                numerators.slope += static_cast<std::int64_t>(part.count) * mean.slope;
                numerators.offset += static_cast<std::int64_t>(part.count) * mean.offset;
            }
            auto const denominator = static_cast<std::int64_t>(n);
            INFO(n << " samples in parts of " << micro);
            REQUIRE(numerators.slope % denominator == 0);
            REQUIRE(line_gradient<std::int64_t>{numerators.slope / denominator,
                                                numerators.offset / denominator} ==
                    mean_over(0, n, all_counts));
        }
}

TEST_CASE("accumulated gradients equal the full batch's up to rounding", "[training][micro_batches]") {
    for (std::size_t n = 1; n != 130; n += 3)
        for (std::size_t micro = 1; micro != 140; ++micro) {
            INFO(n << " samples in parts of " << micro);
            REQUIRE(is_close(accumulated(n, micro), mean_over<double>(0, n, 1)));
        }
}

// A tutorial's loop: sets the gradients to zero in every part, and divides only the first parameter's.
line_gradient<double> zeroed_in_every_part(std::size_t n, std::size_t micro) {
    line_gradient<double> gradient;
    auto const steps = static_cast<double>(n / micro);
    for (std::size_t first = 0; first < n; first += micro) {
        gradient = {};
        auto const mean = mean_over<double>(first, std::min(micro, n - first), 1);
        gradient.slope += mean.slope / steps;
        gradient.offset += mean.offset;
    }
    return gradient;
}

// Another tutorial's loop: an optimizer step after every `steps` parts, each divided by `steps`. Returns the sum that the optimizer
// received from these samples; parts after its last step go to another epoch or are lost.
line_gradient<double> stepped_by_count(std::size_t n, std::size_t micro, std::size_t steps) {
    line_gradient<double> gradient;
    line_gradient<double> seen;
    std::size_t index = 0;
    for (std::size_t first = 0; first < n; first += micro) {
        auto const mean = mean_over<double>(first, std::min(micro, n - first), 1);
        gradient.slope += mean.slope / static_cast<double>(steps);
        gradient.offset += mean.offset / static_cast<double>(steps);
        if (++index % steps == 0) {
            seen.slope += gradient.slope;
            seen.offset += gradient.offset;
            gradient = {};
        }
    }
    return seen;
}

TEST_CASE("common accumulation loops do not compute the full batch's gradient", "[training][micro_batches]") {
    auto const full = mean_over<double>(0, 32, 1);
    CHECK(!is_close(zeroed_in_every_part(32, 8), full));

    CHECK(is_close(stepped_by_count(32, 8, 4), full));  // right if everything divides evenly
    auto const ragged = mean_over<double>(0, 30, 1);
    CHECK(!is_close(stepped_by_count(30, 8, 4), ragged));  // the last part has too much weight
    CHECK(!is_close(stepped_by_count(40, 8, 4), mean_over<double>(0, 40, 1)));  // the last window is dropped
    CHECK(is_close(accumulated(30, 8), ragged));
    CHECK(is_close(accumulated(40, 8), mean_over<double>(0, 40, 1)));
}

}  // namespace
