// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/timeline.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>

#include "report/timeline_samples.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

using cuota::event_kind;
using cuota::recording;
using cuota::source_kind;

namespace {

[[nodiscard]] std::string timeline_of(recording const& r, cuota::timeline_options const& options = {}) {
    std::ostringstream out;
    cuota::write_timeline(out, r, options);
    return out.str();
}

[[nodiscard]] std::size_t count_of(std::string_view text, std::string_view word) {
    std::size_t count = 0;
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
    return count;
}

[[nodiscard]] std::string timeline_json(std::string const& page) {
    std::string const begin = R"(<script type="application/json" id="cuota-data">)";
    auto const from = page.find(begin);
    REQUIRE(from != page.npos);
    auto const until = page.find("</script>", from);
    return page.substr(from + begin.size(), until - from - begin.size());
}

// Reads the page (a file) as a browser would, and prints its content line by line, in the format of said_by_recording.
constexpr char const* reader = R"py(
import json, pathlib, re, sys
page = pathlib.Path(sys.argv[1]).read_bytes().decode("utf-8")
d = json.loads(re.search(r'id="cuota-data">(.*?)</script>', page, re.S)[1])
def lives(columns):
    for i in range(len(columns["from"])):
        life = {name: column[i] for name, column in columns.items()}
        region = d["regions"][life["region"]]
        assert 0 <= life["offset"] and life["offset"] + life.get("size", life["bytes"]) <= region["bytes"]
        yield life, region["source"], int(region["address"], 16) + life["offset"]
lines = []
for l, source, address in lives(d["segments"]):
    lines.append(f"segment {source} {address} {l['bytes']} {l['from']} {l['until']}")
for l, source, address in lives(d["blocks"]):
    stream = d["streams"][l["stream"]] if l["stream"] >= 0 else "-1"
    site = d["sites"][l["site"]]
    lines.append(f"block {source} {address} {l['bytes']} {l['size']} {stream} {l['from']} {l['until']} {l['completed']} "
                 f"{d['tags'][site['tag']]} {site['file']}:{site['line']}")
for m in d["marks"]:
    lines.append(f"{m['kind']} {m['source']} {m['site']} {m['at']} {m['bytes']} {m['held']}")
for s in d["sources"]:
    lines.append(f"{s['kind']} {s['name']} {s['device']} {s['memory']} {s['limit']} {s['budget']} {s['parent']} "
                 f"{s['gone']:d} {s['paged']:d}")
lines.append(f"{d['from']} {d['to']} {d['events']} {d['dropped']} {d['began']}")
found, wanted = lines, pathlib.Path(sys.argv[2]).read_text().splitlines()
for f, w in zip(found, wanted):
    if f != w: sys.exit(f"in the page: {f}\nrecorded:    {w}")
sys.exit(0 if len(found) == len(wanted) else f"{len(found)} lines, not {len(wanted)}")
)py";

template <class Number>
[[nodiscard]] std::string said(std::optional<Number> n) {
    return n ? std::to_string(*n) : "-1";
}

[[nodiscard]] std::string said_of_mark(cuota::memory_event const& e) {
    std::string const facts = ' ' + std::to_string(e.source) + ' ' + std::to_string(e.site) + ' ' +
                              std::to_string(e.at) + ' ' + std::to_string(e.bytes) + ' ' +
                              std::to_string(e.size) + '\n';
    switch (e.kind) {
        case event_kind::refused: return "refused" + facts;
        case event_kind::reclaimed: return "reclaimed" + facts;
        case event_kind::step_begun: return "step_begun" + facts;
        case event_kind::step_ended: return "step_ended" + facts;
        case event_kind::marker: return "marker" + facts;
        default: return {};
    }
}

[[nodiscard]] std::string said_of_source(cuota::event_source const& s) {
    static constexpr char const* kinds[] = {"program", "pool", "resource", "budget"};
    static constexpr char const* memories[] = {"device", "pinned", "managed"};
    bool const is_gone = s.kind == source_kind::pool && !s.pool;
    return std::string{kinds[static_cast<int>(s.kind)]} + ' ' + s.name + ' ' + said(s.device) + ' ' +
           memories[static_cast<int>(s.memory)] + ' ' +
           (s.limit == cuota::unlimited ? "None" : std::to_string(s.limit)) + ' ' + said(s.budget) + ' ' +
           said(s.parent) + (is_gone ? " 1" : " 0") + " 0\n";
}

[[nodiscard]] std::string said_of_block(recording const& r, cuota::block_lifetime const& b) {
    cuota::event_site const& site = r.sites[b.site];
    std::string const stream = b.stream == cuota::memory_event::no_stream ? "-1" : std::to_string(b.stream);
    return "block " + std::to_string(b.source) + ' ' + std::to_string(b.address) + ' ' +
           std::to_string(b.bytes) + ' ' + std::to_string(b.size) + ' ' + stream + ' ' + said(b.from) + ' ' +
           said(b.until) + ' ' + said(b.completed) + ' ' + site.name.text() + ' ' + site.where.file + ':' +
           std::to_string(site.where.line) + '\n';
}

[[nodiscard]] std::string said_by_recording(recording const& r) {
    cuota::memory_lifetimes const all = cuota::lifetimes_of(r);
    std::string text;
    for (cuota::segment_lifetime const& s : all.segments)
        text += "segment " + std::to_string(s.source) + ' ' + std::to_string(s.address) + ' ' +
                std::to_string(s.bytes) + ' ' + said(s.from) + ' ' + said(s.until) + '\n';
    for (cuota::block_lifetime const& b : all.blocks) text += said_of_block(r, b);
    for (cuota::memory_event const& e : r.events) text += said_of_mark(e);
    for (cuota::event_source const& s : r.sources) text += said_of_source(s);
    auto const began = std::chrono::duration_cast<std::chrono::milliseconds>(r.start_time.time_since_epoch());
    return text + std::to_string(r.events.empty() ? 0 : r.events.front().at) + ' ' +
           std::to_string(r.events.empty() ? 0 : r.events.back().at) + ' ' + std::to_string(r.events.size()) +
           ' ' + std::to_string(r.dropped) + ' ' + std::to_string(began.count()) + '\n';
}

/// Returns whether Python finds the recording's content in its page.
[[nodiscard]] bool page_says_all(recording const& r) {
    support::temp_folder const folder;
    cuota::write_timeline_file(folder.path("page.html"), r);
    std::string const program = folder.write("reader.py", std::string_view{reader});
    std::string const wanted = folder.write("wanted", said_by_recording(r));
    std::string const command =
        "'" CUOTA_PYTHON "' '" + program + "' '" + folder.path("page.html") + "' '" + wanted + "'";
    return std::system(command.c_str()) == 0;
}

/// Accepts `room` bytes and then fails.
class short_stream : public std::streambuf {
public:
    explicit short_stream(std::size_t room) : room_{room} {}

private:
    int_type overflow(int_type c) override {
        if (room_ == 0) return traits_type::eof();
        --room_;
        return traits_type::not_eof(c);
    }
    std::size_t room_;
};

[[nodiscard]] recording two_pools_at_one_address() {
    recording r;
    r.sites = {{}, {"a", {"a.cpp", 1}}, {"b", {"b.cpp", 2}}};
    r.sources = {{.kind = source_kind::program},
                 {.kind = source_kind::pool, .name = "one", .device = 0},
                 {.kind = source_kind::pool, .name = "two", .device = 1}};
    for (std::uint16_t source : {std::uint16_t{1}, std::uint16_t{2}}) {
        r.events.push_back({event_kind::segment_allocated, source, 0, 10, 4096, 8192, 8192});
        r.events.push_back({event_kind::allocated, source, source, 20, 4096, 1000, 1024, 3});
        r.events.push_back({event_kind::allocated, source, source, 30, 5120, 500, 512});
    }
    r.events.push_back({event_kind::free_requested, 2, 2, 40, 4096, 1000, 1024, 3});
    return r;
}

}  // namespace

TEST_CASE("a timeline contains the recording's data exactly", "[report][timeline][python]") {
    CHECK(page_says_all(timeline_samples::training{100, 4}.result()));
    CHECK(page_says_all(timeline_samples::training{3000}.result()));
}

TEST_CASE("a timeline distinguishes pools at the same addresses", "[report][timeline][python]") {
    recording const r = two_pools_at_one_address();
    CHECK(page_says_all(r));
    CHECK(timeline_json(timeline_of(r))
              .find(R"("regions":[{"source":1,"address":"0x1000","bytes":8192},)"
                    R"({"source":2,"address":"0x1000","bytes":8192}])") != std::string::npos);
}

TEST_CASE("addresses and sizes that exceed a double's precision are exact in a timeline",
          "[report][timeline][python]") {
    recording r = two_pools_at_one_address();
    for (cuota::memory_event& e : r.events)
        if (e.source == 2 && e.address != 0) e.address += 0xFFFF'FFFF'FFFF'0001;
    CHECK(page_says_all(r));
    r.events.push_back(
        {event_kind::allocated, 1, 1, 50, 0xFFFF'FFFF'FFFF'FFF0, 64, 64});  // past the last address
    CHECK(timeline_json(timeline_of(r)).find(R"("address":"0xfffffffffffffff0","bytes":15})") !=
          std::string::npos);
}

TEST_CASE("names in a timeline are escaped", "[report][timeline]") {
    recording const r = timeline_samples::hostile();
    std::string const page =
        timeline_of(r, {.title = "</title></script><script>window.broken=5</script>\xFF"});
    CHECK(count_of(page, "<script") == 2);
    CHECK(count_of(page, "</script") == 2);
    CHECK(count_of(page, "<title") == 1);
    CHECK(count_of(page, "<img") == 0);
    CHECK(count_of(page, "\xE2\x80\xA8") + count_of(page, "\xE2\x80\xA9") == 0);
    std::string const json = timeline_json(page);
    CHECK(json.find_first_of("<>&") == std::string::npos);
    CHECK(json.find(R"("line\u2028ends\u2029here")") != std::string::npos);
    CHECK(json.find(R"(\u003c/script\u003e\u003cscript\u003ewindow.broken=1)") != std::string::npos);

    support::temp_folder const folder;
    folder.write("page.html", page);
    std::string const program = R"(import json, re, sys
page = open(sys.argv[1], "rb").read().decode("utf-8")
d = json.loads(re.search(r"id=.cuota-data.>(.*?)</script>", page, re.S)[1])
assert d["tags"][1] == "</script><script>window.broken=1</script>" and "__proto__" in d["tags"]
assert d["tags"][4] == "bell\a null? \x1b[31m \x7f\r\n\t", d["tags"][4]
assert d["sites"][2]["file"] == "a\"b'c`d${window.broken=3}\\", d["sites"][2]["file"])";
    std::string const path = folder.write("reader.py", std::string_view{program});
    CHECK(std::system(("'" CUOTA_PYTHON "' '" + path + "' '" + folder.path("page.html") + "'").c_str()) == 0);
}

TEST_CASE("an empty recording makes a valid page", "[report][timeline][python]") {
    CHECK(page_says_all({}));
    CHECK(timeline_of({}).find("Nothing was recorded") != std::string::npos);
    recording only_a_note;  // of a program without sites
    only_a_note.sources.push_back({});
    only_a_note.events.push_back({event_kind::marker, 0, 0, 5});
    CHECK(timeline_json(timeline_of(only_a_note)).find(R"("sites":[{"tag":0,"file":"","line":0}])") !=
          std::string::npos);
}

TEST_CASE("a timeline shows the number of dropped events", "[report][timeline][python]") {
    recording r = two_pools_at_one_address();
    r.dropped = 123456789;
    CHECK(page_says_all(r));
    r.dropped = ~std::uint64_t{0};
    CHECK(timeline_json(timeline_of(r)).find(R"("dropped":18446744073709551615)") != std::string::npos);
}

TEST_CASE("a timeline refers to no other file or site", "[report][timeline]") {
    std::string const page = timeline_of(timeline_samples::training{100, 4}.result(), {.title = "mine"});
    CHECK(page.find(R"("title":"mine")") != std::string::npos);
    for (std::string_view const word : {"http:", "https:", "src=", "@import", "url(", "innerHTML", "eval("})
        CHECK(count_of(page, word) == 0);
    CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("a failure to write a timeline throws data_error with the file's name", "[report][timeline]") {
    recording const r = two_pools_at_one_address();
    short_stream few{1000};
    std::ostream out{&few};
    CHECK_THROWS_AS(cuota::write_timeline(out, r), cuota::data_error);
    support::temp_folder const folder;
    try {
        cuota::write_timeline_file(folder.path("none/page.html"), r);
        FAIL("written into a folder that is not there");
    } catch (cuota::data_error const& e) { CHECK(e.file() == folder.path("none/page.html")); }
    if (std::ofstream{"/dev/full"}) {
        try {
            cuota::write_timeline_file("/dev/full", r);
            FAIL("written where no room is");
        } catch (cuota::data_error const& e) { CHECK(e.file() == "/dev/full"); }
    }
}
