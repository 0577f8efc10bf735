// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/suggestions.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"

using namespace cuota::literals;
using cuota::suggestion;
using cuota::suggestion_kind;
using cuota::suggestions;

namespace {

cuota::refusal refused(std::size_t charged, std::vector<cuota::budget_info> budgets, std::size_t by = 0) {
    cuota::refusal r;
    r.requested = r.charged = charged;
    r.budgets = std::move(budgets);
    r.refused_by = by;
    r.max_fit = cuota::unlimited;
    for (cuota::budget_info const& b : r.budgets) r.max_fit = std::min(r.max_fit, b.free());
    return r;
}

std::vector<std::string> texts(cuota::refusal const& r) {
    std::vector<std::string> all;
    for (suggestion const& s : suggestions(r)) all.push_back((s.suffices ? "" : "in vain: ") + s.text);
    return all;
}

bool proposes(cuota::refusal const& r, suggestion_kind kind) {
    return std::ranges::count(suggestions(r), kind, &suggestion::kind) != 0;
}

// The step of that kind; the test fails without one.
suggestion one(cuota::refusal const& r, suggestion_kind kind) {
    std::vector<suggestion> const steps = suggestions(r);
    REQUIRE(std::ranges::count(steps, kind, &suggestion::kind) == 1);
    return *std::ranges::find(steps, kind, &suggestion::kind);
}

std::size_t sum(std::vector<cuota::allocation_group> const& holders) {
    std::size_t bytes = 0;
    for (cuota::allocation_group const& h : holders) bytes += h.bytes;
    return bytes;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("suggestions are computed from the facts of a refusal", "[core][suggestions]") {
    cuota::refusal r = refused(50, {{"model", 100, 60, 60}});
    r.holders = {{"weights", {"train.cpp", 3}, 40}, {"biases", {"train.cpp", 4}, 20}};
    std::vector<suggestion> const steps = suggestions(r);
    REQUIRE(texts(r) == lines{"raise the limit of model to 110 B", "request at most 40 B",
                              "free 20 B: biases (train.cpp:4)"});
    REQUIRE(steps[0].kind == suggestion_kind::raise_limit);
    REQUIRE(steps[0].change == 0.1);
    REQUIRE(steps[0].bytes == 10);
    REQUIRE(steps[0].limits.size() == 1);
    REQUIRE(steps[0].limits[0].budget == "model");
    REQUIRE(steps[0].limits[0].level == 0);
    REQUIRE(steps[0].limits[0].limit == 110);
    REQUIRE(steps[1].kind == suggestion_kind::request_less);
    REQUIRE(steps[1].change == 0.2);
    REQUIRE(steps[1].bytes == 40);
    REQUIRE(steps[1].count == 40);
    REQUIRE(steps[2].kind == suggestion_kind::free_memory);
    REQUIRE(steps[2].bytes == 20);
    REQUIRE(steps[2].holders.size() == 1);
    REQUIRE(steps[2].holders[0].name == cuota::tag{"biases"});
}

TEST_CASE("suggestions are sorted by the share that they change, and those that do not suffice are last",
          "[core][suggestions]") {
    cuota::refusal r = refused(90, {{"b", 100, 20, 20}});
    r.holders = {{"small", {}, 10}, {"tiny", {}, 10}};
    REQUIRE(texts(r) == lines{"raise the limit of b to 110 B", "request at most 80 B", "free 10 B: tiny"});
    r.holders = {{"large", {}, 1}, {"small", {}, 1}};
    REQUIRE(suggestions(r).back().kind == suggestion_kind::free_memory);
    REQUIRE_FALSE(suggestions(r).back().suffices);
    // Equal shares: in the order of the kinds.
    r = refused(100, {{"b", 100, 50, 50}});
    r.holders = {{"half", {}, 25}, {"other half", {}, 25}};
    REQUIRE(texts(r) == lines{"request at most 50 B", "raise the limit of b to 150 B",
                              "free 50 B: half 25 B and other half 25 B"});
}

TEST_CASE("request_less is in whole units of the request", "[core][suggestions]") {
    cuota::refusal r = refused(8_KiB, {{"b", 5000, 0, 0}});
    auto const ask = [&] { return one(r, suggestion_kind::request_less); };
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

TEST_CASE("request_less is limited by the device if it has less than the budgets", "[core][suggestions]") {
    cuota::refusal r = refused(500, {{"b", 450, 0, 0}});
    r.granularity = 16;
    r.device = cuota::device_info{0, "simulated", 1000, 107, 0};
    REQUIRE(one(r, suggestion_kind::request_less).bytes == 96);
    r.largest_free = 200;  // a pool has that ready
    REQUIRE(one(r, suggestion_kind::request_less).bytes == 200);
}

TEST_CASE("one sufficient holder is suggested before two, and the smallest sufficient one first",
          "[core][suggestions]") {
    cuota::refusal r = refused(60, {{"b", 100, 95, 95}});
    r.holders = {{"a", {}, 45}, {"b", {}, 25}, {"c", {}, 15}, {"d", {}, 10}};
    auto const released = [&](std::size_t missing) {
        r.requested = r.charged = 5 + missing;
        std::string names;
        for (cuota::allocation_group const& h : one(r, suggestion_kind::free_memory).holders)
            names += h.name.text();
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

TEST_CASE("memory that is cached in a pool is not suggested for release", "[core][suggestions]") {
    cuota::refusal r = refused(60, {{"b", 100, 90, 90}});
    r.holders = {{"cached in a pool", {}, 60, true}, {"x", {}, 30}};
    REQUIRE(one(r, suggestion_kind::free_memory).text == "free 30 B: x");  // the pool's part follows
    REQUIRE(one(r, suggestion_kind::free_memory).suffices);
    r.holders = {{"cached in a pool", {}, 90, true}};
    REQUIRE(one(r, suggestion_kind::free_memory).holders.empty());
}

TEST_CASE("a release that does not suffice is marked so, with the reason", "[core][suggestions]") {
    cuota::refusal r = refused(130, {{"b", 100, 60, 60}});
    auto const release = [&] { return one(r, suggestion_kind::free_memory); };
    REQUIRE_FALSE(release().suffices);
    REQUIRE(release().text == "free all 60 B held in b: the request alone is 30 B over its limit");
    r = refused(90, {{"b", 100, 60, 60}});
    r.holders = {{"known", {}, 20}};
    REQUIRE(release().text == "free all 60 B held in b: it would still be 30 B short");
    REQUIRE(release().holders.size() == 1);
    r = refused(80, {{"leaf", 100, 60, 60}, {"root", 70, 65, 65}});
    REQUIRE(release().text == "free all 60 B held in leaf: the request alone is 10 B over the limit of root");
    r = refused(60, {{"leaf", 100, 60, 60}, {"root", 200, 60, 60}});
    r.device = cuota::device_info{1, "simulated", 100, 10, 30};
    REQUIRE(release().text == "free all 60 B held in leaf: it would still be 20 B short on device 1");
    r.device->own = 50;
    REQUIRE(release().suffices);
    REQUIRE(release().bytes == 50);
}

TEST_CASE("no release is suggested if nothing is held or nothing is short", "[core][suggestions]") {
    REQUIRE_FALSE(proposes(refused(120, {{"b", 100, 0, 0}}), suggestion_kind::free_memory));
    REQUIRE_FALSE(proposes(refused(10, {{"b", 100, 50, 0}}), suggestion_kind::free_memory));
    cuota::refusal const nameless = refused(60, {{"b", 100, 50, 50}});
    REQUIRE(one(nameless, suggestion_kind::free_memory).text == "free 10 B held in b");
}

TEST_CASE("raise_limit names all limits above the budget that would refuse", "[core][suggestions]") {
    cuota::refusal const r = refused(30,
                                     {{"layer", cuota::unlimited, 10, 20},
                                      {"model", 100, 90, 95},
                                      {"node", 1_GiB, 90, 95},
                                      {"gpu", 2048, 2040, 2040}},
                                     1);
    suggestion const raise = one(r, suggestion_kind::raise_limit);
    REQUIRE(raise.text == "raise the limits of model to 120 B and gpu to 2.1 KiB");
    REQUIRE(raise.limits.size() == 2);
    REQUIRE(raise.limits[0].level == 1);
    REQUIRE(raise.limits[1].level == 3);
    REQUIRE(raise.limits[1].limit == 2070);
    REQUIRE(raise.bytes == 22);
}

TEST_CASE("a reservation is suggested to grow by the shortfall", "[core][suggestions]") {
    cuota::refusal r = refused(50, {{"loader", 100, 60, 60, true}});
    r.growth_available = 10;
    suggestion const grow = one(r, suggestion_kind::raise_limit);
    REQUIRE(grow.text == "grow reservation loader by 10 B");
    REQUIRE(grow.suffices);
    REQUIRE(grow.change == 0.1);
    REQUIRE(grow.bytes == 10);
    REQUIRE(grow.limits.size() == 1);
    REQUIRE(grow.limits[0].limit == 110);
    REQUIRE(grow.limits[0].grow_by == 10);
    // A budget inside it has a limit like any other.
    r = refused(30, {{"slots", 100, 90, 90}, {"epoch", 200, 190, 190}, {"loader", 5000, 4990, 4990, true}});
    r.growth_available = 20;
    REQUIRE(one(r, suggestion_kind::raise_limit).text ==
            "raise the limits of slots to 120 B, epoch to 220 B and grow reservation loader by 20 B");
    r.budgets.erase(r.budgets.begin());
    REQUIRE(one(r, suggestion_kind::raise_limit).text ==
            "raise the limit of epoch to 220 B and grow reservation loader by 20 B");
    REQUIRE(one(r, suggestion_kind::raise_limit).limits[0].grow_by == 0);
    r.budgets.back().held = 0;  // then it is not in the way
    REQUIRE(one(r, suggestion_kind::raise_limit).text == "raise the limit of epoch to 220 B");
}

TEST_CASE("growing a reservation does not suffice if its parent or the device has less",
          "[core][suggestions]") {
    cuota::refusal r = refused(50, {{"loader", 100, 60, 60, true}});
    r.growth_available = 9;
    REQUIRE_FALSE(one(r, suggestion_kind::raise_limit).suffices);
    REQUIRE(one(r, suggestion_kind::raise_limit).text ==
            "grow reservation loader by 10 B: its parent has only 9 B available");
    REQUIRE(one(r, suggestion_kind::raise_limit).limits[0].grow_by ==
            10);  // as data it is there all the same
    r.growth_available = 10;
    r.device = cuota::device_info{1, "simulated", 1000, 45, 60};
    REQUIRE_FALSE(one(r, suggestion_kind::raise_limit).suffices);
    REQUIRE(one(r, suggestion_kind::raise_limit).text ==
            "grow reservation loader: device 1 has only 45 B free, 5 B less than needed");
}

TEST_CASE("no suggestion suffices for a reservation that was released", "[core][suggestions]") {
    cuota::refusal r = refused(30, {{"slots", 100, 40, 40}, {"loader", 40, 40, 60, true, true}}, 1);
    r.holders = {{"a slot", {}, 40}};
    REQUIRE(texts(r) == lines{"in vain: nothing fits: 0 B are available",
                              "in vain: grow reservation loader: it has been released"});
    r = refused(70, r.budgets);  // a budget inside it refuses, too
    REQUIRE(texts(r) == lines{"in vain: nothing fits: 0 B are available",
                              "in vain: grow reservation loader: it has been released"});
}

TEST_CASE("a limit that exceeds the largest size is not suggested", "[core][suggestions]") {
    auto const raise = [](std::size_t charged, std::size_t held) {
        return proposes(refused(charged, {{"b", 100, held, held}}), suggestion_kind::raise_limit);
    };
    REQUIRE_FALSE(raise(cuota::unlimited, 60));
    REQUIRE_FALSE(raise(cuota::unlimited, 0));
    REQUIRE_FALSE(raise(cuota::unlimited - 1, 60));
    REQUIRE(raise(cuota::unlimited - 60, 60));
}

TEST_CASE("raising the limits does not suffice if the device has less", "[core][suggestions]") {
    cuota::refusal r = refused(6_GiB, {{"b", 4_GiB, 1_GiB, 1_GiB}});
    r.device = cuota::device_info{1, "simulated", 8_GiB, 5_GiB, 1_GiB};
    r.holders = {{"weights", {}, 1_GiB}};
    REQUIRE(texts(r) ==
            lines{"request at most 3'221'225'472 bytes (3.0 GiB)",
                  "in vain: free all 1.0 GiB held in b: the request alone is 2.0 GiB over its limit",
                  "in vain: raise the limits: device 1 has only 5.0 GiB free, 1.0 GiB less than needed"});
    REQUIRE(suggestions(r)[2].limits.size() == 1);  // as data it is there all the same
}

TEST_CASE("the shortfall of a device is suggested to be freed if no budget refused", "[core][suggestions]") {
    cuota::refusal r;
    r.requested = r.charged = 6_GiB;
    r.device = cuota::device_info{1, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.max_fit = 3_GiB;
    REQUIRE(texts(r) ==
            lines{"free 3.0 GiB on device 1: 4.0 GiB are used outside cuota, 1.0 GiB through cuota",
                  "request at most 3'221'225'472 bytes (3.0 GiB)"});
    REQUIRE(suggestions(r)[0].bytes == 3_GiB);
    r.requested = r.charged = 9_GiB;
    REQUIRE(texts(r) == lines{"request at most 3'221'225'472 bytes (3.0 GiB)",
                              "in vain: free all of device 1: it has only 8.0 GiB in total"});
}

TEST_CASE("retry is suggested if the request fits by now", "[core][suggestions]") {
    cuota::refusal r;
    r.requested = r.charged = 1_GiB;
    r.device = cuota::device_info{0, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.max_fit = 3_GiB;
    REQUIRE(texts(r) == lines{"retry: 3.0 GiB are free now, though possibly not contiguous"});
    REQUIRE(suggestions(r)[0].kind == suggestion_kind::retry);
}

TEST_CASE("a refusal without facts has no suggestions", "[core][suggestions]") {
    REQUIRE(suggestions({}).empty());
    cuota::refusal pinned;
    pinned.requested = pinned.charged = 9_GiB;
    REQUIRE(suggestions(pinned).empty());
}

TEST_CASE("a suggestion with a thousand holders is one line", "[core][suggestions]") {
    cuota::refusal r = refused(800, {{"b", 1000, 1000, 1000}});
    for (int i = 0; i != 1000; ++i) r.holders.push_back({"x", {"train.cpp", 7}, 1});
    suggestion const release = one(r, suggestion_kind::free_memory);
    REQUIRE(release.holders.size() == 800);
    REQUIRE(release.bytes == 800);
    REQUIRE(release.text ==
            "free 800 B: x 1 B (train.cpp:7), x 1 B (train.cpp:7), x 1 B (train.cpp:7) and 797 more");
}

TEST_CASE("name_of returns the name of each kind", "[core][suggestions]") {
    REQUIRE(std::string{name_of(suggestion_kind::retry)} == "retry");
    REQUIRE(std::string{name_of(suggestion_kind::request_less)} == "request_less");
    REQUIRE(std::string{name_of(suggestion_kind::free_memory)} == "free_memory");
    REQUIRE(std::string{name_of(suggestion_kind::raise_limit)} == "raise_limit");
    REQUIRE(std::string{name_of(suggestion_kind::free_device_memory)} == "free_device_memory");
}

TEST_CASE("each suggestion that suffices lets the request fit, and no smaller change does",
          "[core][suggestions]") {
    std::mt19937 random{4};
    auto const up_to = [&](std::size_t most) { return static_cast<std::size_t>(random() % (most + 1)); };
    int seen[5] = {};
    for (int round = 0; round != support::rounds(20'000); ++round) {
        INFO("round " << round);
        cuota::refusal r;
        for (std::size_t i = 0, count = up_to(6); i != count; ++i)
            r.holders.push_back({"h", {}, 1 + up_to(40)});
        std::ranges::sort(r.holders, std::greater{}, &cuota::allocation_group::bytes);
        std::size_t held = sum(r.holders);
        for (std::size_t i = 0, count = 1 + up_to(3); i != count; ++i) {
            r.budgets.push_back({"b", held + up_to(30), held, held});
            held += up_to(20);
        }
        r.granularity = std::size_t{1} << up_to(2);
        r.request.unit_bytes = 1 + up_to(3);
        r.requested = (1 + up_to(20)) * r.request.unit_bytes;
        r.charged = cuota::round_up(r.requested, r.granularity);
        // The naive guard: everything fits everywhere, or the first that is too full refuses.
        auto const fits = [](std::vector<cuota::budget_info> const& budgets, std::size_t bytes) {
            return std::ranges::all_of(budgets, [&](auto const& b) { return b.held + bytes <= b.limit; });
        };
        if (fits(r.budgets, r.charged)) continue;
        while (r.shortfall() == 0) ++r.refused_by;
        if (r.refused_by != 0) continue;  // holders are those of the first budget here
        std::size_t room = cuota::unlimited;
        for (auto const& b : r.budgets) room = std::min(room, b.free());
        r.max_fit = cuota::round_down(room, r.granularity);

        std::vector<suggestion> const steps = suggestions(r);
        REQUIRE(steps.size() <= 3);
        for (std::size_t i = 1; i < steps.size(); ++i) {
            REQUIRE(steps[i - 1].suffices >= steps[i].suffices);
            if (steps[i].suffices) REQUIRE(steps[i - 1].change <= steps[i].change);
        }
        for (suggestion const& s : steps) {
            seen[static_cast<int>(s.kind)] += s.suffices;
            if (s.kind == suggestion_kind::request_less) {
                auto const charge = [&](std::size_t n) {
                    return cuota::round_up(n * r.request.unit_bytes, r.granularity);
                };
                REQUIRE((s.count == 0 || fits(r.budgets, charge(s.count))));
                REQUIRE_FALSE(fits(r.budgets, charge(s.count + 1)));
                REQUIRE(s.suffices == (s.count != 0));
            } else if (s.kind == suggestion_kind::raise_limit) {
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
    REQUIRE(seen[static_cast<int>(suggestion_kind::request_less)] > support::rounds(1'000));
    REQUIRE(seen[static_cast<int>(suggestion_kind::free_memory)] > support::rounds(1'000));
    REQUIRE(seen[static_cast<int>(suggestion_kind::raise_limit)] > support::rounds(1'000));
}

TEST_CASE("free_memory names the blocks that the pools reported, if they were queried",
          "[core][suggestions]") {
    cuota::refusal r = refused(30, {{"gpu", 100, 90, 90}});
    r.holders = {{"weights", {}, 40}, {"scratch", {}, 25}, {"cache", {}, 25}};
    REQUIRE(one(r, suggestion_kind::free_memory).text == "free 25 B: cache");
    r.release.emplace(std::vector<cuota::allocation_group>{{"weights", {}, 40}, {"cache", {}, 25}});
    suggestion const told = one(r, suggestion_kind::free_memory);
    REQUIRE(told.suffices);
    REQUIRE(told.bytes == 65);
    REQUIRE(told.text == "free 65 B: weights 40 B and cache 25 B");
    r.release->clear();
    suggestion const in_vain = one(r, suggestion_kind::free_memory);
    REQUIRE(!in_vain.suffices);
    REQUIRE(in_vain.text == "free all 90 B held in gpu: it may be freed in pieces that do not fit");
}
