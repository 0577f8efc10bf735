// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/prometheus.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include <sys/wait.h>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using cuota::memory_snapshot;
using cuota::prometheus_options;
using cuota::prometheus_text;
using cuota::unlimited;
using support::has;

namespace {

// Parses the format strictly by its specification. Prints one line per series: its name, its labels in order as JSON, and its value. Exits
// with 1 and a reason for any violation.
constexpr auto strict_parser = R"py(
import json, re, sys
path, is_open = sys.argv[1], sys.argv[2] == "open"
raw = open(path, "rb").read()
def no(why, line=""):
    print(why, repr(line)); sys.exit(1)
try: text = raw.decode("utf-8")
except UnicodeDecodeError as e: no("not UTF-8: %s" % e)
if not text.endswith("\n"): no("no end of line at the end")
lines = text.split("\n")[:-1]
if is_open:
    if not lines or lines.pop() != "# EOF": no("no # EOF")
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r"[0-9]+|\+Inf")
types, helps, units, current, closed, series, out = {}, {}, {}, None, set(), set(), []
def open_family(name):
    global current
    if name != current:
        if name in closed: no("family in two pieces", name)
        if current: closed.add(current)
        current = name
for line in lines:
    meta = re.fullmatch(r"# (HELP|TYPE|UNIT) (%s) (.+)" % NAME, line)
    if meta:
        kind, name, rest = meta.groups()
        open_family(name)
        table = {"HELP": helps, "TYPE": types, "UNIT": units}[kind]
        if name in table: no("a second " + kind, line)
        table[name] = rest
        if kind == "TYPE" and rest not in ("gauge", "counter"): no("type", line)
        if kind == "UNIT" and (not is_open or not name.endswith("_" + rest)): no("unit", line)
        if any(s[0].startswith(name) and s[0] in (name, name + "_total") for s in series): no("too late", line)
        continue
    m = re.match(NAME, line)
    if not m: no("no name", line)
    sample, at, labels = m.group(), m.end(), []
    if line[at:at + 1] == "{":
        at += 1
        while True:
            m = LABEL.match(line, at)
            if not m: no("label", line)
            name, value = m.groups()
            if name in dict(labels): no("label twice", line)
            if name.startswith("__"): no("label is reserved", line)
            value = re.sub(r"\\(.)", lambda e: "\n" if e.group(1) == "n" else e.group(1), value)
            labels.append((name, value))
            at = m.end()
            if line[at] == "}": at += 1; break
            if line[at] != ",": no("between labels", line)
            at += 1
    if line[at:at + 1] != " " or not NUMBER.fullmatch(line[at + 1:]): no("value", line)
    family = sample
    if sample not in types and sample.endswith("_total"): family = sample[:-6]
    if family not in types or family not in helps: no("no type or help before", line)
    if family != current: no("outside of its family", line)
    if types[family] == "counter":
        if sample != (family + "_total" if is_open else family) or not sample.endswith("_total"): no("counter", line)
    elif sample.endswith("_total"): no("gauge with the name of a counter", line)
    key = (sample, tuple(sorted(labels)))
    if key in series: no("series twice", line)
    series.add(key)
    out.append("%s %s %s" % (sample, json.dumps(dict(sorted(labels))), line[at + 1:]))
print("\n".join(out))
)py";

// The same by prometheus_client's parser. Exits with 77 if it is not installed.
constexpr auto prometheus_client_parser = R"py(
import json, sys
try:
    from prometheus_client.parser import text_string_to_metric_families as plain
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
except ImportError: sys.exit(77)
text = open(sys.argv[1], "rb").read().decode("utf-8")
try: families = list((openmetrics if sys.argv[2] == "open" else plain)(text))
except ValueError as e: print("refused: %s" % e); sys.exit(1)
for family in families:
    for s in family.samples:
        value = "+Inf" if s.value == float("inf") else str(int(s.value))
        print("%s %s %s" % (s.name, json.dumps(dict(sorted(s.labels.items()))), value))
)py";

struct parsed {
    int status = 0;
    std::string text;
};

parsed parsed_by(char const* parser, std::string const& text, bool open_metrics) {
    support::temp_folder const folder;
    std::string const program = folder.write("parse.py", parser);
    std::string const input = folder.write("metrics", text);
    int const status =
        std::system(("'" CUOTA_PYTHON "' '" + program + "' '" + input +
                     (open_metrics ? "' open" : "' plain") + " > '" + folder.path("out") + "' 2>&1")
                        .c_str());
    std::ifstream in{folder.path("out"), std::ios::binary};
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, {std::istreambuf_iterator<char>{in}, {}}};
}

// Returns the strict parser's output for a snapshot.
std::string metrics_of(memory_snapshot const& s, prometheus_options const& how = {}) {
    parsed const result = parsed_by(strict_parser, prometheus_text(s, how), how.open_metrics);
    INFO(result.text);
    REQUIRE(result.status == 0);
    return result.text;
}

cuota::budget_entry metrics_budget(std::string name, std::size_t limit, std::size_t held,
                                   std::optional<std::size_t> parent = {}) {
    cuota::budget_entry b;
    b.facts = {std::move(name), limit, held, held + 1, false, false};
    b.parent = parent;
    return b;
}

cuota::pool_info metrics_pool(std::string name, std::size_t first) {
    cuota::pool_info p;
    p.name = std::move(name);
    p.device = 0;
    p.stats = {first,     first + 1, first + 2, first + 3,  first + 4,  first + 5,  first + 6,
               first + 7, first + 8, first + 9, first + 10, first + 11, first + 12, first + 13};
    return p;
}

memory_snapshot a_snapshot_to_scrape() {
    memory_snapshot s;
    s.taken = std::chrono::system_clock::time_point{std::chrono::seconds{1'700'000'000}};
    s.budgets = {metrics_budget("trainer", unlimited, 300), metrics_budget("loader", 200, 100, 0)};
    s.pools = {metrics_pool("activations", 1000)};
    s.pools[0].budget = 1;
    s.pools[0].tags = {{"weights", 3, 700, 768, 2, 900}, {"", 1, 10, 256, 0, {}}};
    s.holders = {{"cache", 0, {{"rows", {"a.cpp", 1}, 5, true}, {"rows", {"b.cpp", 2}, 6, true}}}};
    s.devices = {{0, "simulated", 1000, 400, 250, 40}};
    return s;
}

}  // namespace

TEST_CASE("prometheus_text writes every figure of a snapshot under its own name",
          "[report][prometheus][python]") {
    auto const text = metrics_of(a_snapshot_to_scrape());

    CHECK(text == R"(cuota_snapshot_timestamp_seconds {} 1700000000
cuota_budget_limit_bytes {"budget": "trainer"} +Inf
cuota_budget_limit_bytes {"budget": "trainer/loader"} 200
cuota_budget_held_bytes {"budget": "trainer"} 300
cuota_budget_held_bytes {"budget": "trainer/loader"} 100
cuota_budget_peak_bytes {"budget": "trainer"} 301
cuota_budget_peak_bytes {"budget": "trainer/loader"} 101
cuota_holder_bytes {"budget": "trainer", "cached": "true", "holder": "cache", "tag": "rows"} 11
cuota_pool_requested_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1000
cuota_pool_allocated_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1001
cuota_pool_active_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1002
cuota_pool_reserved_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1003
cuota_pool_requested_peak_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1004
cuota_pool_allocated_peak_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1005
cuota_pool_active_peak_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1006
cuota_pool_reserved_peak_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1007
cuota_pool_largest_free_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1010
cuota_pool_segments {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1011
cuota_pool_live_blocks {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1008
cuota_pool_free_blocks {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1009
cuota_pool_thread_cache_hits_total {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1012
cuota_pool_stream_waits_total {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations"} 1013
cuota_tag_requested_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "weights"} 700
cuota_tag_requested_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "untagged"} 10
cuota_tag_allocated_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "weights"} 768
cuota_tag_allocated_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "untagged"} 256
cuota_tag_peak_bytes {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "weights"} 900
cuota_tag_live_blocks {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "weights"} 3
cuota_tag_live_blocks {"budget": "trainer/loader", "device": "0", "memory": "device", "pool": "activations", "tag": "untagged"} 1
cuota_device_total_bytes {"device": "0", "model": "simulated"} 1000
cuota_device_free_bytes {"device": "0", "model": "simulated"} 400
cuota_device_own_bytes {"device": "0", "model": "simulated"} 250
cuota_device_external_bytes {"device": "0", "model": "simulated"} 350
cuota_device_baseline_bytes {"device": "0", "model": "simulated"} 40
)");
    CHECK(metrics_of(a_snapshot_to_scrape(), {.open_metrics = true}) == text);
}

TEST_CASE("prometheus_text ends OpenMetrics output with EOF and omits _total in its counter names",
          "[report][prometheus][python]") {
    auto const plain = prometheus_text(a_snapshot_to_scrape());
    auto const open = prometheus_text(a_snapshot_to_scrape(), {.open_metrics = true});

    CHECK(has(plain, "# TYPE cuota_pool_stream_waits_total counter\n"));
    CHECK(has(open, "# TYPE cuota_pool_stream_waits counter\n"));
    CHECK(has(open, "# UNIT cuota_budget_limit_bytes bytes\n"));
    CHECK(open.ends_with("\n# EOF\n"));
    CHECK_FALSE(has(plain, "EOF"));
    CHECK(parsed_by(strict_parser, plain, true).status == 1);
    CHECK(parsed_by(strict_parser, open, false).status == 1);
    CHECK(std::string{cuota::prometheus_content_type()} == "text/plain; version=0.0.4; charset=utf-8");
    CHECK(has(cuota::prometheus_content_type({.open_metrics = true}), "application/openmetrics-text"));
}

TEST_CASE("prometheus_text escapes quotes, backslashes, line breaks and invalid UTF-8 in names",
          "[report][prometheus][python]") {
    memory_snapshot s;
    s.budgets = {metrics_budget("a\"b\\c\nd\\n", 1, 0), metrics_budget("x\xff", 1, 0),
                 metrics_budget("", 1, 0), metrics_budget("\xe4\xb8\xad}", 1, 0, 2)};
    for (bool const open : {false, true}) {
        auto const text = metrics_of(s, {.open_metrics = open});

        CHECK(has(text, R"(limit_bytes {"budget": "a\"b\\c\nd\\n"} 1)"));
        CHECK(has(text, R"(limit_bytes {"budget": "x\ufffd"} 1)"));
        CHECK(has(text, R"(limit_bytes {"budget": "unnamed/\u4e2d}"} 1)"));
    }
}

TEST_CASE("prometheus_text never writes a series twice, even for equal names",
          "[report][prometheus][python]") {
    memory_snapshot s;
    s.budgets = {metrics_budget("a", 1, 0),    metrics_budget("b", 2, 0, 0),   metrics_budget("b", 3, 0, 0),
                 metrics_budget("c", 4, 0, 2), metrics_budget("b#2", 5, 0, 0), metrics_budget("a/b", 6, 0),
                 metrics_budget("\xff", 7, 0), metrics_budget("\xfe", 8, 0)};
    s.pools = {metrics_pool("p", 10), metrics_pool("p", 20), metrics_pool("p", 30), metrics_pool("p#2", 40)};
    s.pools[2].device = 1;
    s.pools[0].tags = {{"t", 1, 1, 1, 0, {}}, {"t", 2, 2, 2, 0, {}}};
    s.devices = {{0, "one", 1, 1, 0, 0}, {0, "one", 2, 1, 0, 0}, {1, "one", 3, 1, 0, 0}};
    auto const text = metrics_of(s);  // fails on duplicates

    CHECK(has(text, R"(limit_bytes {"budget": "a/b#2"} 3)"));
    CHECK(has(text, R"(limit_bytes {"budget": "a/b#2/c"} 4)"));
    CHECK(has(text, R"(limit_bytes {"budget": "a/b#2#2"} 5)"));
    CHECK(has(text, R"(limit_bytes {"budget": "a/b#3"} 6)"));
    CHECK(has(text, R"(limit_bytes {"budget": "\ufffd#2"} 8)"));
    CHECK(has(text, R"(requested_bytes {"budget": "a", "device": "0", "memory": "device", "pool": "p"} 10)"));
    CHECK(
        has(text, R"(requested_bytes {"budget": "a", "device": "0", "memory": "device", "pool": "p#2"} 20)"));
    CHECK(has(text, R"(requested_bytes {"budget": "a", "device": "1", "memory": "device", "pool": "p"} 30)"));
    CHECK(has(text, R"("pool": "p#2#2"} 40)"));
    CHECK(has(text, R"("tag": "t#2"} 2)"));
    CHECK(has(text, R"(total_bytes {"device": "0#2", "model": "one"} 2)"));
}

TEST_CASE("prometheus_text adds the program's labels to every series and refuses invalid label names",
          "[report][prometheus][python]") {
    auto s = a_snapshot_to_scrape();
    auto const text = metrics_of(s, {.labels = {{"rank", "3"}, {"job", "\"x\"\n"}}});

    std::size_t lines = 0, with = 0;
    for (std::size_t at = 0; at != text.size(); at = text.find('\n', at) + 1) ++lines;
    for (auto at = text.find("\"rank\": \"3\""); at != std::string::npos;
         at = text.find("\"rank\": \"3\"", at + 1))
        ++with;
    CHECK(lines == with);
    CHECK(has(text, R"("job": "\"x\"\n")"));

    using labels = std::vector<std::pair<std::string, std::string>>;
    for (auto const& wrong : {labels{{"", "x"}}, labels{{"1a", "x"}}, labels{{"__name__", "x"}},
                              labels{{"a-b", "x"}}, labels{{"budget", "x"}}, labels{{"a", "1"}, {"a", "2"}}})
        CHECK_THROWS_AS(prometheus_text(s, {.labels = wrong}), cuota::usage_error);
}

TEST_CASE("prometheus_text of an empty snapshot is valid", "[report][prometheus][python]") {
    CHECK(metrics_of({}) == "cuota_snapshot_timestamp_seconds {} 0\n");
    CHECK_FALSE(has(prometheus_text({}), "budget"));  // nor a type or a help line without series
    CHECK(metrics_of({}, {.open_metrics = true}) == "cuota_snapshot_timestamp_seconds {} 0\n");
}

TEST_CASE("the strict parser of these tests refuses text that is nearly valid",
          "[report][prometheus][python]") {
    std::string const head = "# HELP a b\n# TYPE a gauge\n";
    CHECK(parsed_by(strict_parser, head + "a{x=\"1\"} 1\na{x=\"2\"} 1\n", false).status == 0);
    for (std::string const wrong :
         {"a{x=\"1\"} 1\na{x=\"1\"} 2\n", "a{x=\"\\q\"} 1\n", "a{x=\"\n\"} 1\n", "a{x=\"1\"} 1", "b 1\n",
          "a{x=\"\"\"} 1\n", "a inf\n", "a{x=\"\xff\"} 1\n", "a{x=\"1\",x=\"2\"} 1\n", "\na 1\n"}) {
        INFO(wrong);
        CHECK(parsed_by(strict_parser, head + wrong, false).status == 1);
    }
}

TEST_CASE("prometheus_client reads the same values as the strict parser", "[report][prometheus][python]") {
    auto s = a_snapshot_to_scrape();
    s.budgets.push_back(metrics_budget("a\"b\\c\nd\\n\xff", 7, 1, 0));
    if (parsed_by(prometheus_client_parser, "", false).status == 77)
        CUOTA_SKIP("no prometheus_client for " CUOTA_PYTHON);
    for (bool const open : {false, true}) {
        auto const theirs =
            parsed_by(prometheus_client_parser, prometheus_text(s, {.open_metrics = open}), open);
        INFO(theirs.text);
        CHECK(theirs.status == 0);
        CHECK(theirs.text == metrics_of(s, {.open_metrics = open}));
    }
}
