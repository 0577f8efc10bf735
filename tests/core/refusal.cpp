// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/refusal.hpp>

#include <string>

#include "support/catch.hpp"

using namespace cuota::literals;

namespace {

// The request of the README: 200 million floats where 500 MiB are free.
cuota::refusal the_screen() {
    cuota::refusal r;
    r.asked = r.charged = 800'000'000;
    r.granule = 512;
    r.request = cuota::label_for<float>({}, {"/home/me/train.cpp", 17});
    std::size_t const held = 4'000'256 + 8_MiB;
    r.budgets = {{"trainer", 512_MiB, held, held}};
    r.device = cuota::device_facts{0, "simulated", 8_GiB, 8_GiB - held, held};
    r.holders = {{"loader slots", {"train.cpp", 11}, 8_MiB}, {"weights", {"train.cpp", 10}, 4'000'256}};
    r.would_fit = 512_MiB - held;
    return r;
}

}  // namespace

TEST_CASE("a refusal reads as one screen", "[core][refusal]") {
    std::string const text =
        R"(cuota::budget_exceeded: 762.9 MiB refused at train.cpp:17, before anything was allocated
  budget trainer        limit 512.0 MiB   held 11.8 MiB    free 500.2 MiB   peak 11.8 MiB
  device 0 (simulated)  total 8.0 GiB     free 8.0 GiB     elsewhere 0 B
  held by   loader slots 8.0 MiB (train.cpp:11)   weights 3.8 MiB (train.cpp:10)
  reclaimed 0 B: it would not fit an empty budget
  would fit: 131'120'512 floats; or a limit of 774.8 MiB; or release 262.8 MiB (more than is held))";

    REQUIRE(cuota::refusal_text("budget_exceeded", the_screen()) == text);
}

TEST_CASE("a refusal tells what was given back, or why nothing was", "[core][refusal]") {
    cuota::refusal r = the_screen();
    auto const line = [&] {
        std::string const text = cuota::refusal_text("budget_exceeded", r);
        std::size_t const at = text.find("reclaimed ");
        return text.substr(at, text.find('\n', at) - at);
    };
    r.charged = 512_MiB;  // an empty budget would hold it, exactly
    REQUIRE(line() == "reclaimed 0 B: nothing cached could be given back");
    r.charged += 1;
    REQUIRE(line() == "reclaimed 0 B: it would not fit an empty budget");
    r.reclaimed = 2_MiB;
    REQUIRE(line() == "reclaimed 2.0 MiB");
}

TEST_CASE("a refusal of many budgets points at the one that refused", "[core][refusal]") {
    cuota::refusal r;
    r.asked = r.charged = 30;
    r.request.name = "activations";
    r.budgets = {{"layer", cuota::unlimited, 10, 20}, {"model", 100, 90, 95}, {"gpu", 1_GiB, 90, 95}};
    r.refused_by = 1;
    r.reclaimed = 5;
    r.would_fit = 10;

    REQUIRE(r.missing() == 20);
    REQUIRE(cuota::refusal_text("budget_exceeded", r) ==
            R"(cuota::budget_exceeded: 30 B refused for activations, before anything was allocated
  budget layer          limit none        held 10 B        free any         peak 20 B
  budget model          limit 100 B       held 90 B        free 10 B        peak 95 B   <- refused
  budget gpu            limit 1.0 GiB     held 90 B        free 1.0 GiB     peak 95 B
  reclaimed 5 B
  would fit: 10 B; or a limit of 120 B; or release 20 B)");
}

TEST_CASE("a long name does not run into the figures", "[core][refusal]") {
    cuota::refusal r = the_screen();
    r.budgets[0].name = "the encoder of the second model";
    r.device->name = "NVIDIA H200";
    std::string const text = cuota::refusal_text("budget_exceeded", r);
    REQUIRE(text.find("\n  budget the encoder of the second model  limit 512.0 MiB") != std::string::npos);
    REQUIRE(text.find("\n  device 0 (NVIDIA H200)  total 8.0 GiB") != std::string::npos);
}

TEST_CASE("the driver's refusal says what the driver said", "[core][refusal]") {
    cuota::refusal r;
    r.asked = 9_GiB;
    r.charged = 9_GiB;
    r.cause = "cudaMalloc found too little memory on the device";
    r.device = cuota::device_facts{1, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.would_fit = 3_GiB;

    REQUIRE(r.device->elsewhere() == 4_GiB);
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            R"(cuota::out_of_memory: 9.0 GiB refused, before anything was allocated
  because   cudaMalloc found too little memory on the device
  device 1 (simulated)  total 8.0 GiB     free 3.0 GiB     elsewhere 4.0 GiB
  would fit: 3.0 GiB)");
}

TEST_CASE("nobody is promised a size that nobody knows", "[core][refusal]") {
    cuota::refusal r;
    r.asked = r.charged = 9_GiB;
    r.cause = "cudaHostAlloc could not lock that much";
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            "cuota::out_of_memory: 9.0 GiB refused, before anything was allocated\n"
            "  because   cudaHostAlloc could not lock that much");
}

TEST_CASE("a count that overflows is told in words", "[core][refusal]") {
    cuota::refusal r;
    r.asked = r.charged = cuota::unlimited;
    REQUIRE(cuota::refusal_text("out_of_memory", r)
                .starts_with("cuota::out_of_memory: more than any address space holds refused"));
}

TEST_CASE("the four largest holders are named, the others summed", "[core][refusal]") {
    cuota::refusal r;
    r.budgets = {{"b", 100, 75, 75}};
    r.asked = r.charged = 30;
    r.holders = {{"a", {}, 30}, {"b", {}, 20}, {{}, {"x.cpp", 3}, 10},
                 {"d", {}, 8},  {"e", {}, 4},  {"f", {}, 3}};
    std::string const text = cuota::refusal_text("budget_exceeded", r);
    REQUIRE(text.find("\n  held by   a 30 B   b 20 B   untagged 10 B (x.cpp:3)   d 8 B   others 7 B\n") !=
            std::string::npos);
}

TEST_CASE("what would fit is counted in the unit of the request", "[core][refusal]") {
    cuota::refusal r;
    r.budgets = {{"b", 100, 0, 0}};
    r.asked = r.charged = 120;
    r.would_fit = 100;
    r.request.unit = "elements";
    r.request.unit_bytes = 12;
    REQUIRE(r.fitting_count() == 8);
    std::string const text = cuota::refusal_text("budget_exceeded", r);
    REQUIRE(text.find("\n  would fit: 8 elements of 12 B; or a limit of 120 B") != std::string::npos);
}

TEST_CASE("releasing is no advice where nothing is held", "[core][refusal]") {
    cuota::refusal r;
    r.budgets = {{"b", 100, 0, 0}};
    r.asked = r.charged = 120;
    REQUIRE(cuota::refusal_text("budget_exceeded", r).find("release") == std::string::npos);
    r.budgets[0].held = 1;
    REQUIRE(cuota::refusal_text("budget_exceeded", r).ends_with("; or release 21 B (more than is held)"));
}

TEST_CASE("a limit that no size can hold is not proposed", "[core][refusal]") {
    cuota::refusal r;
    r.budgets = {{"b", 100, 60, 60}};
    r.asked = r.charged = cuota::unlimited;
    r.would_fit = 40;
    REQUIRE(cuota::refusal_text("budget_exceeded", r).find("or a limit of") == std::string::npos);
    REQUIRE(r.missing() == cuota::unlimited - 40);
}

TEST_CASE("what is missing is counted at the budget that refused", "[core][refusal]") {
    cuota::refusal r;
    REQUIRE(r.missing() == 0);  // none did
    r.charged = 50;
    r.budgets = {{"a", 100, 0, 0}, {"b", 60, 20, 20}};
    REQUIRE(r.missing() == 0);
    r.refused_by = 1;
    REQUIRE(r.missing() == 10);
}

TEST_CASE("memory that is gone and not ours is elsewhere", "[core][refusal]") {
    cuota::device_facts d{0, "simulated", 100, 30, 50};
    REQUIRE(d.elsewhere() == 20);
    d.ours = 90;  // managed memory may exceed what the driver counts as used
    REQUIRE(d.elsewhere() == 0);
}
