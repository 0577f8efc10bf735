// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/next_steps.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace cuota::literals;
using cuota::next_step;
using cuota::next_steps;
using cuota::step_kind;

namespace {

cuota::refusal refused(std::size_t charged, std::vector<cuota::budget_facts> budgets, std::size_t by = 0) {
    cuota::refusal r;
    r.asked = r.charged = charged;
    r.budgets = std::move(budgets);
    r.refused_by = by;
    r.would_fit = cuota::unlimited;
    for (cuota::budget_facts const& b : r.budgets) r.would_fit = std::min(r.would_fit, b.free());
    return r;
}

std::vector<std::string> texts(cuota::refusal const& r) {
    std::vector<std::string> all;
    for (next_step const& s : next_steps(r)) all.push_back((s.suffices ? "" : "in vain: ") + s.text);
    return all;
}

bool proposes(cuota::refusal const& r, step_kind kind) {
    return std::ranges::count(next_steps(r), kind, &next_step::kind) != 0;
}

// The step of that kind; the test fails without one.
next_step one(cuota::refusal const& r, step_kind kind) {
    std::vector<next_step> const steps = next_steps(r);
    REQUIRE(std::ranges::count(steps, kind, &next_step::kind) == 1);
    return *std::ranges::find(steps, kind, &next_step::kind);
}

std::size_t sum(std::vector<cuota::holding> const& holders) {
    std::size_t bytes = 0;
    for (cuota::holding const& h : holders) bytes += h.bytes;
    return bytes;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the steps after a refusal are computed from its facts", "[core][next_steps]") {
    cuota::refusal r = refused(50, {{"model", 100, 60, 60}});
    r.holders = {{"weights", {"train.cpp", 3}, 40}, {"biases", {"train.cpp", 4}, 20}};
    std::vector<next_step> const steps = next_steps(r);
    REQUIRE(texts(r) == lines{"raise the limit of model to 110 B", "request at most 40 B",
                              "free 20 B: biases (train.cpp:4)"});
    REQUIRE(steps[0].kind == step_kind::raise_limits);
    REQUIRE(steps[0].change == 0.1);
    REQUIRE(steps[0].bytes == 10);
    REQUIRE(steps[0].limits.size() == 1);
    REQUIRE(steps[0].limits[0].budget == "model");
    REQUIRE(steps[0].limits[0].level == 0);
    REQUIRE(steps[0].limits[0].limit == 110);
    REQUIRE(steps[1].kind == step_kind::ask_less);
    REQUIRE(steps[1].change == 0.2);
    REQUIRE(steps[1].bytes == 40);
    REQUIRE(steps[1].count == 40);
    REQUIRE(steps[2].kind == step_kind::release);
    REQUIRE(steps[2].bytes == 20);
    REQUIRE(steps[2].holders.size() == 1);
    REQUIRE(steps[2].holders[0].name == cuota::tag{"biases"});
}

TEST_CASE("the step that changes the smaller share comes first, and what is in vain last",
          "[core][next_steps]") {
    cuota::refusal r = refused(90, {{"b", 100, 20, 20}});
    r.holders = {{"small", {}, 10}, {"tiny", {}, 10}};
    REQUIRE(texts(r) == lines{"raise the limit of b to 110 B", "request at most 80 B", "free 10 B: tiny"});
    r.holders = {{"large", {}, 1}, {"small", {}, 1}};
    REQUIRE(next_steps(r).back().kind == step_kind::release);
    REQUIRE_FALSE(next_steps(r).back().suffices);
    // Equal shares: in the order of the kinds.
    r = refused(100, {{"b", 100, 50, 50}});
    r.holders = {{"half", {}, 25}, {"other half", {}, 25}};
    REQUIRE(texts(r) == lines{"request at most 50 B", "raise the limit of b to 150 B",
                              "free 50 B: half 25 B and other half 25 B"});
}

TEST_CASE("what fits is told in whole units of the request", "[core][next_steps]") {
    cuota::refusal r = refused(8_KiB, {{"b", 5000, 0, 0}});
    auto const ask = [&] { return one(r, step_kind::ask_less); };
    REQUIRE(ask().text == "request at most 5'000 bytes (4.9 KiB)");
    r.request = cuota::label_for<float>({}, {});
    REQUIRE(ask().text == "request at most 1'250 floats (4.9 KiB)");
    r.request.unit = "elements";
    r.request.unit_bytes = 12;
    REQUIRE(ask().text == "request at most 416 elements of 12 B (4.9 KiB)");
    REQUIRE(ask().bytes == 416 * 12);
    r.request.unit = "samples in a batch";
    r.request.unit_bytes = 5000;
    REQUIRE(ask().text == "request at most 1 sample in a batch (4.9 KiB)");
    REQUIRE(ask().suffices);
    r.request.unit_bytes = 5001;
    REQUIRE(ask().text == "nothing fits: one of the samples in a batch needs 4.9 KiB, 4.9 KiB are available");
    REQUIRE(ask().count == 0);
    REQUIRE(ask().bytes == 0);
    REQUIRE_FALSE(ask().suffices);
    r.request.unit_bytes = 0;  // no unit, but must not be divided by
    REQUIRE(ask().count == 5000);
    r = refused(1, {{"b", 100, 100, 100}});
    REQUIRE(ask().text == "nothing fits: 0 B are available");
}

TEST_CASE("what fits the budgets is no promise when the device has less", "[core][next_steps]") {
    cuota::refusal r = refused(500, {{"b", 450, 0, 0}});
    r.granule = 16;
    r.device = cuota::device_facts{0, "simulated", 1000, 107, 0};
    REQUIRE(one(r, step_kind::ask_less).bytes == 96);
    r.largest_free = 200;  // a pool has that ready
    REQUIRE(one(r, step_kind::ask_less).bytes == 200);
}

TEST_CASE("one holder that covers it is better than two, and the smallest such the best",
          "[core][next_steps]") {
    cuota::refusal r = refused(60, {{"b", 100, 95, 95}});
    r.holders = {{"a", {}, 45}, {"b", {}, 25}, {"c", {}, 15}, {"d", {}, 10}};
    auto const released = [&](std::size_t missing) {
        r.asked = r.charged = 5 + missing;
        std::string names;
        for (cuota::holding const& h : one(r, step_kind::release).holders) names += h.name.text();
        return names;
    };
    REQUIRE(released(1) == "d");
    REQUIRE(released(10) == "d");
    REQUIRE(released(11) == "c");
    REQUIRE(released(26) == "a");
    REQUIRE(released(45) == "a");
    REQUIRE(released(46) == "ad");
    REQUIRE(released(56) == "ac");
    REQUIRE(released(70) == "ab");
    REQUIRE(released(71) == "abd");
    REQUIRE(released(95) == "abcd");
}

TEST_CASE("memory that is cached in a pool is not proposed for release", "[core][next_steps]") {
    cuota::refusal r = refused(60, {{"b", 100, 90, 90}});
    r.holders = {{"cached in a pool", {}, 60, true}, {"x", {}, 30}};
    REQUIRE(one(r, step_kind::release).text == "free 30 B: x");  // the pool's part follows
    REQUIRE(one(r, step_kind::release).suffices);
    r.holders = {{"cached in a pool", {}, 90, true}};
    REQUIRE(one(r, step_kind::release).holders.empty());
}

TEST_CASE("a release that would not do is said to be in vain, and why", "[core][next_steps]") {
    cuota::refusal r = refused(130, {{"b", 100, 60, 60}});
    auto const release = [&] { return one(r, step_kind::release); };
    REQUIRE_FALSE(release().suffices);
    REQUIRE(release().text == "free all 60 B held in b: the request alone is 30 B over its limit");
    r = refused(90, {{"b", 100, 60, 60}});
    r.holders = {{"known", {}, 20}};
    REQUIRE(release().text == "free all 60 B held in b: it would still be 30 B short");
    REQUIRE(release().holders.size() == 1);
    r = refused(80, {{"leaf", 100, 60, 60}, {"root", 70, 65, 65}});
    REQUIRE(release().text == "free all 60 B held in leaf: the request alone is 10 B over the limit of root");
    r = refused(60, {{"leaf", 100, 60, 60}, {"root", 200, 60, 60}});
    r.device = cuota::device_facts{1, "simulated", 100, 10, 30};
    REQUIRE(release().text == "free all 60 B held in leaf: it would still be 20 B short on device 1");
    r.device->ours = 50;
    REQUIRE(release().suffices);
    REQUIRE(release().bytes == 50);
}

TEST_CASE("releasing is no advice where nothing is held, or nothing is missing", "[core][next_steps]") {
    REQUIRE_FALSE(proposes(refused(120, {{"b", 100, 0, 0}}), step_kind::release));
    REQUIRE_FALSE(proposes(refused(10, {{"b", 100, 50, 0}}), step_kind::release));
    cuota::refusal const nameless = refused(60, {{"b", 100, 50, 50}});
    REQUIRE(one(nameless, step_kind::release).text == "free 10 B held in b");
}

TEST_CASE("all limits on the way that would refuse are to be raised", "[core][next_steps]") {
    cuota::refusal const r = refused(30,
                                     {{"layer", cuota::unlimited, 10, 20},
                                      {"model", 100, 90, 95},
                                      {"node", 1_GiB, 90, 95},
                                      {"gpu", 2048, 2040, 2040}},
                                     1);
    next_step const raise = one(r, step_kind::raise_limits);
    REQUIRE(raise.text == "raise the limits of model to 120 B and gpu to 2.1 KiB");
    REQUIRE(raise.limits.size() == 2);
    REQUIRE(raise.limits[0].level == 1);
    REQUIRE(raise.limits[1].level == 3);
    REQUIRE(raise.limits[1].limit == 2070);
    REQUIRE(raise.bytes == 22);
}

TEST_CASE("a reservation is grown, by what is missing", "[core][next_steps]") {
    cuota::refusal r = refused(50, {{"loader", 100, 60, 60, true}});
    r.room_to_grow = 10;
    next_step const grow = one(r, step_kind::raise_limits);
    REQUIRE(grow.text == "grow reservation loader by 10 B");
    REQUIRE(grow.suffices);
    REQUIRE(grow.change == 0.1);
    REQUIRE(grow.bytes == 10);
    REQUIRE(grow.limits.size() == 1);
    REQUIRE(grow.limits[0].limit == 110);
    REQUIRE(grow.limits[0].grow_by == 10);
    // A budget inside it has a limit like any other.
    r = refused(30, {{"slots", 100, 90, 90}, {"epoch", 200, 190, 190}, {"loader", 5000, 4990, 4990, true}});
    r.room_to_grow = 20;
    REQUIRE(one(r, step_kind::raise_limits).text ==
            "raise the limits of slots to 120 B, epoch to 220 B and grow reservation loader by 20 B");
    r.budgets.erase(r.budgets.begin());
    REQUIRE(one(r, step_kind::raise_limits).text ==
            "raise the limit of epoch to 220 B and grow reservation loader by 20 B");
    REQUIRE(one(r, step_kind::raise_limits).limits[0].grow_by == 0);
    r.budgets.back().held = 0;  // then it is not in the way
    REQUIRE(one(r, step_kind::raise_limits).text == "raise the limit of epoch to 220 B");
}

TEST_CASE("growing is in vain when the parent, or the device, has not enough", "[core][next_steps]") {
    cuota::refusal r = refused(50, {{"loader", 100, 60, 60, true}});
    r.room_to_grow = 9;
    REQUIRE_FALSE(one(r, step_kind::raise_limits).suffices);
    REQUIRE(one(r, step_kind::raise_limits).text ==
            "grow reservation loader by 10 B: its parent has only 9 B available");
    REQUIRE(one(r, step_kind::raise_limits).limits[0].grow_by == 10);  // as data it is there all the same
    r.room_to_grow = 10;
    r.device = cuota::device_facts{1, "simulated", 1000, 45, 60};
    REQUIRE_FALSE(one(r, step_kind::raise_limits).suffices);
    REQUIRE(one(r, step_kind::raise_limits).text ==
            "grow reservation loader: device 1 has only 45 B free, 5 B less than needed");
}

TEST_CASE("of a reservation that has ended nothing can be had", "[core][next_steps]") {
    cuota::refusal r = refused(30, {{"slots", 100, 40, 40}, {"loader", 40, 40, 60, true, true}}, 1);
    r.holders = {{"a slot", {}, 40}};
    REQUIRE(texts(r) == lines{"in vain: nothing fits: 0 B are available",
                              "in vain: grow reservation loader: it has been released"});
    r = refused(70, r.budgets);  // a budget inside it refuses, too
    REQUIRE(texts(r) == lines{"in vain: nothing fits: 0 B are available",
                              "in vain: grow reservation loader: it has been released"});
}

TEST_CASE("a limit that no size can say is not proposed", "[core][next_steps]") {
    auto const raise = [](std::size_t charged, std::size_t held) {
        return proposes(refused(charged, {{"b", 100, held, held}}), step_kind::raise_limits);
    };
    REQUIRE_FALSE(raise(cuota::unlimited, 60));
    REQUIRE_FALSE(raise(cuota::unlimited, 0));
    REQUIRE_FALSE(raise(cuota::unlimited - 1, 60));
    REQUIRE(raise(cuota::unlimited - 60, 60));
}

TEST_CASE("raising limits is in vain when the device has not enough", "[core][next_steps]") {
    cuota::refusal r = refused(6_GiB, {{"b", 4_GiB, 1_GiB, 1_GiB}});
    r.device = cuota::device_facts{1, "simulated", 8_GiB, 5_GiB, 1_GiB};
    r.holders = {{"weights", {}, 1_GiB}};
    REQUIRE(texts(r) ==
            lines{"request at most 3'221'225'472 bytes (3.0 GiB)",
                  "in vain: free all 1.0 GiB held in b: the request alone is 2.0 GiB over its limit",
                  "in vain: raise the limits: device 1 has only 5.0 GiB free, 1.0 GiB less than needed"});
    REQUIRE(next_steps(r)[2].limits.size() == 1);  // as data it is there all the same
}

TEST_CASE("what a device lacks is told when no budget refused", "[core][next_steps]") {
    cuota::refusal r;
    r.asked = r.charged = 6_GiB;
    r.device = cuota::device_facts{1, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.would_fit = 3_GiB;
    REQUIRE(texts(r) ==
            lines{"free 3.0 GiB on device 1: 4.0 GiB are used outside cuota, 1.0 GiB through cuota",
                  "request at most 3'221'225'472 bytes (3.0 GiB)"});
    REQUIRE(next_steps(r)[0].bytes == 3_GiB);
    r.asked = r.charged = 9_GiB;
    REQUIRE(texts(r) == lines{"request at most 3'221'225'472 bytes (3.0 GiB)",
                              "in vain: free all of device 1: it has only 8.0 GiB in total"});
}

TEST_CASE("what fits by now may be asked again", "[core][next_steps]") {
    cuota::refusal r;
    r.asked = r.charged = 1_GiB;
    r.device = cuota::device_facts{0, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.would_fit = 3_GiB;
    REQUIRE(texts(r) == lines{"retry: 3.0 GiB are free now, though possibly not contiguous"});
    REQUIRE(next_steps(r)[0].kind == step_kind::ask_again);
}

TEST_CASE("where nothing is known, nothing is proposed", "[core][next_steps]") {
    REQUIRE(next_steps({}).empty());
    cuota::refusal pinned;
    pinned.asked = pinned.charged = 9_GiB;
    REQUIRE(next_steps(pinned).empty());
}

TEST_CASE("a thousand holders are one line", "[core][next_steps]") {
    cuota::refusal r = refused(800, {{"b", 1000, 1000, 1000}});
    for (int i = 0; i != 1000; ++i) r.holders.push_back({"x", {"train.cpp", 7}, 1});
    next_step const release = one(r, step_kind::release);
    REQUIRE(release.holders.size() == 800);
    REQUIRE(release.bytes == 800);
    REQUIRE(release.text ==
            "free 800 B: x 1 B (train.cpp:7), x 1 B (train.cpp:7), x 1 B (train.cpp:7) and 797 more");
}

TEST_CASE("each kind has its name", "[core][next_steps]") {
    REQUIRE(std::string{name_of(step_kind::ask_again)} == "ask_again");
    REQUIRE(std::string{name_of(step_kind::ask_less)} == "ask_less");
    REQUIRE(std::string{name_of(step_kind::release)} == "release");
    REQUIRE(std::string{name_of(step_kind::raise_limits)} == "raise_limits");
    REQUIRE(std::string{name_of(step_kind::free_device)} == "free_device");
}

TEST_CASE("each step does what it says, and nothing smaller does", "[core][next_steps]") {
    std::mt19937 random{4};
    auto const up_to = [&](std::size_t most) { return static_cast<std::size_t>(random() % (most + 1)); };
    int seen[5] = {};
    for (int round = 0; round != 20'000; ++round) {
        INFO("round " << round);
        cuota::refusal r;
        for (std::size_t i = 0, count = up_to(6); i != count; ++i)
            r.holders.push_back({"h", {}, 1 + up_to(40)});
        std::ranges::sort(r.holders, std::greater{}, &cuota::holding::bytes);
        std::size_t held = sum(r.holders);
        for (std::size_t i = 0, count = 1 + up_to(3); i != count; ++i) {
            r.budgets.push_back({"b", held + up_to(30), held, held});
            held += up_to(20);
        }
        r.granule = std::size_t{1} << up_to(2);
        r.request.unit_bytes = 1 + up_to(3);
        r.asked = (1 + up_to(20)) * r.request.unit_bytes;
        r.charged = cuota::round_up(r.asked, r.granule);
        // The naive guard: everything fits everywhere, or the first that is too full refuses.
        auto const fits = [](std::vector<cuota::budget_facts> const& budgets, std::size_t bytes) {
            return std::ranges::all_of(budgets, [&](auto const& b) { return b.held + bytes <= b.limit; });
        };
        if (fits(r.budgets, r.charged)) continue;
        while (r.missing() == 0) ++r.refused_by;
        if (r.refused_by != 0) continue;  // holders are those of the first budget here
        std::size_t room = cuota::unlimited;
        for (auto const& b : r.budgets) room = std::min(room, b.free());
        r.would_fit = cuota::round_down(room, r.granule);

        std::vector<next_step> const steps = next_steps(r);
        REQUIRE(steps.size() <= 3);
        for (std::size_t i = 1; i < steps.size(); ++i) {
            REQUIRE(steps[i - 1].suffices >= steps[i].suffices);
            if (steps[i].suffices) REQUIRE(steps[i - 1].change <= steps[i].change);
        }
        for (next_step const& s : steps) {
            seen[static_cast<int>(s.kind)] += s.suffices;
            if (s.kind == step_kind::ask_less) {
                auto const charge = [&](std::size_t n) {
                    return cuota::round_up(n * r.request.unit_bytes, r.granule);
                };
                REQUIRE((s.count == 0 || fits(r.budgets, charge(s.count))));
                REQUIRE_FALSE(fits(r.budgets, charge(s.count + 1)));
                REQUIRE(s.suffices == (s.count != 0));
            } else if (s.kind == step_kind::raise_limits) {
                auto raised = r.budgets;
                for (auto const& l : s.limits) raised[l.level].limit = l.limit;
                REQUIRE(fits(raised, r.charged));
                for (auto const& l : s.limits) {
                    auto almost = raised;
                    --almost[l.level].limit;
                    REQUIRE_FALSE(fits(almost, r.charged));
                }
            } else {
                auto const fits_without = [&](std::size_t bytes) {
                    auto less = r.budgets;
                    for (auto& b : less) b.held -= bytes;
                    return fits(less, r.charged);
                };
                REQUIRE(s.suffices == fits_without(sum(r.holders)));
                if (!s.suffices) continue;
                REQUIRE(fits_without(sum(s.holders)));
                REQUIRE(s.bytes == sum(s.holders));
                for (unsigned set = 0; set != 1U << r.holders.size(); ++set) {  // no fewer would do
                    std::size_t bytes = 0;
                    for (std::size_t i = 0; i != r.holders.size(); ++i)
                        if (set >> i & 1) bytes += r.holders[i].bytes;
                    auto const size = static_cast<std::size_t>(std::popcount(set));
                    if (!fits_without(bytes)) continue;
                    REQUIRE(size >= s.holders.size());
                    if (size == 1 && s.holders.size() == 1) REQUIRE(bytes >= s.bytes);
                }
            }
        }
    }
    REQUIRE(seen[static_cast<int>(step_kind::ask_less)] > 1000);
    REQUIRE(seen[static_cast<int>(step_kind::release)] > 1000);
    REQUIRE(seen[static_cast<int>(step_kind::raise_limits)] > 1000);
}

TEST_CASE("whose memory to release is what the pools told, where they were asked", "[core][next_steps]") {
    cuota::refusal r = refused(30, {{"gpu", 100, 90, 90}});
    r.holders = {{"weights", {}, 40}, {"scratch", {}, 25}, {"cache", {}, 25}};
    REQUIRE(one(r, step_kind::release).text == "free 25 B: cache");
    r.release.emplace(std::vector<cuota::holding>{{"weights", {}, 40}, {"cache", {}, 25}});
    next_step const told = one(r, step_kind::release);
    REQUIRE(told.suffices);
    REQUIRE(told.bytes == 65);
    REQUIRE(told.text == "free 65 B: weights 40 B and cache 25 B");
    r.release->clear();
    next_step const in_vain = one(r, step_kind::release);
    REQUIRE(!in_vain.suffices);
    REQUIRE(in_vain.text == "free all 90 B held in gpu: it may be freed in pieces that do not fit");
}
