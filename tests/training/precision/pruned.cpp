// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/pruned.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::device_buffer;
using cuota::pruned;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<pruned<float>> &&
              std::is_nothrow_move_constructible_v<pruned<float>> &&
              std::is_nothrow_move_assignable_v<pruned<float>>);

namespace {

struct weight_pair {
    short a, b, c;
    friend bool operator==(weight_pair const&, weight_pair const&) = default;
};
template <class T>
concept has_threshold = requires(cuota::stream_ref s, cuota::device_span<T const> from,
                                 cuota::any_resource m) {
    pruned<T>::pack(s, from, 1.0f, m);
};
static_assert(has_threshold<float> && has_threshold<cuota::half> && !has_threshold<weight_pair>);

struct pruned_scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 256_MiB}};

    template <class T>
    [[nodiscard]] device_buffer<T> of(std::vector<T> const& host) const {
        return {std::span<T const>{host}, s, pool};
    }
    template <class T>
    [[nodiscard]] std::vector<T> unpacked(pruned<T> const& from) const {
        device_buffer<T> to{from.size(), s, pool, cuota::no_init};
        {
            auto const all = to.write(s);
            cuota::rt::fill_bytes(all.span().data(), 0xcd, all.span().bytes(), s);
        }
        from.unpack(s, to.write(s));
        return to.to_vector(s);
    }
    template <class T>
    [[nodiscard]] std::vector<T> packed(pruned<T> const& from) const {
        auto const all = from.packed(s);
        std::vector<T> host(all.size());
        cuota::rt::copy_to_host(host.data(), all.span().data(), all.span().bytes(), s);
        s.synchronize();
        return host;
    }
};

// Checks packed and unpacked values against a loop over all numbers.
void expect_same(pruned_scene const& on, std::vector<std::uint32_t> const& dense,
                 std::vector<unsigned char> const& keep) {
    std::vector<std::uint32_t> kept;
    std::vector<std::uint32_t> back(dense.size());
    for (std::size_t i = 0; i != dense.size(); ++i) {
        if (keep[i] == 0) continue;
        kept.push_back(dense[i]);
        back[i] = dense[i];
    }
    auto const from = on.of(dense);
    auto const mask = on.of(keep);
    auto const p = pruned<std::uint32_t>::pack(on.s, from.read(on.s), mask.read(on.s), on.pool);
    INFO(kept.size() << " of " << dense.size());
    REQUIRE(p.size() == dense.size());
    REQUIRE(p.nonzeros() == kept.size());
    REQUIRE(p.bytes() == pruned<std::uint32_t>::bytes(dense.size(), kept.size()));
    REQUIRE((on.packed(p) == kept));
    REQUIRE((on.unpacked(p) == back));
}

std::vector<std::uint32_t> numbered_words(std::size_t count) {
    std::vector<std::uint32_t> all(count);
    for (std::size_t i = 0; i != count; ++i) all[i] = static_cast<std::uint32_t>(i * 2654435761u + 1);
    return all;
}

}  // namespace

TEST_CASE("kept numbers are packed in order and unpacked to their positions", "[training][pruned][gpu]") {
    pruned_scene const on;
    std::mt19937 random{4};
    for (std::size_t const count :
         {0u, 1u, 2u, 31u, 32u, 33u, 63u, 64u, 65u, 127u, 1000u, 1023u, 1024u, 1025u, 2048u, 5000u}) {
        auto const dense = numbered_words(count);
        expect_same(on, dense, std::vector<unsigned char>(count, 0));
        expect_same(on, dense, std::vector<unsigned char>(count, 255));
        for (unsigned const one_of : {2u, 10u, 100u}) {
            std::vector<unsigned char> keep(count);
            for (auto& k : keep)
                k = static_cast<unsigned char>(random() % one_of == 0 ? 1 + random() % 255 : 0);
            expect_same(on, dense, keep);
        }
        for (std::size_t const only : {std::size_t{0}, count / 2, count - 1}) {
            if (count == 0) break;
            std::vector<unsigned char> keep(count);
            keep[only] = 1;
            expect_same(on, dense, keep);
        }
    }
}

TEST_CASE("millions of numbers are packed correctly, with all levels of prefix sums",
          "[training][pruned][gpu]") {
    pruned_scene const on;
    constexpr std::size_t count = (3u << 20) + 77;  // three full runs of groups and a partial one
    std::mt19937 random{6};
    std::vector<unsigned char> keep(count);
    for (auto& k : keep) k = random() % 3 == 0;
    expect_same(on, numbered_words(count), keep);
}

TEMPLATE_TEST_CASE("numbers above a threshold are kept, and so are NaNs", "[training][pruned][gpu]", float,
                   cuota::half, cuota::bfloat16) {
    pruned_scene const on;
    float const nan = std::numeric_limits<float>::quiet_NaN();
    float const infinite = std::numeric_limits<float>::infinity();
    std::vector<TestType> dense;
    for (float const x : {0.5f, -0.5f, 0.75f, -0.75f, 0.0f, nan, infinite, -infinite, 0.25f})
        dense.push_back(TestType{x});
    auto const from = on.of(dense);
    auto const p = pruned<TestType>::pack(on.s, from.read(on.s), 0.5f, on.pool);
    CHECK(p.nonzeros() == 5);
    auto const back = on.unpacked(p);
    std::vector<float> all;
    for (TestType const x : back) all.push_back(static_cast<float>(x));
    CHECK(std::isnan(all[5]));
    all[5] = 5;
    CHECK(all == std::vector<float>{0, 0, 0.75f, -0.75f, 0, 5, infinite, -infinite, 0});
}

TEST_CASE("a threshold of 0 removes zeros of either sign", "[training][pruned][gpu]") {
    pruned_scene const on;
    float const denormal = std::numeric_limits<float>::denorm_min();
    auto const from = on.of(std::vector<float>{0.0f, -0.0f, denormal, -denormal});
    auto const p = pruned<float>::pack(on.s, from.read(on.s), 0.0f, on.pool);
    CHECK(p.nonzeros() == 2);
    auto const back = on.unpacked(p);
    CHECK(back == std::vector<float>{0, 0, denormal, -denormal});
    CHECK_FALSE(std::signbit(back[1]));
}

TEST_CASE("kept numbers keep every bit", "[training][pruned][gpu]") {
    pruned_scene const on;
    std::vector<float> const dense{-0.0f, std::bit_cast<float>(0x7fa1'2345u), 3.0f};
    auto const from = on.of(dense);
    auto const all = on.of(std::vector<unsigned char>{1, 1, 1});
    auto const back = on.unpacked(pruned<float>::pack(on.s, from.read(on.s), all.read(on.s), on.pool));
    for (std::size_t i = 0; i != dense.size(); ++i)
        CHECK(std::bit_cast<std::uint32_t>(back[i]) == std::bit_cast<std::uint32_t>(dense[i]));
}

TEST_CASE("a mask can pack elements of any type", "[training][pruned][gpu]") {
    pruned_scene const on;
    auto const from = on.of(std::vector<weight_pair>{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
    auto const keep = on.of(std::vector<unsigned char>{0, 1, 0});
    auto const p = pruned<weight_pair>::pack(on.s, from.read(on.s), keep.read(on.s), on.pool);
    CHECK((on.unpacked(p) == std::vector<weight_pair>{{0, 0, 0}, {4, 5, 6}, {0, 0, 0}}));
}

TEST_CASE("invalid thresholds and element counts are refused", "[training][pruned][gpu]") {
    pruned_scene const on;
    auto const from = on.of(std::vector<float>{1, 2, 3});
    auto const two = on.of(std::vector<unsigned char>{1, 1});
    for (float const bad : {-1.0f, std::numeric_limits<float>::quiet_NaN()})
        CHECK(has(thrown<cuota::usage_error>([&] {
                      (void)pruned<float>::pack(on.s, from.read(on.s), bad, on.pool);
                  }).what(),
                  "pruned: threshold = "));
    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)pruned<float>::pack(on.s, from.read(on.s), two.read(on.s), on.pool);
              }).what(),
              "pruned::pack: element counts differ: 3 and 2"));
    auto p = pruned<float>::pack(on.s, from.read(on.s), 0.0f, on.pool);
    device_buffer<float> four{4, on.s, on.pool};
    CHECK(has(thrown<cuota::usage_error>([&] { p.unpack(on.s, four.write(on.s)); }).what(),
              "pruned::unpack: element counts differ: 3 and 4"));
}

TEST_CASE("a pruned object that was moved from is empty, and can be assigned again",
          "[training][pruned][gpu]") {
    pruned_scene const on;
    auto const from = on.of(std::vector<float>{1, 0, 3});
    auto a = pruned<float>::pack(on.s, from.read(on.s), 0.0f, on.pool);
    auto b = std::move(a);
    CHECK(a.size() == 0);
    CHECK(a.nonzeros() == 0);
    CHECK(a.bytes() == 0);
    CHECK(on.unpacked(a).empty());
    a = std::move(b);
    CHECK(b.size() == 0);
    CHECK(on.unpacked(a) == std::vector<float>{1, 0, 3});
}

TEST_CASE("pruned holds exactly its computed bytes, and a refusal at any size leaves nothing held",
          "[training][pruned][gpu]") {
    CHECK(pruned<float>::bytes(0, 0) == 0);
    CHECK(pruned<float>::bytes(1, 1) == 4 + 8 + 4);
    CHECK(pruned<float>::bytes(1024, 10) == 128 + 8 + 40);
    CHECK(pruned<cuota::half>::bytes(1025, 10) == 132 + 16 + 20);
    CHECK(pruned<float>::bytes(1025, 10, 512) == 1536);
    CHECK(pruned<double>::bytes(cuota::unlimited, cuota::unlimited / 4) == cuota::unlimited);
    CHECK(pruned<char>::bytes(cuota::unlimited, cuota::unlimited) == cuota::unlimited);

    pruned_scene const on;
    std::size_t const granularity = cuota::any_resource{cuota::device_memory{}}.granularity();
    std::vector<float> dense(10'000);
    for (std::size_t i = 0; i < dense.size(); i += 3) dense[i] = 1;
    auto const from = on.of(dense);
    std::size_t const needed = pruned<float>::bytes(dense.size(), 3334, granularity);
    int refusals = 0;
    for (std::size_t limit = 0; limit <= needed; limit += granularity) {
        cuota::budget const b{"test", limit};
        cuota::budgeted<> const memory{b};
        if (limit < needed) {
            CHECK_THROWS_AS((void)pruned<float>::pack(on.s, from.read(on.s), 0.5f, memory),
                            cuota::budget_exceeded);
            ++refusals;
        } else {
            auto const p = pruned<float>::pack(on.s, from.read(on.s), 0.5f, memory);
            CHECK(p.nonzeros() == 3334);
            CHECK(b.held() == needed);  // the scratch is freed
            CHECK(on.unpacked(p) == dense);
        }
        CHECK(b.held() == 0);
    }
    CHECK(refusals > 3);
}

TEST_CASE("a refused pack leaves the previous one unchanged", "[training][pruned][gpu]") {
    pruned_scene const on;
    auto const from = on.of(std::vector<float>{1, 2, 3, 4});
    std::size_t const granularity = cuota::any_resource{cuota::device_memory{}}.granularity();
    cuota::budget const b{"test", pruned<float>::bytes(4, 2, granularity) + granularity};
    cuota::budgeted<> const memory{b};
    auto p = pruned<float>::pack(on.s, from.read(on.s), 2.0f, memory);
    CHECK_THROWS_AS(p = pruned<float>::pack(on.s, from.read(on.s), 3.0f, memory), cuota::budget_exceeded);
    CHECK(on.unpacked(p) == std::vector<float>{0, 0, 3, 4});
}
