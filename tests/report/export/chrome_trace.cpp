// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/chrome_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/usage_series.hpp>

#include "report/timeline_svg_samples.hpp"
#include "report/trace_samples.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::chrome_trace_options;
using cuota::event_kind;

std::string trace_of(cuota::recording const& r, chrome_trace_options const& options = {}) {
    std::ostringstream to;
    cuota::write_chrome_trace(to, r, options);
    return to.str();
}

bool trace_says(std::string_view trace, std::string_view what) { return trace.find(what) != trace.npos; }

/// Parses every NAME.json in a folder strictly by the format, and compares its counters, in nanoseconds, with NAME.expected: ordered,
/// tab-separated lines "pid, name, time, bytes", and "count PHASE n" for the other events.
char const* const trace_look = R"py(
import collections, decimal, json, pathlib, sys

def unique(pairs):
    keys = [k for k, v in pairs]
    assert len(keys) == len(set(keys)), ("a key twice", keys)
    return dict(pairs)

def no_constant(text):
    raise ValueError(text)

NEEDED = {"C": {"args"}, "X": {"dur", "args"}, "i": {"s", "args"}, "M": {"args"}, "b": {"cat", "id", "args"},
          "e": {"cat", "id", "args"}}
ARGS = {"process_name": "name", "thread_name": "name", "process_labels": "labels", "process_sort_index": "sort_index"}

def ns(number):
    assert isinstance(number, decimal.Decimal) and -number.as_tuple().exponent == 3, number
    assert number >= 0
    return int(number * 1000)

def check(path):
    whole = json.loads(path.read_bytes().decode("utf-8"), parse_float=decimal.Decimal, parse_constant=no_constant,
                       object_pairs_hook=unique)
    assert set(whole) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert whole["displayTimeUnit"] == "ns"
    counters, last, open_slices, named, used = [], {}, {}, set(), set()
    steps, phases = collections.defaultdict(int), collections.Counter()
    for e in whole["traceEvents"]:
        phase = e["ph"]
        assert set(e) == {"ph", "pid", "tid", "ts", "name"} | NEEDED[phase], e
        assert type(e["pid"]) is int and type(e["tid"]) is int and e["pid"] > 0 and e["tid"] > 0, e
        assert type(e["name"]) is str and e["name"] and type(e["args"]) is dict, e
        at = ns(e["ts"])
        phases[phase] += 1
        if phase == "M":
            (key, value), = e["args"].items()
            assert ARGS[e["name"]] == key and type(value) is (int if key == "sort_index" else str), e
            if e["name"] == "process_name":
                assert e["pid"] not in named
                named.add(e["pid"])
            continue
        used.add(e["pid"])
        if phase == "C":
            (key, value), = e["args"].items()
            assert key == "bytes" and type(value) is int and value >= 0, e
            counter = e["pid"], e["name"]
            assert last.get(counter, 0) <= at, e
            last[counter] = at
            counters.append(f"{e['pid']}\t{e['name']}\t{at}\t{value}")
        elif phase == "X":
            assert steps[e["pid"]] <= at, e  # they do not overlap
            steps[e["pid"]] = at + ns(e["dur"])
        elif phase == "i":
            assert e["s"] in ("g", "p", "t"), e
        else:
            key = e["cat"], e["id"]
            assert type(e["id"]) is str and e["id"], e
            if phase == "b":
                assert key not in open_slices, e
                open_slices[key] = e
            else:
                begin = open_slices.pop(key)
                assert begin["name"] == e["name"] and begin["pid"] == e["pid"] and ns(begin["ts"]) <= at, e
    assert not open_slices and used <= named, (open_slices, used - named)
    expected = path.with_suffix(".expected")
    if expected.exists():
        counts, points = [], []
        for line in expected.read_text("utf-8").splitlines():
            (counts if line.startswith("count ") else points).append(line)
        if sorted(points) != sorted(counters):
            raise AssertionError(sorted(set(points) ^ set(counters))[:6])
        by_name = lambda lines: {k: [l for l in lines if l.split("\t")[:2] == list(k)]
                                 for k in {tuple(l.split("\t")[:2]) for l in lines}}
        assert by_name(points) == by_name(counters), "order"
        for line in counts:
            word, phase, number = line.split(" ")
            assert phases[phase] == int(number), (line, phases)

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    try:
        check(path)
    except Exception as e:
        sys.exit(f"{path}: {e!r}")
)py";

/// Returns Python's findings about all traces in the folder; empty if they are correct.
std::string what_is_wrong_in(support::temp_folder const& folder) {
    std::string const program = folder.write("look.py", std::string_view{trace_look});
    std::string const said = folder.path("said");
    int const status = std::system(
        ("'" CUOTA_PYTHON "' '" + program + "' '" + folder.path() + "' 2> '" + said + "'").c_str());
    std::ifstream in{said};
    std::string const text{std::istreambuf_iterator<char>{in}, {}};
    return status == 0 ? "" : "wrong: " + text;
}

std::string counter_line(std::size_t pid, std::string const& name, std::uint64_t at, std::size_t bytes) {
    return std::to_string(pid) + '\t' + name + '\t' + std::to_string(at) + '\t' + std::to_string(bytes) +
           '\n';
}

std::size_t count_of(cuota::recording const& r, event_kind kind) {
    std::size_t count = 0;
    for (cuota::memory_event const& e : r.events) count += e.kind == kind ? 1 : 0;
    return count;
}

// Returns the expected counters, computed from the level curves, and the numbers of other events.
std::string expected_of(cuota::recording const& r, std::size_t most, std::size_t blocks) {
    cuota::usage_series const all = cuota::usage_over_time(r, {.max_groups = most});
    std::string lines;
    auto const add = [&](std::size_t pid, std::string const& name, cuota::usage_curve const& curve) {
        for (cuota::usage_point const p : curve.points) lines += counter_line(pid, name, p.at, p.bytes);
    };
    add(1, "live", all.total);
    add(1, "reserved", all.reserved);
    for (cuota::usage_curve const& part : all.parts)
        add(1, part.merged == 0 ? "live: " + part.name : "live, others: " + std::to_string(part.merged),
            part);
    for (std::size_t s = 0; s != r.sources.size(); ++s) {
        if (r.sources[s].kind == cuota::source_kind::pool) {
            cuota::usage_options const only{.sources = {static_cast<std::uint16_t>(s)}};
            add(s + 2, "reserved", cuota::usage_over_time(r, only).reserved);
        }
        if (r.sources[s].limit != cuota::unlimited)
            lines += counter_line(s + 2, "limit", all.from, r.sources[s].limit);
    }
    std::size_t const instants = count_of(r, event_kind::refused) + count_of(r, event_kind::reclaimed) +
                                 count_of(r, event_kind::marker);
    std::size_t const slices = std::min(blocks, cuota::lifetimes_of(r).blocks.size());
    return lines + "count i " + std::to_string(instants) + "\ncount b " + std::to_string(slices) +
           "\ncount e " + std::to_string(slices) + '\n';
}

void write_with_expected(support::temp_folder const& folder, std::string const& name,
                         cuota::recording const& r, std::size_t most = 12, std::size_t blocks = 0) {
    folder.write(name + ".json", trace_of(r, {.max_groups = most, .blocks = blocks}));
    folder.write(name + ".expected", expected_of(r, most, blocks));
}

cuota::memory_event happening(event_kind kind, std::uint64_t at, std::uint64_t address = 0,
                              std::size_t bytes = 0, std::uint32_t site = 0, std::uint16_t source = 2) {
    return {.kind = kind,
            .source = source,
            .site = site,
            .at = at,
            .address = address,
            .bytes = bytes,
            .size = bytes + 1};
}

cuota::recording trace_by_hand() {
    cuota::recording r;
    r.dropped = 9;
    r.sites = {{}, {"acts", {"dir/x.cpp", 7}}, {"epoch 1", {}}};
    r.sources.resize(3);
    r.sources[1] = {cuota::source_kind::budget, "gpu"};
    r.sources[1].limit = 4096;
    r.sources[2] = {cuota::source_kind::pool, "main", 0};
    r.events = {happening(event_kind::segment_allocated, 1'000'001, 0, 2048),
                happening(event_kind::step_ended, 1'000'002),  // begun before the recording
                happening(event_kind::step_begun, 1'000'010),
                happening(event_kind::allocated, 1'000'020, 1, 99, 1),
                happening(event_kind::refused, 1'000'030, 0, 5000, 1, 1),
                happening(event_kind::reclaimed, 1'000'040, 0, 1024, 1, 1),
                happening(event_kind::marker, 1'000'050, 0, 0, 2, 0),
                happening(event_kind::free_requested, 1'000'060, 1, 99),
                happening(event_kind::step_ended, 1'002'010),
                happening(event_kind::segment_freed, 1'002'020, 0, 1024),
                happening(event_kind::step_begun, 1'002'030),
                happening(event_kind::marker, 1'002'031, 0, 0, 2, 0)};
    return r;
}

}  // namespace

TEST_CASE("a trace has all events with their times to the nanosecond", "[report][chrome_trace][python]") {
    support::temp_folder const folder;
    std::string const trace = trace_of(trace_by_hand(), {.blocks = 5});
    for (
        char const* const line : {
            R"("events":12,"events_dropped":9,"peak_live_bytes":100})",
            R"({"ph":"M","pid":4,"tid":4,"ts":0.000,"name":"process_name","args":{"name":"pool main"}})",
            R"("name":"process_labels","args":{"labels":"limit 4.0 KiB"}})",
            R"({"ph":"C","pid":1,"tid":1,"ts":1000.020,"name":"live","args":{"bytes":100}})",
            R"({"ph":"C","pid":1,"tid":1,"ts":1000.060,"name":"live: acts","args":{"bytes":0}})",
            R"({"ph":"C","pid":4,"tid":4,"ts":1000.001,"name":"reserved","args":{"bytes":2048}})",
            R"({"ph":"C","pid":4,"tid":4,"ts":1002.020,"name":"reserved","args":{"bytes":1024}})",
            R"({"ph":"C","pid":3,"tid":3,"ts":1000.001,"name":"limit","args":{"bytes":4096}})",
            R"("ts":1000.001,"name":"step 1","dur":0.001,"args":{"ended":true}})",
            R"("ts":1000.010,"name":"step 2","dur":2.000,"args":{"ended":true}})",
            R"("ts":1002.030,"name":"step 3","dur":0.001,"args":{"ended":false}})",
            R"({"ph":"i","pid":3,"tid":3,"ts":1000.030,"name":"refused 4.9 KiB for acts","s":"p","args":{"bytes":5000,"tag":"acts","held":5001,"limit":4096,"location":"x.cpp:7"}})",
            R"("ts":1000.040,"name":"reclaimed 1.0 KiB of acts","s":"p","args":{"bytes":1024,"tag":"acts","location":"x.cpp:7"}})",
            R"({"ph":"i","pid":2,"tid":2,"ts":1000.050,"name":"epoch 1","s":"p","args":{"location":""}})",
            R"({"ph":"b","pid":4,"tid":4,"ts":1000.020,"name":"acts","cat":"block","id":"1","args":{"bytes":99,"size":100,"location":"x.cpp:7","address":"1","from_before":false,"live_at_end":false}})",
            R"({"ph":"e","pid":4,"tid":4,"ts":1000.060,"name":"acts","cat":"block","id":"1","args":{}})",
        }) {
        INFO(line);
        CHECK(trace_says(trace, line));
    }
    write_with_expected(folder, "hand", trace_by_hand(), 12, 5);
    CHECK(what_is_wrong_in(folder) == "");
}

TEST_CASE("the counters of a trace equal the levels of the recording", "[report][chrome_trace][python]") {
    support::temp_folder const folder;
    for (std::uint64_t seed = 0; seed != 40; ++seed)
        write_with_expected(folder, "random" + std::to_string(seed),
                            trace_samples::random_recording{seed, seed * 10}.get(), seed % 5, seed % 7 * 10);
    write_with_expected(folder, "training", svg_samples::training{3000}.get(), 4, 100);
    write_with_expected(folder, "real", trace_samples::of_real_pools(), 12, 8);
    write_with_expected(folder, "nothing", {}, 12, 8);
    CHECK(what_is_wrong_in(folder) == "");
}

TEST_CASE("a trace starts with its first event, and no step overlaps the next",
          "[report][chrome_trace][python]") {
    cuota::recording r = trace_by_hand();
    r.events = {happening(event_kind::step_begun, 2000), happening(event_kind::allocated, 1990, 1, 9, 1),
                happening(event_kind::step_begun, 3000), happening(event_kind::step_ended, 4000)};
    std::string const trace = trace_of(r, {.blocks = 1});
    CHECK(trace_says(trace, R"({"ph":"b","pid":4,"tid":4,"ts":2.000,)"));
    CHECK(trace_says(trace, R"("ts":2.000,"name":"step 1","dur":1.000,"args":{"ended":false})"));
    CHECK(trace_says(trace, R"("ts":3.000,"name":"step 2","dur":1.000,"args":{"ended":true})"));
    support::temp_folder const folder;
    write_with_expected(folder, "late", r, 12, 1);
    CHECK(what_is_wrong_in(folder) == "");
}

TEST_CASE("a trace of chosen sources has only their counters, steps and blocks", "[report][chrome_trace]") {
    cuota::recording const r = trace_by_hand();
    std::string const none = trace_of(r, {.sources = {0}, .blocks = 9});
    CHECK_FALSE(trace_says(none, "\"ph\":\"X\""));
    CHECK_FALSE(trace_says(none, "\"ph\":\"b\""));
    CHECK_FALSE(trace_says(none, "live: acts"));
    CHECK_FALSE(trace_says(none, "\"pid\":4,\"tid\":4,\"ts\":1000.001,\"name\":\"reserved\""));
    CHECK(trace_says(none, "refused 4.9 KiB"));
    CHECK(trace_says(none, "\"limit\""));
    std::string const one = trace_of(r, {.sources = {2}, .blocks = 9});
    CHECK(one == trace_of(r, {.blocks = 9}));
}

TEST_CASE("no name breaks a trace or splits a counter", "[report][chrome_trace][python]") {
    support::temp_folder const folder;
    std::size_t number = 0;
    for (char const* const text : {"\"},{\"ph\":\"X\"", "\\", "\n\r\t\b\x01\x7F", "\xFF\xC0 broken \xE2\x82",
                                   "</script>", "", "\xE2\x80\xA8"}) {
        cuota::tag const name = cuota::tag::named(text);
        cuota::recording r = trace_by_hand();
        r.sites[1] = {name, {text, 3}};
        r.sites[2] = {name, {text, 4}};
        for (cuota::event_source& s : r.sources) s.name = text;
        r.sites.push_back({cuota::tag::named(std::string{text} + "\xFF"), {}});
        r.sites.push_back({cuota::tag::named(std::string{text} + "\xFE"), {}});
        r.sites.push_back({cuota::tag{"untagged"}, {}});
        for (std::uint32_t i = 0; i != 5; ++i)
            r.events.push_back(happening(event_kind::allocated, 2'000'000 + i, i, i, i + 1));
        for (auto const by : {cuota::group_by::tag, cuota::group_by::site, cuota::group_by::source})
            folder.write("hostile" + std::to_string(++number) + ".json",
                         trace_of(r, {.by = by, .blocks = 9}));
        std::string const trace = trace_of(r);
        if (*text == '\0') CHECK(trace_says(trace, "\"live: untagged #2\""));
        CHECK(trace_says(trace, "\xEF\xBF\xBD") == false);  // escaped: \ufffd
        CHECK(trace_says(trace, "\\ufffd #2\""));
    }
    CHECK(what_is_wrong_in(folder) == "");
}

TEST_CASE("a failure to write a trace throws data_error", "[report][chrome_trace]") {
    cuota::recording const r = svg_samples::training{3000}.get();
    std::size_t const size = trace_of(r).size();
    REQUIRE(size > 200'000);  // so it is written in several parts
    for (std::size_t const room : {std::size_t{0}, std::size_t{100'000}, size - 1}) {
        trace_samples::full_stream disk{room};
        std::ostream to{&disk};
        auto const failed = support::thrown<cuota::data_error>([&] { cuota::write_chrome_trace(to, r); });
        CHECK(failed.file() == "Chrome trace");
        CHECK(failed.offset() <= room);
        CHECK(room - failed.offset() < 70'000);
    }
    trace_samples::full_stream enough{size};
    std::ostream to{&enough};
    CHECK_NOTHROW(cuota::write_chrome_trace(to, r));

    std::ostringstream none;
    auto const refused =
        support::thrown<cuota::usage_error>([&] { cuota::write_chrome_trace(none, r, {.sources = {5}}); });
    CHECK(trace_says(refused.what(), "source index 5 is out of range: the recording has 5 sources"));
    CHECK(none.str().empty());
}
