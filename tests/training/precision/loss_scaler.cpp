// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/loss_scaler.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::loss_scaler;
using cuota::loss_scaler_state;
using cuota::scaling_phase;
using support::has;
using support::thrown;

static_assert(std::is_trivially_copyable_v<loss_scaler>);

namespace {

// A table of the state after each call and of the calls that are errors, written from the paper and torch's documentation, independently of
// loss_scaler.
struct plain_scaler {
    float scale, floor, ceiling;
    double up, down;
    unsigned long every;
    unsigned long run = 0;
    char state = 'R';  // READY, UNSCALED, STEPPED
    bool overflow = false;

    // Calls: 'u'nscale, 's'tep, 'e'nd of a step, 'b'oth. Returns false for an error.
    bool call(char what, bool bad) {
        static std::string const allowed = "Ru Rs Rb Us Ub Se";
        if (allowed.find(std::string{state} + what) == std::string::npos) return false;
        if (what == 'u') state = 'U';
        if (what == 's' || what == 'b') {
            overflow = bad;
            state = 'S';
        }
        if (what == 'e' || what == 'b') {
            state = 'R';
            next();
        }
        return true;
    }
    void next() {
        run = overflow ? 0 : run + 1;
        double to = scale;
        if (overflow) to *= down;
        if (run == every) {
            to *= up;
            run = 0;
        }
        if (to < floor) to = floor;
        if (to > ceiling) to = ceiling;
        scale = static_cast<float>(to);
    }
};

// Returns whether the call threw. Stores its result in `taken`.
bool throws_misuse(loss_scaler& s, char what, bool bad, bool& taken) {
    try {
        if (what == 'u') {
            double const inverse = s.unscale();
            REQUIRE(inverse == 1.0 / static_cast<double>(s.scale()));
        } else if (what == 's') taken = s.step(bad);
        else if (what == 'e') s.update();
        else taken = s.update(bad);
        return false;
    } catch (cuota::usage_error const&) { return true; }
}

char phase_letter(scaling_phase p) {
    return p == scaling_phase::idle ? 'R' : p == scaling_phase::unscaled ? 'U' : 'S';
}

std::string refused_options(cuota::loss_scaler_options const& o) {
    return thrown<cuota::usage_error>([&] { (void)loss_scaler{o}; }).what();
}

}  // namespace

TEST_CASE("a loss_scaler has the same default options as torch", "[training][loss_scaler]") {
    loss_scaler s;
    CHECK(s.scale() == 65536.0f);
    CHECK(s.inverse() == 1.0 / 65536);
    for (int i = 0; i != 1999; ++i) CHECK(s.update(false));
    CHECK(s.scale() == 65536.0f);
    CHECK(s.good_steps() == 1999);
    CHECK(s.update(false));
    CHECK(s.scale() == 131072.0f);
    CHECK(s.good_steps() == 0);
    CHECK_FALSE(s.update(true));
    CHECK(s.scale() == 65536.0f);
}

TEST_CASE("a loss_scaler computes the same scales as torch", "[training][loss_scaler]") {
    loss_scaler s{{.initial_scale = 4, .growth = 2, .backoff = 0.25, .interval = 2}};
    CHECK(s.update(false));
    CHECK(s.scale() == 4);
    CHECK(s.update(false));
    CHECK(s.scale() == 8);
    CHECK_FALSE(s.update(true));
    CHECK(s.scale() == 2);
    CHECK(s.update(false));
    CHECK_FALSE(s.update(true));  // resets the count
    CHECK(s.update(false));
    CHECK(s.scale() == 1);
    CHECK(s.update(false));
    CHECK(s.scale() == 2);
}

TEST_CASE("the scale stays between min_scale and max_scale", "[training][loss_scaler]") {
    loss_scaler s{{.initial_scale = 3, .interval = 1, .min_scale = 1, .max_scale = 10}};
    CHECK_FALSE(s.is_at_min_scale());
    for (int i = 0; i != 5; ++i) (void)s.update(true);
    CHECK(s.scale() == 1);
    CHECK(s.is_at_min_scale());
    for (int i = 0; i != 9; ++i) (void)s.update(false);
    CHECK(s.scale() == 10);

    auto const most = std::numeric_limits<float>::max();
    loss_scaler high{{.initial_scale = 1e38f, .growth = 1e300, .interval = 1, .max_scale = most}};
    (void)high.update(false);
    CHECK(high.scale() == most);
    CHECK(high.inverse() > 0);
    (void)high.update(false);
    CHECK(high.scale() == most);
}

TEST_CASE("calls in the wrong order are refused and change nothing", "[training][loss_scaler]") {
    loss_scaler s{{.initial_scale = 8, .interval = 1}};
    CHECK(has(thrown<cuota::usage_error>([&] { s.update(); }).what(), "update was called without step()"));
    CHECK(s.unscale() == 0.125);
    cuota::usage_error const twice = thrown<cuota::usage_error>([&] { (void)s.unscale(); });
    CHECK(has(twice.what(), "loss_scaler: unscale was called twice"));
    CHECK(has(twice.where().file, "loss_scaler.cpp"));
    CHECK(s.phase() == scaling_phase::unscaled);
    CHECK(has(thrown<cuota::usage_error>([&] { s.update(); }).what(), "update was called without step()"));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)s.state(); }).what(), "in the middle of a step"));
    CHECK(s.step(false));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)s.unscale(); }).what(),
              "unscale was called after step()"));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)s.step(true); }).what(), "step was called twice"));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)s.update(true); }).what(), "step was called twice"));
    CHECK(s.scale() == 8);
    s.update();  // the first decision counts
    CHECK(s.scale() == 16);
    CHECK(s.phase() == scaling_phase::idle);
    CHECK(s.unscale() == 1.0 / 16);
}

TEST_CASE("a million random sequences of calls have the results of a plain state machine",
          "[training][loss_scaler]") {
    std::mt19937_64 random{20261};
    auto const below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    std::uint64_t refusals = 0;
    std::uint64_t at_an_end = 0;
    int const sequences = support::rounds(1'000'000);
    for (int sequence = 0; sequence != sequences; ++sequence) {
        float const floor = std::ldexp(1.0f, -static_cast<int>(below(20)));
        float const ceiling = floor * static_cast<float>(1 + below(1u << below(20)));
        float const initial = below(2) ? floor : ceiling;
        double const up = 1.0 + (1.0 + below(40)) / 16;
        double const down = (1.0 + below(15)) / 16;
        std::uint64_t const every = 1 + below(4);
        loss_scaler s{{initial, up, down, every, floor, ceiling}};
        plain_scaler plain{initial, floor, ceiling, up, down, every};
        unsigned const calls = 1 + below(12);
        for (unsigned i = 0; i != calls; ++i) {
            bool const bad = below(3) == 0;
            // Mostly valid calls, since exceptions dominate the cost.
            char const next = plain.state == 'S'   ? 'e'
                              : plain.state == 'U' ? "sb"[below(2)]
                                                   : "usb"[below(3)];
            char const what = below(50) == 0 ? "useb"[below(4)] : next;
            bool taken = !bad;
            bool const is_refused = throws_misuse(s, what, bad, taken);
            bool const is_same = is_refused != plain.call(what, bad) && s.scale() == plain.scale &&
                                 s.good_steps() == plain.run && phase_letter(s.phase()) == plain.state &&
                                 taken == !bad;
            if (!is_same) FAIL("sequence " << sequence << ", call " << i << ' ' << what);
            refusals += is_refused;
            at_an_end += s.scale() == floor || s.scale() == ceiling;
        }
    }
    CHECK(refusals > support::rounds(10'000U));
    CHECK(at_an_end > support::rounds(10'000U));
}

TEST_CASE("invalid options are refused with their values", "[training][loss_scaler]") {
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto const infinite = std::numeric_limits<float>::infinity();
    CHECK(has(refused_options({.growth = 1}), "growth = 1 must be finite and above 1"));
    CHECK(has(refused_options({.growth = infinite}), "growth = inf"));
    CHECK(has(refused_options({.growth = nan}), "growth = nan"));
    CHECK(has(refused_options({.backoff = 1}), "backoff = 1 is out of range (0, 1)"));
    CHECK(has(refused_options({.backoff = 0}), "backoff = 0 is"));
    CHECK(has(refused_options({.backoff = nan}), "backoff = nan"));
    CHECK(has(refused_options({.interval = 0}), "interval must be at least 1 step"));
    CHECK(has(refused_options({.min_scale = 0}), "min_scale = 0 must be"));
    CHECK(has(refused_options({.min_scale = 1e-40f}), "e-41 must be a positive normal number"));
    CHECK(has(refused_options({.min_scale = nan}), "min_scale = nan must be"));
    CHECK(has(refused_options({.max_scale = infinite}), "max_scale = inf"));
    CHECK(has(refused_options({.initial_scale = 1, .min_scale = 2, .max_scale = 1}),
              "max_scale = 1 must be finite and at least min_scale = 2"));
    CHECK(has(refused_options({.initial_scale = 0.5f}), "initial_scale = 0.5 is outside [1, 1.67772e+07]"));
    CHECK(has(refused_options({.initial_scale = 1e9f}), "initial_scale = 1e+09 is outside"));
    CHECK(has(refused_options({.initial_scale = nan}), "initial_scale = nan is outside"));
}

TEST_CASE("a restored state continues where it was saved", "[training][loss_scaler]") {
    loss_scaler a{{.initial_scale = 3.3f, .growth = 1.7, .interval = 3}};
    for (int i = 0; i != 5; ++i) (void)a.update(false);
    std::string const line = a.state().text();
    CHECK(loss_scaler_state{65536, 7}.text() == "cuota-loss-scaler-state 1 scale 65536 good-steps 7");
    loss_scaler b{{.initial_scale = 3.3f, .growth = 1.7, .interval = 3}};
    (void)b.unscale();
    b.restore(loss_scaler_state::parse(line));
    CHECK(b.state() == a.state());
    for (int i = 0; i != 20; ++i) {
        CHECK(a.update(i % 7 == 3) == b.update(i % 7 == 3));
        CHECK(a.state() == b.state());
    }
}

TEST_CASE("every scale is unchanged after writing and parsing", "[training][loss_scaler]") {
    std::mt19937 random{5};
    for (int i = 0; i != 20'000; ++i) {
        float const scale = std::ldexp(1.0f + static_cast<float>(random() % (1u << 23)) * 0x1p-23f,
                                       static_cast<int>(random() % 250) - 125);
        loss_scaler_state const state{scale, random()};
        if (loss_scaler_state::parse(state.text()) != state) FAIL(state.text());
    }
}

TEST_CASE("an invalid text of a state is refused", "[training][loss_scaler]") {
    for (char const* const text :
         {"", "cuota-loss-scaler-state 1 scale 65536 good-steps",
          "cuota-loss-scaler-state 1 scale 65536 good-steps 7 ",
          "cuota-loss-scaler-state 2 scale 65536 good-steps 7",
          "cuota-loss-scaler-state 1 scale inf good-steps 7",
          "cuota-loss-scaler-state 1 scale nan good-steps 7",
          "cuota-loss-scaler-state 1 scale -2 good-steps 7", "cuota-loss-scaler-state 1 scale 0 good-steps 7",
          "cuota-loss-scaler-state 1 scale 065536 good-steps 7",
          "cuota-loss-scaler-state 1 scale 65536 good-steps -7",
          "cuota-loss-scaler-state 1 scale 1e99 good-steps 7",
          "cuota-loss-scaler-state 1 scale 65536 good-steps 18446744073709551616",
          "cuota-loader-state 1 epoch 1 position 2 order 3"})
        CHECK(has(thrown<cuota::usage_error>([&] { (void)loss_scaler_state::parse(text); }).what(),
                  "loss_scaler_state: cannot parse"));
}

TEST_CASE("a state that does not fit the options is refused and changes nothing", "[training][loss_scaler]") {
    loss_scaler s{{.initial_scale = 4, .interval = 3, .min_scale = 2, .max_scale = 8}};
    (void)s.update(false);
    auto const refused_state = [&](loss_scaler_state const& state) {
        std::string const why = thrown<cuota::usage_error>([&] { s.restore(state); }).what();
        CHECK(s.state() == loss_scaler_state{4, 1});
        return why;
    };
    CHECK(has(refused_state({1, 0}), "scale = 1 is outside [2, 8]"));
    CHECK(has(refused_state({16, 0}), "scale = 16 is outside [2, 8]"));
    CHECK(has(refused_state({std::numeric_limits<float>::quiet_NaN(), 0}), "scale = nan is outside"));
    CHECK(has(refused_state({4, 3}), "3 good steps are out of range: the growth interval is 3"));
    s.restore({2, 2});
    CHECK(s.state() == loss_scaler_state{2, 2});
}
