// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/refusal_text.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"

using namespace cuota::literals;

namespace {

// The request of the README: 200 million floats where 500 MiB are free.
cuota::refusal the_screen() {
    cuota::refusal r;
    r.requested = r.charged = 800'000'000;
    r.granularity = 512;
    r.request = cuota::label_for<float>({}, {"/home/me/train.cpp", 17});
    std::size_t const held = 4'000'256 + 8_MiB;
    r.budgets = {{"trainer", 512_MiB, held, held}};
    r.device = cuota::device_info{0, "simulated", 8_GiB, 8_GiB - held, held};
    r.holders = {{"loader slots", {"train.cpp", 11}, 8_MiB}, {"weights", {"train.cpp", 10}, 4'000'256}};
    r.max_fit = 512_MiB - held;
    return r;
}

std::string text_of(cuota::refusal const& r) { return cuota::refusal_text("budget_exceeded", r); }

std::vector<std::string> lines_of(cuota::refusal const& r) {
    std::string const text = text_of(r);
    std::vector<std::string> lines;
    for (std::size_t at = 0, end = 0; end != text.size(); at = end + 1) {
        end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
    }
    return lines;
}

// The line that begins with the heading, without it; empty when there is none.
std::string line(cuota::refusal const& r, std::string_view heading) {
    for (std::string const& l : lines_of(r))
        if (l.starts_with("  " + std::string{heading})) return l.substr(13);
    return {};
}

}  // namespace

TEST_CASE("the text of a refusal has the budget, the device, the holders and the suggestions",
          "[core][refusal_text]") {
    std::string const text =
        R"(cuota::budget_exceeded: cannot allocate 762.9 MiB at train.cpp:17: 500.2 MiB free in budget trainer
  budget trainer        limit 512.0 MiB   held 11.8 MiB    free 500.2 MiB   peak 11.8 MiB
  device 0 (simulated)  total 8.0 GiB     free 8.0 GiB     outside cuota 0 B
  held by    loader slots 8.0 MiB (train.cpp:11), weights 3.8 MiB (train.cpp:10)
  reclaimed  nothing: the request exceeds the budget's limit
  help       request at most 131'120'512 floats (500.2 MiB)
  or         raise the limit of trainer to 774.8 MiB
  won't help free all 11.8 MiB held in trainer: the request alone is 250.9 MiB over its limit)";

    REQUIRE(text_of(the_screen()) == text);
}

TEST_CASE("the text of a refusal by one of several budgets marks the budget that refused",
          "[core][refusal_text]") {
    cuota::refusal r;
    r.requested = r.charged = 30;
    r.request.name = "activations";
    r.budgets = {{"layer", cuota::unlimited, 10, 20}, {"model", 100, 90, 95}, {"gpu", 1_GiB, 90, 95}};
    r.refused_by = 1;
    r.reclaimed = 5;
    r.max_fit = 10;

    REQUIRE(text_of(r) ==
            R"(cuota::budget_exceeded: cannot allocate 30 B for activations: 10 B free in budget model
  budget layer          limit none        held 10 B        free unlimited   peak 20 B
  budget model          limit 100 B       held 90 B        free 10 B        peak 95 B   <- refused
  budget gpu            limit 1.0 GiB     held 90 B        free 1.0 GiB     peak 95 B
  reclaimed  5 B
  help       raise the limit of model to 120 B
  or         free 20 B held in model
  or         request at most 10 B)");
}

TEST_CASE("a reservation that refuses is named as one, with the suggestion to grow it",
          "[core][refusal_text]") {
    cuota::refusal r;
    r.requested = r.charged = 30;
    r.budgets = {{"slots", 100, 50, 50}, {"loader", 60, 50, 55, true}};
    r.refused_by = 1;
    r.max_fit = 10;
    r.growth_available = 20;

    REQUIRE(text_of(r) ==
            R"(cuota::budget_exceeded: cannot allocate 30 B: 10 B free in reservation loader
  budget slots          limit 100 B       held 50 B        free 50 B        peak 50 B
  reservation loader    limit 60 B        held 50 B        free 10 B        peak 55 B   <- refused
  reclaimed  nothing: no cache had memory to release
  help       grow reservation loader by 20 B
  or         free 20 B held in loader
  or         request at most 10 B)");
}

TEST_CASE("the text of a driver's refusal has the driver's cause", "[core][refusal_text]") {
    cuota::refusal r;
    r.requested = 9_GiB;
    r.charged = 9_GiB;
    r.cause = "cudaMalloc: not enough free memory on the device";
    r.device = cuota::device_info{1, "simulated", 8_GiB, 3_GiB, 1_GiB};
    r.max_fit = 3_GiB;

    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            R"(cuota::out_of_memory: cannot allocate 9.0 GiB: 3.0 GiB free on device 1
  cause      cudaMalloc: not enough free memory on the device
  device 1 (simulated)  total 8.0 GiB     free 3.0 GiB     outside cuota 4.0 GiB
  help       request at most 3'221'225'472 bytes (3.0 GiB)
  won't help free all of device 1: it has only 8.0 GiB in total)");
}

TEST_CASE("the first line of a request that was cancelled has the cause", "[core][refusal_text]") {
    cuota::refusal r;
    r.request.where = {"/home/me/train.cpp", 17};
    r.cause = "rank 2 was refused at the next batch";
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            "cuota::out_of_memory: cancelled at train.cpp:17: rank 2 was refused at the next batch");
    r.request.name = "batch";
    REQUIRE(
        cuota::refusal_text("out_of_memory", r) ==
        "cuota::out_of_memory: cancelled for batch at train.cpp:17: rank 2 was refused at the next batch");
    r.request = {};
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            "cuota::out_of_memory: cancelled: rank 2 was refused at the next batch");
    r.cause = "rank 2 was refused at a step that has a longer name than the first line has room for";
    REQUIRE(text_of(r) == "cuota::budget_exceeded: cancelled: rank 2 was refused at a step that ha...ame "
                          "than the first line has "
                          "room for"
                          "\n  cause      rank 2 was refused at a step that has a longer name than the first "
                          "line has room for");
    r.requested = r.charged = 1;  // something of its own
    REQUIRE(lines_of(r)[0] == "cuota::budget_exceeded: cannot allocate 1 B");
}

TEST_CASE("the text of a refusal suggests no size if none is known to fit", "[core][refusal_text]") {
    cuota::refusal r;
    r.requested = r.charged = 9_GiB;
    r.cause = "cudaHostAlloc could not page-lock that much memory";
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            "cuota::out_of_memory: cannot allocate 9.0 GiB\n"
            "  cause      cudaHostAlloc could not page-lock that much memory");
}

TEST_CASE("a count that overflows is printed as more than SIZE_MAX bytes", "[core][refusal_text]") {
    cuota::refusal r;
    r.requested = r.charged = cuota::unlimited;
    REQUIRE(cuota::refusal_text("out_of_memory", r) ==
            "cuota::out_of_memory: cannot allocate more than SIZE_MAX bytes");
}

TEST_CASE("the size after rounding is in the text if it differs from the requested size",
          "[core][refusal_text]") {
    cuota::refusal r = the_screen();
    r.requested = 1;
    r.charged = 512;
    r.budgets[0].limit = r.budgets[0].held;
    REQUIRE(lines_of(r)[0] == "cuota::budget_exceeded: cannot allocate 1 B (512 B after rounding) at "
                              "train.cpp:17: 0 B free in budget trainer");
}

TEST_CASE("the text of a refusal lists the reclaimed bytes by reclaimer, or the reason why there are none",
          "[core][refusal_text]") {
    cuota::refusal r = the_screen();
    r.charged = 512_MiB;  // an empty budget would hold it, exactly
    REQUIRE(line(r, "reclaimed") == "nothing: no cache had memory to release");
    r.charged += 1;
    REQUIRE(line(r, "reclaimed") == "nothing: the request exceeds the budget's limit");
    r.charged -= 1;
    r.reclaimers.emplace();
    REQUIRE(line(r, "reclaimed") == "nothing: no pool or cache has cached memory");
    r.holders = {
        {"x", {}, 4_MiB}, {"cached in pool main", {}, 2_MiB, true}, {"cached in a pool", {}, 1_KiB, true}};
    REQUIRE(line(r, "reclaimed") == "nothing: 2.0 MiB cached in pools share pages with live blocks");
    r.holders[1].bytes = r.holders[2].bytes = 1'048'064 / 2;
    r.largest_free = 1'048'064;  // the longest texts of sizes fit
    REQUIRE(
        line(r, "reclaimed") ==
        "nothing: 1023.5 KiB cached in pools share pages with live blocks; largest free block 1023.5 KiB");
    r.largest_free = 0;
    r.reclaimers = {{"pool main", 6_MiB, 0}};
    REQUIRE(line(r, "reclaimed") == "nothing: pool main had nothing cached");
    r.reclaimers->push_back({"cache", 6_MiB, 0});
    REQUIRE(line(r, "reclaimed") == "nothing: pool main and cache had nothing cached");
    r.reclaimed = 2_MiB;
    (*r.reclaimers)[1].released = 2_MiB;
    REQUIRE(line(r, "reclaimed") == "2.0 MiB: cache released 2.0 MiB of 6.0 MiB");
    r.largest_free = 3_KiB;
    REQUIRE(line(r, "reclaimed") == "2.0 MiB: cache released 2.0 MiB of 6.0 MiB; largest free block 3.0 KiB");
    r.reclaimers.reset();
    REQUIRE(line(r, "reclaimed") == "2.0 MiB; largest free block 3.0 KiB");
}

TEST_CASE("a long name does not overlap the figures", "[core][refusal_text]") {
    cuota::refusal r = the_screen();
    r.budgets[0].name = "the encoder of the second model";
    r.device->name = "NVIDIA H200";
    REQUIRE(lines_of(r)[1].starts_with("  budget the encoder of the second model  limit 512.0 MiB"));
    REQUIRE(lines_of(r)[2].starts_with("  device 0 (NVIDIA H200)                  total 8.0 GiB"));
    r.budgets[0].name = std::string(300, 'x') + " end";
    REQUIRE(lines_of(r)[1].starts_with("  budget xxxxxxxxxxxxxxx...xxxxxxxxxx end  limit 512.0 MiB"));
    r.budgets[0].is_reservation = true;  // no wider, although it is called by a longer word
    REQUIRE(lines_of(r)[1].starts_with("  reservation xxxxxxxxxxxx...xxxxxxxx end  limit 512.0 MiB"));
}

namespace {

// The lines of "held by".
std::vector<std::string> held_by(cuota::refusal const& r) {
    std::vector<std::string> found;
    for (std::string const& l : lines_of(r)) {
        bool const is_first = l.starts_with("  held by    ");
        if (is_first || (!found.empty() && l.starts_with(std::string(13, ' '))))
            found.push_back(l.substr(13));
        else if (!found.empty()) break;
    }
    return found;
}

}  // namespace

TEST_CASE("the largest holders are listed, and the others are added up", "[core][refusal_text]") {
    cuota::refusal r;
    r.budgets = {{"b", 100, 75, 75}};
    r.requested = r.charged = 30;
    r.holders = {{"a", {}, 30}, {"b", {}, 20}, {{}, {"x.cpp", 3}, 10}, {"d", {}, 8}};
    REQUIRE(line(r, "held by") == "a 30 B, b 20 B, untagged 10 B (x.cpp:3), d 8 B");
    r.holders.push_back({"e", {}, 4});
    REQUIRE(line(r, "held by") == "a 30 B, b 20 B, untagged 10 B (x.cpp:3), d 8 B, e 4 B");
    r.holders[1].name = "a name that takes the room of two others";
    r.holders[1].where = {"a_file_of_a_long_name.cpp", 1234};
    REQUIRE(
        line(r, "held by") ==
        "a 30 B, a name that...two others 20 B (a_file_of_a...e.cpp:1234), untagged 10 B (x.cpp:3), d 8 B,");
}

TEST_CASE("holders take up to three lines, and names come before call sites", "[core][refusal_text]") {
    // Those of a program that trains GPT-2.
    cuota::refusal r;
    r.budgets = {{"train_gpt2", 6_GiB, 5_GiB, 5_GiB}};
    r.requested = r.charged = 2_GiB;
    char const* const file = "train_gpt2_fp32.cu";
    r.holders = {{"gradients", {file, 1209}, 475_MiB},     {"moment m", {file, 1214}, 475_MiB},
                 {"moment v", {file, 1215}, 475_MiB},      {"parameters", {file, 1181}, 475_MiB},
                 {"cuBLAS workspace", {file, 90}, 32_MiB}, {"losses", {file, 1310}, 16_KiB}};
    REQUIRE(held_by(r) == std::vector<std::string>{"gradients 475.0 MiB (train_gpt2_fp32.cu:1209), "
                                                   "moment m 475.0 MiB (train_gpt2_fp32.cu:1214),",
                                                   "moment v 475.0 MiB (train_gpt2_fp32.cu:1215), "
                                                   "parameters 475.0 MiB (train_gpt2_fp32.cu:1181),",
                                                   "cuBLAS workspace 32.0 MiB (train_gpt2_fp32.cu:90), "
                                                   "losses 16.0 KiB (train_gpt2_fp32.cu:1310)"});
    // Holders of one name are added up if they do not fit with their call sites.
    for (unsigned i = 0; i != 14; ++i) r.holders.push_back({"activations", {file, 1092 + i}, 4_KiB});
    std::vector<std::string> const lines = held_by(r);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].starts_with("gradients 475.0 MiB"));
    CHECK(lines[2] ==
          "cuBLAS workspace 32.0 MiB (train_gpt2_fp32.cu:90), activations 56.0 KiB, losses 16.0 KiB");
    // The smaller ones lose their call sites first, and only then names are left out.
    char const* const names[] = {"wte", "wpe", "ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb"};
    for (char const* const name : names) r.holders.push_back({cuota::tag::named(name), {file, 1}, 1_KiB});
    CHECK(held_by(r).size() == 3);
    CHECK(held_by(r)[0] ==
          "gradients 475.0 MiB, moment m 475.0 MiB, moment v 475.0 MiB, parameters 475.0 MiB,");
    CHECK(held_by(r)[2].ends_with("attprojw 1.0 KiB, attprojb 1.0 KiB"));
    std::vector<std::string> many;
    for (int i = 0; i != 100; ++i) many.push_back("layer " + std::to_string(i));
    for (std::string const& name : many)
        r.holders.push_back({cuota::tag::named(name.c_str()), {file, 2}, 512});
    CHECK(held_by(r).size() == 3);
    CHECK(held_by(r)[0].find("(train_gpt2") == std::string::npos);
    CHECK(held_by(r).back().find(" others ") != std::string::npos);
    // The other lines come first: a text has at most 12.
    for (int i = 0; i != 5; ++i) r.budgets.push_back({"level", 7_GiB, 5_GiB, 5_GiB});
    CHECK(lines_of(r).size() <= 12);
}

TEST_CASE("of many levels of budgets the first, the last and the refusing one are listed",
          "[core][refusal_text]") {
    cuota::refusal r;
    for (int i = 0; i != 40; ++i) r.budgets.push_back({"level " + std::to_string(i), 100, 10, 10});
    r.requested = r.charged = 95;
    r.refused_by = GENERATE(0U, 1U, 2U, 20U, 38U, 39U);
    INFO(text_of(r));
    std::vector<std::string> const lines = lines_of(r);
    auto const shows = [&](std::size_t level) {
        std::string const begin = "  budget level " + std::to_string(level) + ' ';
        for (std::string const& l : lines)
            if (l.starts_with(begin)) return l.ends_with("<- refused") == (level == r.refused_by);
        return false;
    };
    REQUIRE(shows(0));
    REQUIRE(shows(r.refused_by));
    REQUIRE(shows(39));
    bool const is_end = r.refused_by == 0 || r.refused_by == 39;
    REQUIRE(lines[is_end || r.refused_by == 1 ? 3 : 2] == "  ... 37 more budgets up to level 39");
    REQUIRE(lines.size() <= 12);
    r.budgets.resize(4);
    r.refused_by = 3;
    REQUIRE(text_of(r).find("...") == std::string::npos);
}

TEST_CASE("names are shortened if the first line is too long", "[core][refusal_text]") {
    cuota::refusal r = the_screen();
    r.request.name = cuota::tag::named("activations of the encoder of the second model");
    r.budgets[0].name = "everything that the second model holds on this device";
    REQUIRE(lines_of(r)[0] ==
            "cuota::budget_exceeded: cannot allocate 762.9 MiB for activat... model at train.cpp:17: "
            "500.2 MiB free");
}

TEST_CASE("the request and the free bytes are not rounded to one figure in the first line",
          "[core][refusal_text]") {
    cuota::refusal r;
    r.budgets = {{"b", 12'000'767, 0, 0}};
    r.requested = r.charged = 12'000'768;
    REQUIRE(lines_of(r)[0] ==
            "cuota::budget_exceeded: cannot allocate 11.4 MiB: 12'000'767 bytes free in budget b");
}

TEST_CASE("the text of any refusal fits on one screen", "[core][refusal_text]") {
    std::mt19937 random{17};
    auto const up_to = [&](std::size_t most) { return static_cast<std::size_t>(random()) % (most + 1); };
    auto const bytes = [&]() -> std::size_t {
        std::size_t const any[] = {
            0, 1, 1023, 1024 * 1024 - 1, 1'022'976, cuota::unlimited - 1, cuota::unlimited};
        return up_to(1) == 0 ? any[up_to(6)] : (std::size_t{random()} << up_to(31)) + up_to(7);
    };
    auto const name = [&] {
        std::string const parts[] = {"x", "layer/", "ä", "😀", "\n", "\x1B[2J", "\xFF", " ", "\xE2\x82"};
        std::string text;
        for (std::size_t size = up_to(2) == 0 ? 300 : up_to(20); text.size() < size;) text += parts[up_to(8)];
        return text;
    };
    std::vector<cuota::tag> tags;
    std::vector<std::string> files;
    for (int i = 0; i != 200; ++i) {
        tags.push_back(cuota::tag::named(name()));
        files.push_back(name());
    }
    auto const where = [&] {
        return cuota::source_location{files[up_to(199)].c_str(), static_cast<unsigned>(bytes())};
    };

    std::size_t most_lines = 0;
    for (int round = 0; round != support::rounds(3000); ++round) {
        cuota::refusal r;
        r.requested = bytes();
        r.charged = up_to(1) == 0 ? r.requested : bytes();
        r.granularity = std::size_t{1} << up_to(40);
        r.request = {tags[up_to(199)], where(), files[up_to(199)].c_str(), bytes()};
        if (up_to(1) == 0) r.request.unit = "elements";
        for (std::size_t i = 0, count = up_to(1) == 0 ? up_to(5) : up_to(40); i != count; ++i)
            r.budgets.push_back({name(), bytes(), bytes(), bytes(), up_to(3) == 0, up_to(9) == 0});
        r.refused_by = up_to(r.budgets.size());
        if (up_to(1) == 0)
            r.device = cuota::device_info{
                up_to(1) == 0 ? 0 : -2147483647, name(), bytes(), bytes(), bytes(), bytes()};
        if (r.device && up_to(2) == 0) r.device->ordinal = cuota::device_info::host;
        if (r.device && up_to(2) == 0) r.device->pooled = bytes();
        if (r.device && up_to(2) == 0) {
            r.device->soft_limit = bytes();
            r.device->soft_limit_used = bytes();
        }
        if (up_to(4) == 0) r.new_limit = bytes();
        for (std::size_t i = 0, count = up_to(9) == 0 ? 1000 : up_to(6); i != count; ++i)
            r.holders.push_back({tags[up_to(199)], where(), bytes(), up_to(3) == 0});
        r.reclaimed = up_to(1) == 0 ? 0 : bytes();
        if (up_to(1) == 0) r.reclaimers.emplace();
        for (std::size_t i = 0, count = up_to(20); r.reclaimers && i != count; ++i)
            r.reclaimers->push_back({name(), bytes(), bytes()});
        r.largest_free = bytes();
        r.max_fit = bytes();
        r.growth_available = bytes();
        if (up_to(1) == 0) r.cause = name();

        std::vector<std::string> const lines = lines_of(r);
        INFO("round " << round << '\n' << text_of(r));
        most_lines = std::max(most_lines, lines.size());
        REQUIRE(lines.size() <= 12);
        for (std::string const& l : lines) {
            REQUIRE(cuota::detail::columns_of(l) <= 110);
            REQUIRE(cuota::detail::printable(l) == l);
        }
    }
    REQUIRE(most_lines == 12);
}
