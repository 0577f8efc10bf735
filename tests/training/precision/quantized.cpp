// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/quantized.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::bfloat16;
using cuota::device_buffer;
using cuota::half;
using cuota::quantized;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<quantized<float>> &&
              std::is_nothrow_move_constructible_v<quantized<float>>);

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite_number = std::numeric_limits<float>::infinity();

struct quantized_scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 64_MiB}};

    // Returns the values that are loaded as To after they were stored as T.
    template <class T, std::size_t Block, class To = T>
    [[nodiscard]] std::vector<float> again(std::vector<T> const& values) const {
        device_buffer<T> const from{std::span<T const>{values}, s, pool};
        quantized<T, Block> kept{values.size(), s, pool};
        kept.store(s, from.read(s));
        device_buffer<To> to{values.size(), s, pool};
        kept.load(s, to.write(s));
        std::vector<float> all;
        for (To const x : to.to_vector(s)) all.push_back(static_cast<float>(x));
        return all;
    }
};

// Checks the documented error bound plus `slack`, exactly in double: differences of 24 bits times a factor of 8.
template <class Slack>
void expect_within(std::vector<float> const& x, std::vector<float> const& back, std::size_t block,
                   Slack slack) {
    REQUIRE(back.size() == x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += block) {
        std::size_t const end = std::min(begin + block, x.size());
        double most = 0;
        for (std::size_t i = begin; i != end; ++i)
            if (std::isfinite(x[i])) most = std::max(most, std::fabs(static_cast<double>(x[i])));
        for (std::size_t i = begin; i != end; ++i) {
            double const error = std::fabs(static_cast<double>(x[i]) - static_cast<double>(back[i]));
            bool const is_right =
                std::isfinite(x[i]) ? error * 254 <= most + 254 * slack(back[i], most) : std::isnan(back[i]);
            if (!is_right) FAIL(x[i] << " became " << back[i] << " in a block up to " << most);
        }
    }
}
double no_slack(float, double most) { return most < 0x1p-126 ? 0x1p-150 : 0.0; }

std::vector<float> any_floats(std::size_t count, unsigned seed) {
    std::mt19937 random{seed};
    std::vector<float> all(count);
    for (float& x : all) {
        do x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        while (!std::isfinite(x));
    }
    return all;
}
std::vector<float> normal_floats(std::size_t count, float scale, unsigned seed) {
    std::mt19937 random{seed};
    std::vector<float> all(count);
    for (float& x : all) {
        float sum = 0;
        for (int i = 0; i != 8; ++i) sum += static_cast<float>(random() % 65536) / 65536.0f - 0.5f;
        x = sum * scale;
    }
    return all;
}
template <class T>
std::vector<T> stored_of(std::vector<float> const& from) {
    std::vector<T> all;
    for (float const x : from) all.push_back(static_cast<T>(x));
    return all;
}
template <class T>
std::vector<float> floats_of_stored(std::vector<T> const& from) {
    std::vector<float> all;
    for (T const x : from) all.push_back(static_cast<float>(x));
    return all;
}

std::vector<std::vector<float>> adversaries() {
    float const most = std::numeric_limits<float>::max();
    float const denormal = std::numeric_limits<float>::denorm_min();
    std::vector<std::vector<float>> all{
        {0.0f},
        {-0.0f, 0.0f},
        std::vector<float>(300, 0.1f),
        std::vector<float>(300, -most),
        {most, -most, 1.0f, denormal},
        {denormal, -denormal, 100 * denormal, 0x1p-126f},
        {253 * denormal, 252 * denormal, denormal, -251 * denormal},
        {0x1p-126f, 0x1p-127f, -denormal},
        {1e30f, 1e-30f, -1e-30f, 1.0f},
        {not_a_number, 1.0f, infinite_number, -0.5f, -infinite_number},
        {not_a_number, infinite_number},
    };
    std::vector<float> ramp;  // all codes and midpoints, for a maximum of 127 and another one
    for (int i = -254; i <= 254; ++i) ramp.push_back(static_cast<float>(i) / 2);
    all.push_back(ramp);
    for (float& x : ramp) x *= 0.7f;
    all.push_back(ramp);
    std::vector<float> one_huge(256, 1e-3f);
    one_huge[100] = 1e6f;
    all.push_back(one_huge);
    return all;
}

}  // namespace

TEST_CASE("quantized::bytes returns the size, or unlimited if it overflows", "[training][quantized]") {
    CHECK(quantized<float>::bytes(1024) == 1024 + 16);
    CHECK(quantized<half>::bytes(1025) == 1025 + 20);
    CHECK(quantized<float, 8>::bytes(9, 512) == 1024);
    CHECK(quantized<float>::bytes(cuota::unlimited) == cuota::unlimited);
}

TEST_CASE("for random numbers, the error is exactly within the bound", "[training][quantized][gpu]") {
    quantized_scene const on;
    for (std::size_t const count : {1u, 2u, 255u, 256u, 257u, 10'000u, 300'000u}) {
        auto const any = any_floats(count, static_cast<unsigned>(count));
        expect_within(any, on.again<float, 256>(any), 256, no_slack);
        auto const even = normal_floats(count, 0.02f, static_cast<unsigned>(count));
        expect_within(even, on.again<float, 256>(even), 256, no_slack);
        expect_within(even, on.again<float, 8>(even), 8, no_slack);
        expect_within(even, on.again<float, 1>(even), 1, no_slack);
    }
}

TEST_CASE("for adversarial numbers, the error is within the bound", "[training][quantized][gpu]") {
    quantized_scene const on;
    for (auto const& values : adversaries()) {
        expect_within(values, on.again<float, 256>(values), 256, no_slack);
        expect_within(values, on.again<float, 3>(values), 3, no_slack);
    }
}

TEMPLATE_TEST_CASE("numbers of 16 bits have the bound of floats, with one more rounding if loaded as 16 bits",
                   "[training][quantized][gpu]", half, bfloat16) {
    quantized_scene const on;
    auto cases = adversaries();
    cases.push_back(normal_floats(100'000, 3.0f, 3));
    // Half a unit in the last place of T: 2^-11 or 2^-8 of the value, at least half the smallest denormal.
    int const bits = std::is_same_v<TestType, half> ? 11 : 8;
    double const least = std::is_same_v<TestType, half> ? 0x1p-25 : 0x1p-134;
    auto const rounding = [&](float back, double most) {
        return std::max(std::ldexp(std::fabs(static_cast<double>(back)), -bits), least) +
               no_slack(back, most);
    };
    for (auto const& values : cases) {
        auto const stored = stored_of<TestType>(values);
        expect_within(floats_of_stored(stored), on.template again<TestType, 256, float>(stored), 256,
                      no_slack);
        expect_within(floats_of_stored(stored), on.template again<TestType, 256>(stored), 256, rounding);
    }
}

TEST_CASE("numbers that are not finite become NaN and do not affect other numbers",
          "[training][quantized][gpu]") {
    quantized_scene const on;
    auto const back =
        on.again<float, 256>({1.0f, not_a_number, -1.0f, infinite_number, 0.0f, -infinite_number});
    CHECK(std::isnan(back[1]));
    CHECK(std::isnan(back[3]));
    CHECK(std::isnan(back[5]));
    CHECK(std::fabs(back[0] - 1.0f) < 1e-4f);
    CHECK(back[2] == -back[0]);
    CHECK(back[4] == 0.0f);
}

TEST_CASE("a second round trip changes numbers by no more than rounding", "[training][quantized][gpu]") {
    quantized_scene const on;
    auto const values = normal_floats(5000, 1.0f, 9);
    auto const once = on.again<float, 256>(values);
    auto const twice = on.again<float, 256>(once);
    // The maximum may shrink by a factor of 1 - 2^-16, and all scales with it.
    for (std::size_t i = 0; i != once.size(); ++i)
        if (std::fabs(once[i] - twice[i]) > std::fabs(once[i]) * 0x1p-14f) FAIL(once[i] << ' ' << twice[i]);
}

TEST_CASE("quantized numbers are zero until numbers are stored, and may be empty",
          "[training][quantized][gpu]") {
    quantized_scene const on;
    { device_buffer<int> const dirty{1000, -1, on.s, on.pool}; }
    quantized<float> const fresh{1000, on.s, on.pool};
    device_buffer<float> to{1000, 7.0f, on.s, on.pool};
    fresh.load(on.s, to.write(on.s));
    CHECK(to.to_vector(on.s) == std::vector<float>(1000, 0.0f));
    CHECK(fresh.bytes() == quantized<float>::bytes(1000));
    quantized<float> none{0, on.s, on.pool};
    device_buffer<float> nothing{0, on.s, on.pool};
    none.store(on.s, nothing.read(on.s));
    none.load(on.s, nothing.write(on.s));
    CHECK(none.bytes() == 0);
}

TEST_CASE("other element counts are refused, and nothing is stored", "[training][quantized][gpu]") {
    quantized_scene const on;
    quantized<float> kept{3, on.s, on.pool};
    device_buffer<float> const four{{1, 2, 3, 4}, on.s, on.pool};
    device_buffer<float> two{{5, 6}, on.s, on.pool};
    CHECK(has(thrown<cuota::usage_error>([&] { kept.store(on.s, four.read(on.s)); }).what(),
              "quantized::store: element counts differ: 4 and 3"));
    CHECK(has(thrown<cuota::usage_error>([&] { kept.load(on.s, two.write(on.s)); }).what(),
              "quantized::load: element counts differ: 3 and 2"));
    CHECK(two.to_vector(on.s) == std::vector<float>{5, 6});
    device_buffer<float> three{3, 1.0f, on.s, on.pool};
    kept.load(on.s, three.write(on.s));
    CHECK(three.to_vector(on.s) == std::vector<float>(3, 0.0f));
}

TEST_CASE("numbers stored on one stream are loaded on another", "[training][quantized][gpu]") {
    quantized_scene const on;
    cuota::stream const other;
    device_buffer<float> const from{100'000, 127.0f, on.s, on.pool};
    quantized<float> kept{from.size(), on.s, on.pool};
    kept.store(on.s, from.read(on.s));
    device_buffer<float> to{from.size(), other, on.pool};
    kept.load(other, to.write(other));
    CHECK(to.to_vector(other) == std::vector<float>(from.size(), 127.0f));
}

TEST_CASE("quantized numbers hold exactly their computed bytes, and a refusal leaves nothing held",
          "[training][quantized][gpu]") {
    cuota::stream const s;
    std::size_t const granularity = cuota::any_resource{cuota::device_memory{}}.granularity();
    for (std::size_t const count : {0u, 1u, 1000u, 5000u}) {
        std::size_t const needed = quantized<float, 2>::bytes(count, granularity);
        for (std::size_t limit = 0; limit <= needed; limit += granularity) {
            cuota::budget const b{"test", limit};
            cuota::budgeted<> const memory{b};
            if (limit < needed) {
                CHECK_THROWS_AS((quantized<float, 2>{count, s, memory}), cuota::budget_exceeded);
            } else {
                quantized<float, 2> const kept{count, s, memory};
                CHECK(b.held() == needed);
            }
            CHECK(b.held() == 0);
        }
    }
}
