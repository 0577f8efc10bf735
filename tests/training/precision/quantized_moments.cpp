// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/quantized_moments.hpp>

#include <algorithm>
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
using cuota::adamw_options;
using cuota::device_buffer;
using cuota::quantized_moments;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<quantized_moments<>> &&
              std::is_nothrow_move_constructible_v<quantized_moments<>>);

namespace {

using host_numbers = std::vector<float>;

// AdamW as in its paper, in double, with v instead of its root.
struct plain_adamw {
    std::vector<double> m, v;
    std::uint64_t t = 0;

    explicit plain_adamw(std::size_t n) : m(n), v(n) {}
    void step(std::vector<double>& p, host_numbers const& g, adamw_options const& o) {
        ++t;
        double const c1 = 1 - std::pow(o.beta1, static_cast<double>(t));
        double const c2 = 1 - std::pow(o.beta2, static_cast<double>(t));
        for (std::size_t i = 0; i != p.size(); ++i) {
            double const x = static_cast<double>(g[i]);
            m[i] = o.beta1 * m[i] + (1 - o.beta1) * x;
            v[i] = o.beta2 * v[i] + (1 - o.beta2) * x * x;
            p[i] -=
                o.learning_rate * (m[i] / c1 / (std::sqrt(v[i] / c2) + o.epsilon) + o.weight_decay * p[i]);
        }
    }
};

struct moments_scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 8_MiB}};

    [[nodiscard]] device_buffer<float> of(host_numbers const& host) const {
        return {std::span<float const>{host}, s, pool};
    }
    template <std::size_t Block>
    [[nodiscard]] std::pair<host_numbers, host_numbers> loaded(quantized_moments<Block> const& from) const {
        device_buffer<float> m{from.size(), s, pool};
        device_buffer<float> v{from.size(), s, pool};
        from.load(s, m.write(s), v.write(s));
        return {m.to_vector(s), v.to_vector(s)};
    }
};

host_numbers random_gradients(std::size_t n, std::mt19937& random) {
    host_numbers g(n);
    for (float& x : g) {
        x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 1e-3f;
        if (random() % 4 == 0) x *= 1e-4f;
        if (random() % 9 == 0) x = 0;
    }
    return g;
}

// Moments are within their block's bound of the exact ones, plus a margin for rounding to float.
void expect_moments(plain_adamw const& exact, host_numbers const& m, host_numbers const& v,
                    std::size_t block) {
    for (std::size_t begin = 0; begin < m.size(); begin += block) {
        std::size_t const end = std::min(begin + block, m.size());
        double most_m = 0;
        double most_root = 0;
        for (std::size_t i = begin; i != end; ++i) {
            most_m = std::max(most_m, std::fabs(exact.m[i]));
            most_root = std::max(most_root, std::sqrt(exact.v[i]));
        }
        double const allowed_m = most_m / 254 * (1 + 1e-5);
        double const step = most_root / 254 * (1 + 1e-5);
        for (std::size_t i = begin; i != end; ++i) {
            double const root = std::sqrt(exact.v[i]);
            double const error = std::fabs(std::sqrt(static_cast<double>(v[i])) - root);
            bool const is_small = root > 0 && root < step / 2;
            if (std::fabs(static_cast<double>(m[i]) - exact.m[i]) > allowed_m) FAIL("m of " << i);
            if (error > (is_small ? step : step / 2)) FAIL("v of " << i);
            if (root > 0 && !(v[i] > 0)) FAIL("v of " << i << " was lost");
        }
    }
}

// Logistic regression on labels of a noisy plane, with full batches. The reference runs here in double, the tested code on the device.
struct logistic_problem {
    std::size_t features, samples;
    std::vector<float> x;
    std::vector<float> y;

    logistic_problem(std::size_t f, std::size_t n, unsigned seed) : features{f}, samples{n}, x(f * n), y(n) {
        std::mt19937 random{seed};
        auto const one = [&] { return static_cast<float>(random() % 2001) * 1e-3f - 1.0f; };
        std::vector<float> plane(f);
        for (float& w : plane) w = one();
        for (std::size_t k = 0; k != n; ++k) {
            float sum = one();
            // Feature scales differ by 1000 within every block.
            for (std::size_t i = 0; i != f; ++i) {
                float const value = one();
                x[k * f + i] = value * (i % 3 == 0 ? 1e-3f : 1.0f);
                sum += value * plane[i];
            }
            y[k] = sum > 0 ? 1.0f : 0.0f;
        }
    }
    template <class P>
    [[nodiscard]] double loss_and_gradient(std::vector<P> const& w, host_numbers& g) const {
        std::vector<double> sum(features);
        double loss = 0;
        for (std::size_t k = 0; k != samples; ++k) {
            double z = 0;
            for (std::size_t i = 0; i != features; ++i)
                z += static_cast<double>(w[i]) * static_cast<double>(x[k * features + i]);
            double const label = static_cast<double>(y[k]);
            loss += std::log1p(std::exp(-std::fabs(z))) + std::max(z, 0.0) - z * label;
            double const error = 1 / (1 + std::exp(-z)) - label;
            for (std::size_t i = 0; i != features; ++i)
                sum[i] += error * static_cast<double>(x[k * features + i]);
        }
        for (std::size_t i = 0; i != features; ++i)
            g[i] = static_cast<float>(sum[i] / static_cast<double>(samples));
        return loss / static_cast<double>(samples);
    }
};

}  // namespace

TEST_CASE("the moments of each step equal AdamW's within the bound of their block",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    constexpr std::size_t n = 1000;
    std::mt19937 random{1};
    adamw_options const by{.learning_rate = 0.01, .weight_decay = 0.1};
    quantized_moments<> adam{n, on.s, on.pool};
    host_numbers start(n);
    for (float& p : start) p = static_cast<float>(random() % 1000) * 1e-3f;
    auto parameters = on.of(start);
    for (std::uint64_t t = 0; t != 40; ++t) {
        // One exact step from the quantized state.
        auto const before = on.loaded(adam);
        auto const p = parameters.to_vector(on.s);
        plain_adamw exact{n};
        exact.t = t;
        for (std::size_t i = 0; i != n; ++i) {
            exact.m[i] = static_cast<double>(before.first[i]);
            exact.v[i] = static_cast<double>(before.second[i]);
        }
        std::vector<double> next(p.begin(), p.end());
        auto const g = random_gradients(n, random);
        exact.step(next, g, by);

        auto const there = on.of(g);
        adam.step(on.s, parameters.write(on.s), there.read(on.s), by);
        auto const now = on.loaded(adam);
        expect_moments(exact, now.first, now.second, 256);
        auto const moved = parameters.to_vector(on.s);
        for (std::size_t i = 0; i != n; ++i)  // exact except for float rounding of v and the parameter
            if (std::fabs(static_cast<double>(moved[i]) - next[i]) > 1e-7 * std::fabs(next[i]) + 1e-8)
                FAIL("parameter " << i << " in step " << t << ": " << moved[i] << ", not " << next[i]);
    }
    CHECK(adam.steps() == 40);
}

TEST_CASE("training with 8-bit moments ends within one hundredth of AdamW's loss",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    logistic_problem const problem{300, 200, 5};
    adamw_options const by{.learning_rate = 0.02, .weight_decay = 0.001};
    quantized_moments<64> adam{problem.features, on.s, on.pool};
    plain_adamw exact{problem.features};
    std::vector<double> w(problem.features);
    device_buffer<float> there{problem.features, on.s, on.pool};
    host_numbers g(problem.features);
    double const first = problem.loss_and_gradient(w, g);
    double worst = 0;
    for (int t = 0; t != 400; ++t) {
        double const plain = problem.loss_and_gradient(w, g);
        exact.step(w, g, by);
        double const quantized = problem.loss_and_gradient(there.to_vector(on.s), g);
        auto const gradients = on.of(g);
        adam.step(on.s, there.write(on.s), gradients.read(on.s), by);
        worst = std::max(worst, quantized - plain);
    }
    double const plain = problem.loss_and_gradient(w, g);
    double const quantized = problem.loss_and_gradient(there.to_vector(on.s), g);
    INFO("from " << first << " to " << plain << ", and to " << quantized << "; at worst " << worst
                 << " more");
    CHECK(plain < first / 10);
    CHECK(std::fabs(quantized - plain) < first / 100);
    CHECK(worst < first / 20);
}

TEST_CASE("a gradient that is small in comparison with its neighbours is not divided by epsilon",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    quantized_moments<2> adam{2, on.s, on.pool};
    auto parameters = on.of({0, 0});
    adamw_options const by{.learning_rate = 1, .weight_decay = 0};
    // The second root is 1/1000 of the first. Its m would round to 0 as well, so the next gradient reduces the first m alone.
    auto const first = on.of({1, 1e-3f});
    adam.step(on.s, parameters.write(on.s), first.read(on.s), by);
    auto const next = on.of({-8.9f, 1e-3f});  // brings the first m near 0
    adam.step(on.s, parameters.write(on.s), next.read(on.s), by);
    auto const last = on.of({0, 1e-3f});
    adam.step(on.s, parameters.write(on.s), last.read(on.s), by);
    CHECK(std::fabs(parameters.to_vector(on.s)[1]) < 4);  // 10^4 or more with a root of 0
    CHECK(on.loaded(adam).second[1] > 0);
}

TEST_CASE("gradients of 0 leave the moments at 0, and only decay the parameters",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    quantized_moments<> adam{300, on.s, on.pool};
    auto parameters = on.of(host_numbers(300, 2.0f));
    auto const none = on.of(host_numbers(300));
    adam.step(on.s, parameters.write(on.s), none.read(on.s), {.learning_rate = 0.5, .weight_decay = 0.5});
    CHECK(parameters.to_vector(on.s) == host_numbers(300, 1.5f));
    auto const now = on.loaded(adam);
    CHECK(now.first == host_numbers(300));
    CHECK(now.second == host_numbers(300));
}

TEST_CASE("a gradient that is not finite affects only its own parameter",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    quantized_moments<> adam{4, on.s, on.pool};
    auto parameters = on.of({1, 1, 1, 1});
    auto const g =
        on.of({1, std::numeric_limits<float>::infinity(), 1, std::numeric_limits<float>::quiet_NaN()});
    adam.step(on.s, parameters.write(on.s), g.read(on.s));
    auto const p = parameters.to_vector(on.s);
    auto const now = on.loaded(adam);
    for (std::size_t const i : {0u, 2u}) {
        CHECK(std::fabs(p[i] - 0.99899f) < 1e-4f);
        CHECK(std::fabs(now.first[i] - 0.1f) < 1e-3f);
        CHECK(std::fabs(now.second[i] - 0.001f) < 1e-5f);
    }
    for (std::size_t const i : {1u, 3u}) {
        CHECK(std::isnan(p[i]));
        CHECK(std::isnan(now.first[i]));
        CHECK(std::isnan(now.second[i]));
    }
}

TEST_CASE("restored moments continue like the saved ones", "[training][quantized_moments][gpu]") {
    moments_scene const on;
    std::mt19937 random{2};
    constexpr std::size_t n = 700;
    quantized_moments<> a{n, on.s, on.pool};
    auto pa = on.of(host_numbers(n, 1.0f));
    for (int t = 0; t != 5; ++t) {
        auto const g = on.of(random_gradients(n, random));
        a.step(on.s, pa.write(on.s), g.read(on.s));
    }
    auto const saved = on.loaded(a);
    quantized_moments<> b{n, on.s, on.pool};
    auto const m = on.of(saved.first);
    auto const v = on.of(saved.second);
    b.store(on.s, m.read(on.s), v.read(on.s), a.steps());
    CHECK(b.steps() == 5);
    auto const again = on.loaded(b);
    for (std::size_t i = 0; i != n; ++i) {  // as close as a maximum that is rounded twice allows
        CHECK(std::fabs(again.first[i] - saved.first[i]) <= std::fabs(saved.first[i]) * 0x1p-13f);
        CHECK(std::fabs(again.second[i] - saved.second[i]) <= saved.second[i] * 0x1p-12f);
    }
}

TEST_CASE("a step with other counts, overlapping memory or invalid options is refused and not counted",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    quantized_moments<> adam{3, on.s, on.pool};
    auto three = on.of({1, 2, 3});
    auto const g = on.of({1, 1, 1});
    auto four = on.of({1, 2, 3, 4});
    auto const refused = [&](adamw_options const& by) {
        std::string const why =
            thrown<cuota::usage_error>([&] { adam.step(on.s, three.write(on.s), g.read(on.s), by); }).what();
        CHECK(adam.steps() == 0);
        return why;
    };
    double const nan = std::numeric_limits<double>::quiet_NaN();
    for (double const bad : {-1.0, nan, std::numeric_limits<double>::infinity()}) {
        CHECK(has(refused({.learning_rate = bad}), "adamw: learning_rate = "));
        CHECK(has(refused({.epsilon = bad}), "adamw: epsilon = "));
        CHECK(has(refused({.weight_decay = bad}), "adamw: weight_decay = "));
    }
    CHECK(has(refused({.epsilon = 0}), "epsilon = 0 is out of range (0, inf)"));
    for (double const bad : {-0.1, 1.0, nan}) {
        CHECK(has(refused({.beta1 = bad}), "beta1 = "));
        CHECK(has(refused({.beta2 = bad}), "beta2 = "));
    }
    auto const step = [&](auto const& p, auto const& of) {
        return std::string{thrown<cuota::usage_error>([&] { adam.step(on.s, p, of); }).what()};
    };
    CHECK(
        has(step(four.write(on.s), g.read(on.s)), "quantized_moments::step: element counts differ: 4 and 3"));
    CHECK(has(step(three.write(on.s), four.read(on.s)),
              "quantized_moments::step: element counts differ: 4 and 3"));
    CHECK(has(step(three.write(on.s), three.read(on.s)), "overlap"));
    CHECK_THROWS_AS(adam.load(on.s, three.write(on.s), four.write(on.s)), cuota::usage_error);
    CHECK_THROWS_AS(adam.load(on.s, four.write(on.s), three.write(on.s)), cuota::usage_error);
    CHECK_THROWS_AS(adam.store(on.s, four.read(on.s), three.read(on.s), 7), cuota::usage_error);
    CHECK_THROWS_AS(adam.store(on.s, three.read(on.s), four.read(on.s), 7), cuota::usage_error);
    CHECK(adam.steps() == 0);
    CHECK(three.to_vector(on.s) == host_numbers{1, 2, 3});
}

TEST_CASE("moments hold exactly their computed bytes, and a refusal leaves nothing held",
          "[training][quantized_moments][gpu]") {
    CHECK(quantized_moments<>::bytes(1024) == 2 * (1024 + 16));
    CHECK(quantized_moments<8>::bytes(9, 512) == 2048);
    CHECK(quantized_moments<>::bytes(cuota::unlimited / 2) == cuota::unlimited);
    cuota::stream const s;
    std::size_t const granularity = cuota::any_resource{cuota::device_memory{}}.granularity();
    std::size_t const needed = quantized_moments<2>::bytes(1000, granularity);
    for (std::size_t limit = 0; limit <= needed; limit += granularity) {
        cuota::budget const b{"test", limit};
        cuota::budgeted<> const memory{b};
        if (limit < needed) {
            CHECK_THROWS_AS((quantized_moments<2>{1000, s, memory}), cuota::budget_exceeded);
        } else {
            quantized_moments<2> const adam{1000, s, memory};
            CHECK(b.held() == needed);
            CHECK(adam.bytes() == quantized_moments<2>::bytes(1000));
        }
        CHECK(b.held() == 0);
    }
}

TEST_CASE("the blocks of a step may have any size and alignment", "[training][quantized_moments][gpu]") {
    // An aligned block of 256 is updated in registers, the same block unaligned number by number.
    moments_scene const on;
    std::mt19937 random{3};
    for (std::size_t const n : {1u, 255u, 256u, 257u, 1000u}) {
        auto const start = random_gradients(n, random);
        quantized_moments<> a{n, on.s, on.pool};
        quantized_moments<> b{n, on.s, on.pool};
        auto pa = on.of(start);
        host_numbers shifted(n + 1, 7);
        std::copy(start.begin(), start.end(), shifted.begin() + 1);
        auto pb = on.of(shifted);
        for (int t = 0; t != 5; ++t) {
            auto g = random_gradients(n, random);
            auto const ga = on.of(g);
            g.insert(g.begin(), 7);
            auto const gb = on.of(g);
            a.step(on.s, pa.write(on.s), ga.read(on.s));
            auto const to = pb.write(on.s);
            auto const from = gb.read(on.s);
            b.step(on.s, to.span().subspan(1, n), from.span().subspan(1, n));
        }
        auto const got = pb.to_vector(on.s);
        CHECK(got[0] == 7);
        CHECK(host_numbers(got.begin() + 1, got.end()) == pa.to_vector(on.s));
        CHECK(on.loaded(a) == on.loaded(b));
    }
}

TEST_CASE("moments are accurate where squares of gradients overflow or underflow",
          "[training][quantized_moments][gpu]") {
    moments_scene const on;
    for (float const scale : {1e-30f, 1e-20f, 1e19f, 1e30f, 1e38f}) {
        quantized_moments<4> adam{4, on.s, on.pool};
        auto parameters = on.of({0, 0, 0, 0});
        auto const g = on.of({scale, -scale, scale / 2, 0});
        adam.step(on.s, parameters.write(on.s), g.read(on.s),
                  {.learning_rate = 1, .epsilon = 1e-300, .weight_decay = 0});
        auto const p = parameters.to_vector(on.s);
        INFO("gradients of " << scale);
        CHECK(std::fabs(p[0] + 1) < 1e-6f);
        CHECK(std::fabs(p[1] - 1) < 1e-6f);
        CHECK(std::fabs(p[2] + 1) < 1e-6f);
        CHECK(p[3] == 0);  // neither moved nor 0 / 0
    }
}
