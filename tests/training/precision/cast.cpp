// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/cast.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::bfloat16;
using cuota::device_buffer;
using cuota::half;
using support::has;
using support::thrown;

static_assert(cuota::storage_float<float> && cuota::storage_float<half> && !cuota::storage_float<double>);
static_assert(cuota::storage_half<bfloat16> && !cuota::storage_half<float> && !cuota::storage_half<short>);

namespace {

struct cast_scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 32_MiB}};

    template <class To, class From>
    [[nodiscard]] std::vector<To> cast_of(std::vector<From> const& host) const {
        device_buffer<From> const from{std::span<From const>{host}, s, pool};
        device_buffer<To> to{host.size(), s, pool};
        cuota::cast(s, from, to);
        return to.to_vector(s);
    }
};

template <class T>
std::vector<T> all_of_16_bits() {
    std::vector<T> all;
    for (std::uint32_t bits = 0; bits != 0x10000; ++bits)
        all.push_back(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
    return all;
}
std::vector<float> floats_of_all_kinds() {
    std::mt19937 random{7};
    std::vector<float> all{0.0f,
                           -0.0f,
                           65519.9f,
                           65520.0f,
                           1e-8f,
                           std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
    for (int i = 0; i != 100'000; ++i)
        all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    // Midpoints of two numbers of 16 bits, and the adjacent floats.
    for (std::uint32_t bits = 0x3f800000; bits < 0x3f900000; bits += 0x1000) {
        all.push_back(std::bit_cast<float>(bits - 1));
        all.push_back(std::bit_cast<float>(bits));
        all.push_back(std::bit_cast<float>(bits + 1));
    }
    return all;
}

}  // namespace

TEMPLATE_TEST_CASE("floats are rounded on the device as on the host", "[training][cast][gpu]", half,
                   bfloat16) {
    cast_scene const on;
    auto const from = floats_of_all_kinds();
    auto const to = on.cast_of<TestType>(from);
    REQUIRE(to.size() == from.size());
    for (std::size_t i = 0; i != from.size(); ++i)
        if (to[i] != TestType{from[i]}) FAIL(from[i] << " became " << to[i].bits);
}

TEMPLATE_TEST_CASE("numbers of 16 bits are converted to floats and back exactly", "[training][cast][gpu]",
                   half, bfloat16) {
    cast_scene const on;
    auto const from = all_of_16_bits<TestType>();
    auto const wide = on.cast_of<float>(from);
    for (std::size_t i = 0; i != from.size(); ++i)
        if (std::bit_cast<std::uint32_t>(wide[i]) !=
            std::bit_cast<std::uint32_t>(static_cast<float>(from[i])))
            FAIL("bits " << i);
    auto const back = on.cast_of<TestType>(wide);
    for (std::size_t i = 0; i != from.size(); ++i) {
        bool const is_nan = wide[i] != wide[i];
        if (!is_nan && back[i] != from[i]) FAIL("bits " << i);
    }
}

TEST_CASE("conversions between half and bfloat16 round once", "[training][cast][gpu]") {
    cast_scene const on;
    auto const halves = all_of_16_bits<half>();
    auto const there = on.cast_of<bfloat16>(halves);
    for (std::size_t i = 0; i != halves.size(); ++i)
        if (there[i] != bfloat16{static_cast<float>(halves[i])}) FAIL("bits " << i);
    auto const brains = all_of_16_bits<bfloat16>();
    auto const back = on.cast_of<half>(brains);
    for (std::size_t i = 0; i != brains.size(); ++i)
        if (back[i] != half{static_cast<float>(brains[i])}) FAIL("bits " << i);
}

TEST_CASE("a cast of a part of a buffer writes nothing outside of the target", "[training][cast][gpu]") {
    cast_scene const on;
    device_buffer<float> const from{{1, 2, 3, 4, 5}, on.s, on.pool};
    device_buffer<half> to{5, on.s, on.pool};
    {
        auto const source = from.read(on.s);
        auto const target = to.write(on.s);
        cuota::cast(on.s, source.span().subspan(1, 2), target.span().subspan(3, 2));
        cuota::cast(on.s, source.span().first(0), target.span().first(0));
    }
    CHECK(to.to_vector(on.s) ==
          std::vector<half>{half{0.0f}, half{0.0f}, half{0.0f}, half{2.0f}, half{3.0f}});
}

TEST_CASE("a cast between different counts is refused", "[training][cast][gpu]") {
    cast_scene const on;
    device_buffer<float> const from{{1, 2, 3}, on.s, on.pool};
    device_buffer<half> to{2, on.s, on.pool};
    cuota::usage_error const error = thrown<cuota::usage_error>([&] { cuota::cast(on.s, from, to); });
    CHECK(has(error.what(), "cast: element counts differ: 3 and 2"));
    CHECK(has(error.where().file, "cast.cpp"));
    CHECK(to.to_vector(on.s) == std::vector<half>(2, half{0.0f}));
}

TEST_CASE("a cast onto overlapping memory is refused, and one onto adjacent memory is not",
          "[training][cast][gpu]") {
    cast_scene const on;
    device_buffer<float> some{{1, 2, 3, 4}, on.s, on.pool};
    {
        auto const all = some.write(on.s);
        auto const cast_at = [&](std::size_t from, std::size_t to, std::size_t count) {
            cuota::cast(on.s, all.span().subspan(from, count), all.span().subspan(to, count));
        };
        for (std::size_t const at : {0u, 1u, 2u})
            CHECK(has(thrown<cuota::usage_error>([&] { cast_at(at, 1, 2); }).what(), "overlap"));
        cast_at(2, 0, 2);
    }
    CHECK(some.to_vector(on.s) == std::vector<float>{3, 4, 3, 4});
}
