// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/summary_json.hpp>

#include <cstdio>
#include <string>

#include "report/summary_samples.hpp"
#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::memory_snapshot;
using cuota::summary_json;

namespace {

/// Parses the text with Python's json module and returns whether `claims` about the object `s` hold.
[[nodiscard]] bool python_agrees(std::string const& json, std::string const& claims) {
    std::string const program = "import json, sys\ns = json.loads(sys.stdin.buffer.read())\n" + claims;
    std::FILE* const in = popen(("'" CUOTA_PYTHON "' -c '" + program + "'").c_str(), "w");
    REQUIRE(in != nullptr);
    REQUIRE(std::fwrite(json.data(), 1, json.size(), in) == json.size());
    return pclose(in) == 0;
}

}  // namespace

TEST_CASE("a snapshot as JSON has all figures under stable keys", "[report][summary_json]") {
    REQUIRE(
        summary_json(summary_samples::small_snapshot()) ==
        R"({"taken_ms":1767225661000,"budgets":[)"
        R"({"name":"gpu","depth":0,"parent":null,"limit":16384,"held":12288,"peak":14336,"available":4096,"reservation":false,"released":false},)"
        R"({"name":"training","depth":1,"parent":0,"limit":8192,"held":6144,"peak":8192,"available":2048,"reservation":false,"released":false},)"
        R"({"name":"batches","depth":1,"parent":0,"limit":4096,"held":1024,"peak":2048,"available":3072,"reservation":true,"released":false}],)"
        R"("pools":[{"name":"main","device":0,"memory":"device","budget":1,"stats":{"requested":1500,"allocated":1792,)"
        R"("active":2048,"reserved":6144,"peak_requested":2000,"peak_allocated":2304,"peak_active":2560,"peak_reserved":8192,)"
        R"("live_blocks":3,"free_blocks":3,"largest_free":2048,"segments":2,"thread_cache_hits":0,"stream_waits":0},)"
        R"("tags":[{"tag":"weights","live_blocks":2,"requested":1000,"allocated":1024,"oldest":4,"peak":1024},)"
        R"({"tag":"activations","live_blocks":1,"requested":500,"allocated":768,"oldest":0,"peak":1280}]}],)"
        R"("tags":[{"tag":"weights","pools":1,"live_blocks":2,"requested":1000,"allocated":1024,"oldest":4,"peak":1024,"peak_is_exact":true},)"
        R"({"tag":"activations","pools":1,"live_blocks":1,"requested":500,"allocated":768,"oldest":0,"peak":1280,"peak_is_exact":true}],)"
        R"("holders":[{"name":"loader train","budget":2,"allocation_groups":[)"
        R"({"tag":"staging","location":{"file":"loader.cpp","line":7},"bytes":768,"cached":false},)"
        R"({"tag":"spare slots","location":null,"bytes":256,"cached":true}]}],)"
        R"("devices":[{"ordinal":0,"name":"simulated","total":1073741824,"free":1073721344,"own":16384,)"
        R"("external":4096,"baseline":1024,"pooled":0,"soft_limit":null,"soft_limit_used":0}]})");
}

TEST_CASE("an empty snapshot is valid JSON", "[report][summary_json]") {
    CHECK(summary_json({}) ==
          R"({"taken_ms":0,"budgets":[],"pools":[],"tags":[],"holders":[],"devices":[]})");
}

TEST_CASE("blocks are in the JSON if the blocks option is set", "[report][summary_json]") {
    memory_snapshot s = summary_samples::small_snapshot();
    s.pools[0].segments[0].blocks[0].stream = 7;
    s.pools[0].segments[0].blocks[2].lifetime = cuota::lifetime_hint::step;
    s.pools[0].segments[0].blocks[3].use = cuota::block_use::releasing;
    s.pools[0].segments[0].blocks[4].lifetime = cuota::lifetime_hint::persistent;
    s.pools[0].segments[0].blocks[4].age = 4;
    CHECK_FALSE(support::has(summary_json(s), "segments\":["));
    std::string const told = summary_json(s, {.blocks = true});
    INFO(told);
    CHECK(support::has(
        told,
        R"("segments":[{"address":4096,"size":4096,"paged":false,"blocks":[)"
        R"({"address":4096,"size":512,"use":"live","requested":500,"tag":"weights","location":{"file":"train.cpp","line":10},"lifetime":"scratch","age":0,"stream":7},)"
        R"({"address":4608,"size":256,"use":"pending"},)"
        R"({"address":4864,"size":768,"use":"live","requested":500,"tag":"activations","location":{"file":"train.cpp","line":20},"lifetime":"step","age":0,"stream":null},)"
        R"({"address":5632,"size":2048,"use":"releasing"},)"
        R"({"address":7680,"size":512,"use":"live","requested":500,"tag":"weights","location":{"file":"train.cpp","line":10},"lifetime":"persistent","age":4,"stream":null}]},)"
        R"({"address":8192,"size":2048,"paged":true,"blocks":[{"address":8192,"size":2048,"use":"free"}]}]})"));
}

TEST_CASE("unlimited and unknown values are null", "[report][summary_json][python]") {
    memory_snapshot s = summary_samples::small_snapshot();
    s.budgets[0].facts.limit = cuota::unlimited;
    s.pools[0].device.reset();
    s.pools[0].memory = cuota::memory_kind::pinned;
    s.pools[0].tags[1].peak.reset();
    s.pools.push_back(s.pools[0]);
    s.pools[1].memory = cuota::memory_kind::managed;
    CHECK(python_agrees(summary_json(s), R"(
assert s["budgets"][0]["limit"] is None and s["budgets"][0]["available"] is None
assert s["pools"][0]["device"] is None and s["pools"][0]["memory"] == "pinned"
assert s["pools"][1]["memory"] == "managed"
assert s["pools"][0]["tags"][0]["peak"] == 1024 and s["pools"][0]["tags"][1]["peak"] is None
assert [(t["tag"], t["pools"], t["peak"], t["peak_is_exact"]) for t in s["tags"]] == [
    ("weights", 2, 2048, False), ("activations", 2, None, False)]
)"));
    CHECK_FALSE(python_agrees(summary_json(s), "sys.exit(3 if s[\"pools\"] else 0)"));
}

TEST_CASE("any name is escaped in JSON, and sizes remain integers", "[report][summary_json][python]") {
    memory_snapshot s = summary_samples::small_snapshot();
    s.budgets[0].facts.name = "größer \"\\\n\x1b\xFF 予算";
    s.pools[0].name = s.budgets[0].facts.name;
    s.pools[0].tags[0].name = cuota::tag::named("a\tb");
    s.holders[0].name = "h\x01";
    s.devices[0].name = "d\x7f";
    s.devices[0].total = cuota::unlimited - 1;
    CHECK(python_agrees(summary_json(s, {.blocks = true}), R"(
assert s["budgets"][0]["name"] == "gr\u00f6\u00dfer \"\\\n\u001b\ufffd \u4e88\u7b97" == s["pools"][0]["name"]
assert s["pools"][0]["tags"][0]["tag"] == "a\tb" and s["holders"][0]["name"] == "h\u0001"
assert s["devices"][0]["name"] == "d\u007f" and s["devices"][0]["total"] == 2**64 - 2
assert sum(b["size"] for x in s["pools"][0]["segments"] for b in x["blocks"]) == 6144
)"));
}
