// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/timeline_svg.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <ostream>
#include <random>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/timeline_svg_samples.hpp"
#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

namespace {

using cuota::event_kind;
using cuota::svg_options;

std::string svg_of(cuota::recording const& r, svg_options const& options = {}) {
    std::ostringstream to;
    cuota::write_timeline_svg(to, r, options);
    return to.str();
}

bool svg_says(std::string_view svg, std::string_view what) { return svg.find(what) != svg.npos; }

std::size_t svg_count(std::string_view svg, std::string_view what) {
    std::size_t count = 0;
    for (std::size_t at = svg.find(what); at != svg.npos; at = svg.find(what, at + 1)) ++count;
    return count;
}

/// Reads every picture in a folder as XML, and checks that texts neither overlap nor leave the page. If "NAME.expected" exists, with lines
/// "tag, nanoseconds, bytes", compares it with areas measured by the ticks of the axes.
char const* const looking = R"py(
import re, sys, pathlib
import xml.etree.ElementTree as tree
S = "{http://www.w3.org/2000/svg}"
SIZES = {"title": 16, "small": 10, "halo": 11, "caption": 11}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
TIMES = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}

def text_box(t):
    size = next((SIZES[c] for c in t.get("class", "").split() if c in SIZES), 12)
    width = sum(1.0 if ord(c) > 0x2E80 or c in "mwMW" else 0.35 if c in " .,:;'|!ijltfI()-/" else 0.6
                for c in t.text or "") * size
    x, y = float(t.get("x")), float(t.get("y"))
    x -= {"middle": width / 2, "end": width}.get(t.get("text-anchor"), 0)
    return x, y - 0.75 * size, x + width, y + 0.2 * size

def check_layout(root):
    w, h = float(root.get("width")), float(root.get("height"))
    boxes = [(text_box(t), t.text) for t in root.iter(S + "text")]
    for i, ((l, t, r, b), what) in enumerate(boxes):
        assert 0 <= l and 0 <= t and r <= w and b <= h, ("off the page", what)
        for (l2, t2, r2, b2), other in boxes[:i]:
            assert not (l < r2 and l2 < r and t < b2 and t2 < b), ("touch", what, other)
    known = {S + x for x in ("svg", "title", "style", "rect", "path", "text", "circle")}
    assert {e.tag for e in root.iter()} <= known
    for e in root.iter():
        assert not any(k.startswith("on") or "href" in k for k in e.keys())

def heights(path):  # x at which it begins, and y from there on
    result = []
    for run in path.split("M")[1:]:
        x, bottom = map(float, re.match(r"([\d.]+) ([\d.]+)", run).groups())
        for kind, number in re.findall(r"([HV])([\d.]+)", run):
            if kind == "H": x = float(number)
            else: result.append((x, float(number)))
    return result

def at(steps, x, bottom):
    y = bottom
    for first, height in steps:
        if first <= x: y = height
    return y

def check_values(root, expected):
    quiet = [t for t in root.iter(S + "text") if t.get("class") == "quiet"]
    ys = [(float(t.get("y")) - 4, t.text) for t in quiet if t.get("text-anchor") == "end" and re.match(r"\d", t.text)
          and float(t.get("x")) < 76]
    bottom = next(y for y, text in ys if text == "0")
    top, text = min(ys)
    number, unit = text.split()
    per_pixel = float(number) * BYTES[unit] / (bottom - top)
    middle = [t for t in quiet if t.get("text-anchor") == "middle"]
    unit = TIMES[middle[-1].text.split()[0]]
    ticks = [(float(t.get("x")), float(t.text) * unit) for t in middle[:-1]]
    (x1, t1), (x2, t2) = ticks[0], ticks[-1]
    areas = [(p.find(S + "title").text, heights(p.get("d"))) for p in root.iter(S + "path")
             if p.get("class", "").startswith("area")]
    for line in expected.read_text().splitlines():
        tag, ns, wanted = line.split("\t")
        x = x1 + (float(ns) - t1) * (x2 - x1) / (t2 - t1)
        index = [name for name, steps in areas].index(tag)
        own = at(areas[index][1], x, bottom)
        below = min([at(steps, x, bottom) for name, steps in areas[index + 1:]], default=bottom)
        found = max(below - own, 0) * per_pixel
        assert abs(found - float(wanted)) < 0.4 * per_pixel, (line, found, per_pixel)

for picture in sorted(pathlib.Path(sys.argv[1]).glob("*.svg")):
    try:
        root = tree.fromstring(picture.read_bytes())
        check_layout(root)
        expected = picture.with_suffix(".expected")
        if expected.exists(): check_values(root, expected)
    except Exception as e:
        sys.exit(f"{picture}: {e!r}")
)py";

/// Returns Python's findings about all pictures in the folder; empty if they are correct.
std::string what_is_wrong(support::temp_folder const& folder) {
    std::string const program = folder.write("look.py", std::string_view{looking});
    std::string const said = folder.path("said");
    int const status = std::system(
        ("'" CUOTA_PYTHON "' '" + program + "' '" + folder.path() + "' 2> '" + said + "'").c_str());
    std::ifstream in{said};
    std::string const text{std::istreambuf_iterator<char>{in}, {}};
    return status == 0 ? "" : "wrong: " + text;
}

void svg_event(cuota::recording& to, event_kind kind, std::uint64_t at, std::uint64_t address,
               std::size_t bytes, std::uint32_t site, std::uint16_t source) {
    to.events.push_back({.kind = kind,
                         .source = source,
                         .site = site,
                         .at = at,
                         .address = address,
                         .bytes = bytes,
                         .size = bytes});
}

/// One pool, charged to "leaf" in "root", and an unrelated budget.
cuota::recording one_pool(std::size_t leaf_limit, std::size_t root_limit) {
    cuota::recording r;
    r.sites = {{}, {"a", {}}, {"b", {}}, {"c", {}}};
    r.sources.resize(5);
    r.sources[1] = {cuota::source_kind::budget, "root"};
    r.sources[1].limit = root_limit;
    r.sources[2] = {cuota::source_kind::budget, "leaf"};
    r.sources[2].limit = leaf_limit;
    r.sources[2].parent = 1;
    r.sources[3] = {cuota::source_kind::pool, "pool"};
    r.sources[3].budget = 2;
    r.sources[4] = {cuota::source_kind::budget, "external"};
    r.sources[4].limit = 100;
    return r;
}

cuota::recording picture_by_hand(std::size_t leaf_limit = cuota::unlimited,
                                 std::size_t root_limit = cuota::unlimited) {
    cuota::recording r = one_pool(leaf_limit, root_limit);
    svg_event(r, event_kind::segment_allocated, 1'000'000, 0, 100_MiB, 0, 3);
    svg_event(r, event_kind::allocated, 2'000'000, 1, 30_MiB, 1, 3);
    svg_event(r, event_kind::allocated, 4'000'000, 2, 50_MiB, 2, 3);
    svg_event(r, event_kind::free_requested, 6'000'000, 1, 30_MiB, 1, 3);
    svg_event(r, event_kind::allocated, 8'000'000, 3, 10_MiB, 3, 3);
    svg_event(r, event_kind::free_requested, 9'000'000, 2, 50_MiB, 2, 3);
    svg_event(r, event_kind::marker, 10'000'000, 0, 0, 0, 0);
    return r;
}

/// Accepts `room` bytes and then fails.
class full_disk : public std::streambuf {
public:
    explicit full_disk(std::streamsize room) : room_{room} {}

private:
    std::streamsize xsputn(char const*, std::streamsize n) override {
        std::streamsize const taken = std::min(n, room_);
        room_ -= taken;
        return taken;
    }
    int overflow(int c) override { return room_-- > 0 ? c : traits_type::eof(); }

    std::streamsize room_;
};

}  // namespace

TEST_CASE("the areas of a picture equal the live bytes", "[report][timeline_svg][python]") {
    support::temp_folder const folder;
    folder.write("hand.svg", svg_of(picture_by_hand()));
    std::string expected;
    auto const add = [&](char const* name, int at, std::size_t bytes) {
        expected += std::string{name} + '\t' + std::to_string(at) + "500000\t" + std::to_string(bytes) + '\n';
    };
    for (int at = 1; at != 10; ++at) {
        add("a", at, at >= 2 && at < 6 ? 30_MiB : 0);
        add("b", at, at >= 4 && at < 9 ? 50_MiB : 0);
        add("c", at, at >= 8 ? 10_MiB : 0);
    }
    folder.write("hand.expected", std::string_view{expected});

    cuota::recording const training = svg_samples::training(300).get();
    auto const all = cuota::usage_over_time(training, {.sources = {3}});
    folder.write("training.svg", svg_of(training));
    std::string found;
    for (std::size_t i = 5; i + 1 < training.events.size(); i += 3) {
        auto const at = (training.events[i].at + training.events[i + 1].at) / 2;
        for (auto const& part : all.parts)
            found += part.name + '\t' + std::to_string(at) + '\t' + std::to_string(usage_at(part, at)) + '\n';
    }
    folder.write("training.expected", std::string_view{found});
    CHECK(what_is_wrong(folder) == "");
}

TEST_CASE("a picture shows peaks, limits, refusals and dropped events", "[report][timeline_svg]") {
    cuota::recording r = picture_by_hand(120_MiB, 1_GiB);
    svg_event(r, event_kind::refused, 11'000'000, 0, 77_MiB, 2, 2);
    svg_event(r, event_kind::refused, 11'000'100, 0, 5_MiB, 2, 4);  // by the budget of other memory
    r.dropped = 12'345;
    std::string const svg = svg_of(r);
    CHECK(svg_says(svg, "<title>Live memory by tag</title>"));
    CHECK(svg_says(svg, "At the peak, 80.0 MiB at 4.0 ms: b 50.0 MiB, a 30.0 MiB."));
    CHECK(svg_says(svg,
                   "1 refusal: 77.0 MiB for b by leaf at 11.0 ms. 12&#39;345 earlier events were dropped."));
    CHECK(svg_says(svg, ">peak 80.0 MiB</text>"));
    CHECK(svg_says(svg, ">limit of leaf: 120.0 MiB</text>"));
    CHECK(svg_says(svg, ">\xe2\x86\x91 limit of root: 1.0 GiB</text>"));
    CHECK(svg_count(svg, "class=\"line limit\"") == 1);  // the other is text only, for the scale
    CHECK(!svg_says(svg, "external"));
    CHECK(svg_says(svg, ">reserved</text>"));
    CHECK(svg_says(svg, ">100.0 MiB</text>"));
    CHECK(svg_says(svg, ">100 MiB</text>"));
    CHECK(svg_says(svg, ">refused</text>"));
    CHECK(svg_count(svg, "class=\"line refusal\"") == 1);

    CHECK(svg_says(svg_of(r, {.title = "A & B"}), "<title>A &amp; B</title>"));
    CHECK(svg_says(svg_of(r, {.by = cuota::group_by::source}), "<title>pool</title>"));
    CHECK(svg_says(svg_of(r, {.max_groups = 1}), ">2 others</text>"));
}

TEST_CASE("an allocation by the last event is visible", "[report][timeline_svg]") {
    cuota::recording r = picture_by_hand();
    svg_event(r, event_kind::allocated, 10'000'000, 9, 90_MiB, 1, 3);
    std::string const svg = svg_of(r);
    std::string const path = svg.substr(0, svg.find("<title>a</title>"));
    double const begin = std::stod(path.substr(path.rfind('M') + 1));  // start of the last area of "a"
    CHECK(begin > 700);
    CHECK(begin < 716);  // the plot ends at 720
}

TEST_CASE("steps are shown below a picture, with numbers or as a count", "[report][timeline_svg]") {
    cuota::recording r = picture_by_hand();
    CHECK(!svg_says(svg_of(r), ">steps</text>"));
    svg_event(r, event_kind::step_ended, 10'500'000, 0, 0, 0, 3);  // begun before the first event
    svg_event(r, event_kind::step_begun, 11'000'000, 0, 0, 0, 3);
    svg_event(r, event_kind::step_ended, 15'000'000, 0, 0, 0, 3);
    svg_event(r, event_kind::step_begun, 16'000'000, 0, 0, 0, 3);
    svg_event(r, event_kind::marker, 20'000'000, 0, 0, 0, 0);
    std::string const few = svg_of(r);
    CHECK(svg_says(few, ">steps</text>"));
    CHECK(svg_says(few, ">3</text>"));
    CHECK(svg_count(few, "<rect class=\"even\"") == 2);
    CHECK(svg_count(few, "<rect class=\"odd\"") == 1);
    for (std::uint64_t i = 0; i != 500; ++i) {
        svg_event(r, event_kind::step_begun, 20'000'000 + 20 * i, 0, 0, 0, 3);
        svg_event(r, event_kind::step_ended, 20'000'010 + 20 * i, 0, 0, 0, 3);
    }
    std::string const many = svg_of(r);
    CHECK(svg_says(many, ">503 steps</text>"));
    CHECK(svg_count(many, "<rect class=\"even\"") == 1);
}

TEST_CASE("host memory is not in a picture of device memory, unless it is alone or chosen",
          "[report][timeline_svg]") {
    cuota::recording r = picture_by_hand();
    r.sources.push_back({cuota::source_kind::resource, "staging", {}, cuota::memory_kind::pinned});
    r.sites.push_back({"slots", {}});
    svg_event(r, event_kind::allocated, 10'000'000, 5, 500_MiB, 4, 5);
    std::string const both = svg_of(r);
    CHECK(!svg_says(both, "slots"));
    CHECK(svg_says(both, "Not shown: host or managed memory (staging)."));
    std::string const chosen = svg_of(r, {.sources = {5}});
    CHECK(svg_says(chosen, "slots"));
    CHECK(!svg_says(chosen, "Not shown"));
    r.sources[3].memory = cuota::memory_kind::pinned;
    CHECK(svg_says(svg_of(r), "slots"));
}

TEST_CASE("a picture of many events is small and shows their exact peak", "[report][timeline_svg][python]") {
    support::temp_folder const folder;
    auto const count = support::rounds<std::size_t>(100'000);
    cuota::recording const training = svg_samples::training(count).get();
    std::string const svg = svg_of(training);
    CHECK(training.events.size() > count / 10 * 8);
    CHECK(svg.size() < 200 * 1024);
    CHECK(svg == svg_of(training));
    folder.write("training.svg", svg);

    // All columns differ, and one moment has the highest peak.
    cuota::recording noise = one_pool(cuota::unlimited, cuota::unlimited);
    std::mt19937_64 random{5};
    for (std::uint32_t i = 4; i != 30; ++i)
        noise.sites.push_back({cuota::tag::named("tag " + std::to_string(i)), {}});
    std::vector<std::size_t> live(2000);
    for (std::uint64_t at = 1; at != count; ++at) {
        auto const any = static_cast<std::size_t>(random() % 2000);
        std::size_t const i =
            at == count / 2 ? static_cast<std::size_t>(std::ranges::find(live, 0U) - live.begin()) : any;
        auto const site = static_cast<std::uint32_t>(i % 30);
        std::size_t const bytes = at == count / 2 ? 4_GiB : 1 + random() % 4_MiB;
        if (live[i] == 0) svg_event(noise, event_kind::allocated, at * 1000, i, live[i] = bytes, site, 3);
        else svg_event(noise, event_kind::free_requested, at * 1000, i, std::exchange(live[i], 0), site, 3);
    }
    for (unsigned const width : {560U, 960U, 4096U}) {
        std::string const picture = svg_of(noise, {.width = width});
        CHECK(picture.size() < 200 * 1024);
        CHECK(picture.size() > 10 * 1024);
        folder.write("noise" + std::to_string(width) + ".svg", picture);
    }
    CHECK(what_is_wrong(folder) == "");
}

TEST_CASE("malicious names are only text in a picture", "[report][timeline_svg][python]") {
    support::temp_folder const folder;
    std::vector<std::string> const names{
        "</text><script>alert(1)</script>",
        "\" onload=\"x",
        "' & ]]>",
        std::string{"a\1\x1f\x7f\n\0b", 7},
        "\xff\xfe\xc3(",
        "\xe2\x80\xae"
        "desrever",
        "\xef\xbf\xbf",
        std::string(5000, 'W'),
        "\xe9\x87\x8d\xe3\x81\xbf\xe9\x87\x8d\xe3\x81\xbf\xe9\x87\x8d\xe3\x81\xbf"
        "\xe9\x87\x8d\xe3\x81\xbf\xe9\x87\x8d\xe3\x81\xbf\xe9\x87\x8d\xe3\x81\xbf",
        "&lt;&#0;",
        ""};
    std::size_t number = 0;
    for (std::string const& name : names) {
        cuota::recording r = picture_by_hand(90_MiB, 110_MiB);
        for (auto& site : r.sites) site.name = cuota::tag::named(name);
        for (auto& source : r.sources) source.name = name;
        r.sites[2].name = "b";
        r.sources[4].kind = cuota::source_kind::resource;
        r.sources[4].memory = cuota::memory_kind::pinned;
        svg_event(r, event_kind::refused, 11'000'000, 0, 77_MiB, 1, 2);
        for (auto const by : {cuota::group_by::tag, cuota::group_by::site, cuota::group_by::source})
            folder.write("hostile" + std::to_string(++number) + ".svg", svg_of(r, {.title = name, .by = by}));
    }
    CHECK(what_is_wrong(folder) == "");
}

TEST_CASE("labels of a picture never overlap", "[report][timeline_svg][python]") {
    support::temp_folder const folder;
    for (std::uint64_t seed = 0; seed != 60; ++seed) {
        std::mt19937_64 random{seed};
        auto const up_to = [&](std::uint64_t most) { return random() % (most + 1); };
        cuota::recording r = one_pool(1 + (1_GiB >> up_to(25)), 1 + (4_GiB >> up_to(20)));
        for (std::uint64_t i = 0; i != seed % 9; ++i) {  // limits close to each other
            cuota::event_source b{cuota::source_kind::budget, "budget " + std::string(up_to(40), 'x')};
            b.limit = r.sources[2].limit + up_to(3) * up_to(50_MiB);
            b.parent = r.sources[2].parent;
            r.sources[2].parent = static_cast<std::uint16_t>(r.sources.size());
            r.sources.push_back(b);
        }
        std::uint64_t const tags = 1 + up_to(20);
        for (std::uint64_t i = 0; i != tags; ++i)
            r.sites.push_back({cuota::tag::named("tag of number " + std::to_string(i * i * i)), {}});
        std::uint64_t at = up_to(1) * (random() >> up_to(40)) / 4;
        std::uint64_t const shift = up_to(30);
        for (std::uint64_t i = 0; i != 3 + (seed % 5) * 60; ++i) {
            at += up_to(1ULL << shift);
            auto const site = static_cast<std::uint32_t>(up_to(r.sites.size() - 1));
            svg_event(r, event_kind::allocated, at, i, up_to(20_MiB), site, 3);
            if (up_to(9) == 0) svg_event(r, event_kind::refused, at, i, up_to(20_MiB), site, 2);
            if (up_to(4) == 0) svg_event(r, event_kind::step_begun, at, 0, 0, 0, 3);
            if (up_to(9) == 0) svg_event(r, event_kind::segment_allocated, at, i << 40, 256_MiB, 0, 3);
        }
        r.dropped = up_to(1) * random();
        folder.write("random" + std::to_string(seed) + ".svg",
                     svg_of(r, {.title = std::string(up_to(200), 'T'),
                                .max_groups = up_to(30),
                                .width = static_cast<unsigned>(560 + up_to(1) * up_to(1000)),
                                .height = static_cast<unsigned>(280 + up_to(1) * up_to(500))}));
    }
    CHECK(what_is_wrong(folder) == "");
}

TEST_CASE("a picture of an empty recording has a text that it is empty", "[report][timeline_svg][python]") {
    support::temp_folder const folder;
    std::string const nothing = svg_of({});
    CHECK(svg_says(nothing, ">no memory in this recording</text>"));
    folder.write("nothing.svg", nothing);
    cuota::recording r = picture_by_hand();
    r.events.resize(2);
    r.events[1].at = r.events[0].at;
    folder.write("moment.svg", svg_of(r));  // all at one time
    r.events.resize(1);
    folder.write("segment.svg", svg_of(r));
    CHECK(!svg_says(svg_of(r), "no memory"));
    r.events.clear();
    r.sources[3].pool = 0;
    r.final_snapshot.pools.resize(1);
    cuota::block_info b;
    b.use = cuota::block_use::live;
    b.size = 3_MiB;
    r.final_snapshot.pools[0].segments = {{0, 4_MiB, false, {b}}};
    std::string const still = svg_of(r);  // no events, but blocks in the snapshot
    CHECK(svg_says(still, ">peak 3.0 MiB</text>"));
    folder.write("still.svg", still);
    CHECK(what_is_wrong(folder) == "");
}

TEST_CASE("a picture has a light, a dark or the reader's theme", "[report][timeline_svg]") {
    cuota::recording const r = picture_by_hand();
    std::string const media = "@media(prefers-color-scheme:dark)";
    CHECK(svg_says(svg_of(r), media));
    CHECK(svg_says(svg_of(r), ".paper{fill:#fff}"));
    std::string const light = svg_of(r, {.theme = cuota::svg_theme::light});
    CHECK(!svg_says(light, media));
    CHECK(svg_says(light, ".paper{fill:#fff}"));
    std::string const dark = svg_of(r, {.theme = cuota::svg_theme::dark});
    CHECK(!svg_says(dark, media));
    CHECK(!svg_says(dark, ".paper{fill:#fff}"));
    CHECK(svg_says(dark, ".paper{fill:#16181c}"));
}

TEST_CASE("a failure to write a picture throws data_error", "[report][timeline_svg]") {
    cuota::recording const r = picture_by_hand();
    std::size_t const size = svg_of(r).size();
    for (std::size_t const room : {std::size_t{0}, std::size_t{100}, size - 1}) {
        full_disk disk{static_cast<std::streamsize>(room)};
        std::ostream to{&disk};
        auto const failed = support::thrown<cuota::data_error>([&] { cuota::write_timeline_svg(to, r); });
        CHECK(failed.file() == "timeline SVG");
        CHECK(svg_says(failed.what(), "writing "));
    }
    full_disk enough{static_cast<std::streamsize>(size)};
    std::ostream to{&enough};
    CHECK_NOTHROW(cuota::write_timeline_svg(to, r));

    std::ostringstream none;
    CHECK_THROWS_AS(cuota::write_timeline_svg(none, r, {.width = 559}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::write_timeline_svg(none, r, {.width = 4097}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::write_timeline_svg(none, r, {.height = 279}), cuota::usage_error);
    auto const refused =
        support::thrown<cuota::usage_error>([&] { cuota::write_timeline_svg(none, r, {.sources = {5}}); });
    CHECK(svg_says(refused.what(), "source index 5 is out of range: the recording has 5 sources"));
    CHECK(none.str().empty());
}
