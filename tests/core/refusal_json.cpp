// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/refusal_json.hpp>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

using namespace cuota::literals;
using namespace std::string_literals;

namespace {

cuota::refusal two_levels() {
    cuota::refusal r;
    r.requested = 100;
    r.charged = 128;
    r.granularity = 64;
    r.request = cuota::label_for<float>("weights", {"/home/me/train.cpp", 17});
    r.budgets = {{"layer", cuota::unlimited, 10, 20}, {"model", 200, 90, 95}};
    r.refused_by = 1;
    r.device = cuota::device_info{1, "simulated", 1000, 500, 300};
    r.holders = {{"biases", {"train.cpp", 3}, 60}, {"cached in a pool", {}, 30, true}};
    r.reclaimed = 5;
    r.reclaimers = {{"pool main", 18, 5}};
    r.largest_free = 16;
    r.max_fit = 64;
    return r;
}

/// Runs Python with the lines as its standard input; the status it ended with.
int python(std::string const& program, std::vector<std::string> const& lines) {
    std::FILE* const in = popen(("'" CUOTA_PYTHON "' -c '" + program + "'").c_str(), "w");
    REQUIRE(in != nullptr);
    for (std::string const& line : lines) std::fwrite((line + '\n').data(), 1, line.size() + 1, in);
    return pclose(in);
}

}  // namespace

TEST_CASE("a refusal is one line of JSON", "[core][refusal_json]") {
    REQUIRE(
        cuota::refusal_json(two_levels()) ==
        R"({"requested":100,"charged":128,"granularity":64,"tag":"weights","location":{"file":"/home/me/train.cpp","line":17},)"
        R"("unit":"floats","unit_bytes":4,"shortfall":18,"max_fit":64,"max_fit_count":16,"growth_available":0,"new_limit":null,"refused_by":1,)"
        R"("budgets":[{"name":"layer","limit":null,"held":10,"free":null,"peak":20,"reservation":false,"released":false},)"
        R"({"name":"model","limit":200,"held":90,"free":110,"peak":95,"reservation":false,"released":false}],)"
        R"("device":{"ordinal":1,"name":"simulated","total":1000,"free":500,"own":300,"external":200,"baseline":0,"pooled":0,"soft_limit":null,"soft_limit_used":0},)"
        R"("holders":[{"tag":"biases","location":{"file":"train.cpp","line":3},"bytes":60,"cached":false},)"
        R"({"tag":"cached in a pool","location":null,"bytes":30,"cached":true}],"other_holders":0,"other_bytes":0,)"
        R"("reclaimed":5,"reclaimable":0,"reclaimers":[{"name":"pool main","requested":18,"released":5,"reclaimable":0}],"largest_free":16,"cause":"",)"
        R"("suggestions":[{"kind":"raise_limit","suffices":true,"text":"raise the limit of model to 218 B",)"
        R"("bytes":18,"count":0,"holders":[],"limits":[{"budget":"model","level":1,"limit":218,"grow_by":0}]},)"
        R"j({"kind":"request_less","suffices":true,"text":"request at most 16 floats (64 B)","bytes":64,"count":16,)j"
        R"("holders":[],"limits":[]},)"
        R"j({"kind":"free_memory","suffices":true,"text":"free 60 B: biases (train.cpp:3)","bytes":60,"count":0,)j"
        R"("holders":[{"tag":"biases","location":{"file":"train.cpp","line":3},"bytes":60,"cached":false}],)"
        R"("limits":[]}]})");
}

TEST_CASE("the JSON of a refusal marks a reservation and has the bytes by which to grow it",
          "[core][refusal_json]") {
    cuota::refusal r;
    r.requested = r.charged = 30;
    r.budgets = {{"loader", 60, 50, 50, true}};
    r.growth_available = 40;
    std::string const line = cuota::refusal_json(r);
    INFO(line);
    REQUIRE(support::has(line, R"("growth_available":40,)"));
    REQUIRE(support::has(line, R"("peak":50,"reservation":true,"released":false}])"));
    REQUIRE(support::has(line, R"("text":"grow reservation loader by 20 B","bytes":20,)"));
    REQUIRE(support::has(line, R"("limits":[{"budget":"loader","level":0,"limit":80,"grow_by":20}])"));
    r.budgets[0].is_released = true;
    REQUIRE(support::has(cuota::refusal_json(r), R"("reservation":true,"released":true})"));
}

TEST_CASE("missing facts are null in the JSON of a refusal", "[core][refusal_json]") {
    cuota::refusal r;
    r.requested = r.charged = cuota::unlimited;
    r.cause = "nobody has that";
    REQUIRE(
        cuota::refusal_json(r) ==
        R"({"requested":null,"charged":null,"granularity":1,"tag":"","location":null,"unit":"bytes","unit_bytes":1,)"
        R"("shortfall":0,"max_fit":0,"max_fit_count":0,"growth_available":0,"new_limit":null,"refused_by":null,"budgets":[],"device":null,"holders":[],)"
        R"("other_holders":0,"other_bytes":0,"reclaimed":0,"reclaimable":0,"reclaimers":null,"largest_free":0,)"
        R"("cause":"nobody has that","suggestions":[]})");
}

TEST_CASE("the JSON of a refusal lists at most the given number of holders and counts the others",
          "[core][refusal_json]") {
    cuota::refusal r;
    for (int i = 0; i != 1000; ++i) r.holders.push_back({"x", {}, i == 0 ? cuota::unlimited - 500 : 1});
    REQUIRE(cuota::refusal_json(r).find(R"("other_holders":968,"other_bytes":968,)") != std::string::npos);
    REQUIRE(cuota::refusal_json(r, 0).find(R"("holders":[],"other_holders":1000,"other_bytes":null,)") !=
            std::string::npos);
    REQUIRE(cuota::refusal_json(r, 1000).find(R"("other_holders":0,"other_bytes":0,)") != std::string::npos);
    REQUIRE(cuota::refusal_json(r).size() < 4096);
}

TEST_CASE("the JSON of a refusal is read by another JSON parser", "[core][refusal_json][python]") {
    cuota::refusal odd = two_levels();
    odd.request.name = cuota::tag::named("a\"b\\c\n\x01\x7F \xC3\xA4\xFF\xED\xA0\x80"s);
    odd.cause = "\0\x1B[2J"s;
    odd.budgets[1].name = std::string(300, '\'');
    odd.budgets[1].limit = cuota::unlimited - 1;
    odd.device->ordinal = -1;
    std::vector<std::string> const lines{cuota::refusal_json(two_levels()), cuota::refusal_json({}),
                                         cuota::refusal_json(odd)};
    // In double quotes throughout: the shell has the single ones.
    std::string const program = R"(
import json, sys
lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
plain, empty, odd = [json.loads(line) for line in lines[:3]]
assert lines[3:] == [""]
assert plain["budgets"][1]["free"] == 110 and plain["budgets"][0]["limit"] is None
assert plain["suggestions"][0]["limits"][0]["limit"] == 218
assert empty["budgets"] == empty["suggestions"] == [] and empty["device"] is None
assert odd["tag"] == "a\"b\\c\n\x01\x7f \u00e4" + 4 * "\ufffd"
assert odd["cause"] == "\0\x1b[2J"
assert odd["budgets"][1]["name"] == 300 * chr(39)
assert odd["budgets"][1]["limit"] == 2**64 - 2
assert odd["device"]["ordinal"] == -1
)";
    REQUIRE(python(program, lines) == 0);
    REQUIRE(python("import sys; sys.exit(sys.stdin.read() != \"a\\n\")", {"b"}) != 0);  // it does tell
}
