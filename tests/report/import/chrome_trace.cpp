// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/chrome_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/report.hpp>

#include "report/trace_samples.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using cuota::event_kind;
using cuota::imported_recording;
using cuota::read_chrome_trace;
using support::has;
using support::thrown;

namespace {

std::string refusal_of(std::string_view text) {
    return thrown<cuota::data_error>([&] { (void)read_chrome_trace(text, "trace.json"); }).what();
}

std::string site_of(imported_recording const& from, std::size_t event) {
    cuota::event_site const& by = from.content.sites.at(from.content.events.at(event).site);
    std::string text{by.name.text()};
    if (*by.where.file != '\0')
        text += ' ' + std::string{by.where.file} + ':' + std::to_string(by.where.line);
    return text;
}

// A memory event of PyTorch's profiler.
std::string memory(std::string const& ts, std::int64_t bytes, std::uint64_t address, int kind = 1,
                   int device = 0, char const* thread = "7") {
    return R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":4,"tid":)" +
           std::string{thread} + ",\"ts\":" + ts +
           R"(,"args":{"Profiler Event Index":3,"Total Reserved":4096,"Device Id":)" +
           std::to_string(device) + ",\"Addr\":" + std::to_string(address) +
           ",\"Device Type\":" + std::to_string(kind) + ",\"Bytes\":" + std::to_string(bytes) + "}}";
}

std::string operation(char const* category, char const* name, int ts, int lasts) {
    return R"({"ph":"X","cat":")" + std::string{category} + R"(","name":")" + name +
           R"(","pid":4,"tid":7,"ts":)" + std::to_string(ts) + ",\"dur\":" + std::to_string(lasts) +
           R"(,"args":{"Input Dims":[[2,3],{"Bytes":9}],"Sequence number":1}})";
}

}  // namespace

TEST_CASE("memory events of PyTorch's profiler become a recording with the functions that enclose them",
          "[report][chrome_import]") {
    std::string const text =
        R"({"schemaVersion":1,"deviceProperties":[{"id":0,"totalGlobalMem":85e9}],"traceEvents":[)" +
        operation("python_function", "train.py(12): forward", 100, 50) + ',' +
        operation("python_function", "torch/nn/modules/linear.py(99): forward", 101, 40) + ',' +
        operation("cpu_op", "aten::linear", 102, 30) + ',' + operation("cpu_op", "aten::addmm", 105, 10) +
        ',' + memory("106.250", 512, 4096) + ',' + memory("107", 64, 4096, 0) + ',' +
        memory("108.5", 1024, 8192) + ',' + operation("cpu_op", "aten::mul", 200, 10) + ',' +
        memory("203", 256, 16384) + ',' + memory("204.001", -512, 4096) + ',' +
        memory("205", 128, 1, 1, 1, "9") + ',' +
        R"({"ph":"i","name":"[OutOfMemory]","pid":4,"tid":7,"ts":206,"args":{"Bytes":1048576,"Device Id":0,"Device Type":1}})" +
        R"(],"traceName":"run.json","args":{"Bytes":1}})";
    imported_recording const from = read_chrome_trace(text, "trace.json");
    CHECK(from.repairs.empty());
    auto const& events = from.content.events;
    REQUIRE(events.size() == 6);
    std::vector<std::uint64_t> times;
    for (auto const& e : events) times.push_back(e.at);
    CHECK(times == std::vector<std::uint64_t>{0, 2'250, 96'750, 97'751, 98'750, 99'750});
    CHECK(site_of(from, 0) == "forward train.py:12");
    CHECK(site_of(from, 2) == "aten::mul");
    CHECK(site_of(from, 4).empty());  // of a thread without operations
    CHECK(events[3].kind == event_kind::free_requested);
    CHECK(events[3].bytes == 512);
    CHECK(events[5].kind == event_kind::refused);
    CHECK(events[5].bytes == 1'048'576);
    REQUIRE(from.content.sources.size() == 3);
    CHECK(from.content.sources[events[0].source].name == "PyTorch:0");
    CHECK(from.content.sources[events[4].source].name == "PyTorch:1");
}

TEST_CASE("what write_chrome_trace writes is read back", "[report][chrome_import]") {
    support::machine const machine;
    cuota::recording const original = trace_samples::of_real_pools();
    std::ostringstream out;
    cuota::write_chrome_trace(out, original, {.blocks = 1'000'000});
    imported_recording const from = read_chrome_trace(out.str(), "written");
    CHECK(from.repairs.empty());
    auto const blocks_of = [](cuota::recording const& r) {
        std::vector<std::pair<std::size_t, std::string>> blocks;
        for (auto const& b : cuota::lifetimes_of(r).blocks)
            blocks.emplace_back(b.bytes, std::string{r.sites.at(b.site).name.text()});
        std::ranges::sort(blocks);
        return blocks;
    };
    CHECK(blocks_of(from.content) == blocks_of(original));
    CHECK_FALSE(blocks_of(original).empty());
    CHECK(cuota::usage_over_time(from.content).total.peak == cuota::usage_over_time(original).total.peak);
}

TEST_CASE("the peak of random traces is that of an independent count", "[report][chrome_import]") {
    std::mt19937 random{GENERATE(1U, 2U, 3U, 4U)};
    std::map<std::uint64_t, std::size_t> live;
    std::size_t sum = 0, peak = 0;
    std::string text = "[";
    for (std::uint64_t i = 0; i != 600; ++i) {
        std::string const ts =
            std::to_string(1'700'000'000'000'000 + i) + '.' + std::to_string(random() % 1000);
        if (!live.empty() && random() % 2 == 0) {
            auto const block = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
            text += memory(ts, -static_cast<std::int64_t>(block->second), block->first) + ',';
            sum -= block->second;
            live.erase(block);
        } else {
            std::size_t const bytes = 1 + random() % 10'000;
            live[1000 * (i + 1)] = bytes;
            text += memory(ts, static_cast<std::int64_t>(bytes), 1000 * (i + 1)) + ',';
            peak = std::max(peak, sum += bytes);
        }
    }
    text.back() = ']';
    imported_recording const from = read_chrome_trace(text, "random");
    CHECK(from.content.events.size() == 600);
    CHECK(cuota::usage_over_time(from.content).total.peak == peak);
}

TEST_CASE("blocks that begin and end at one time are kept in order", "[report][chrome_import]") {
    auto const kinds_of = [](std::string const& text) {
        std::vector<std::pair<event_kind, std::uint64_t>> kinds;
        for (auto const& e : read_chrome_trace(text, "trace.json").content.events)
            kinds.emplace_back(e.kind, e.address);
        return kinds;
    };
    using enum event_kind;
    SECTION("by the profiler: as in the file") {
        CHECK(kinds_of("[" + memory("5", 64, 512) + ',' + memory("5", -64, 512) + ',' + memory("5", 64, 512) +
                       "]") == std::vector<std::pair<event_kind, std::uint64_t>>{
                                   {allocated, 512}, {free_requested, 512}, {allocated, 512}});
    }
    SECTION("by write_chrome_trace: an earlier block frees its address first") {
        auto const block = [](int id, char const* from, char const* until) {
            std::string const common =
                "\"cat\":\"block\",\"name\":\"t\",\"pid\":1,\"id\":" + std::to_string(id);
            return "{\"ph\":\"b\"," + common + ",\"ts\":" + from +
                   ",\"args\":{\"bytes\":64,\"address\":\"512\"}},{\"ph\":\"e\"," + common +
                   ",\"ts\":" + until + "}";
        };
        imported_recording const from =
            read_chrome_trace("[" + block(1, "5", "5") + ',' + block(2, "1", "5") + "]", "trace.json");
        CHECK(from.repairs.empty());
        CHECK(kinds_of("[" + block(1, "5", "5") + ',' + block(2, "1", "5") + "]") ==
              std::vector<std::pair<event_kind, std::uint64_t>>{
                  {allocated, 512}, {free_requested, 512}, {allocated, 512}, {free_requested, 512}});
    }
}

TEST_CASE("what a Chrome trace lacks is told, and what it repeats is repaired", "[report][chrome_import]") {
    std::string const text =
        "[" + memory("1", 512, 4096) + ',' + memory("2", 256, 4096) + ',' + memory("-3", 512, 9) + ',' +
        memory("1e300", 512, 9) + ',' + memory("4", 0, 9) + ',' +
        memory("4", std::numeric_limits<std::int64_t>::min(), 9) + ',' +
        R"({"ph":"i","name":"[memory]","ts":5,"args":{"Device Type":1}},)" +
        R"({"ph":"e","cat":"block","id":"3","pid":1,"ts":4},7,"x",[[{"ph":"i"}]],null,{}])";
    imported_recording const from = read_chrome_trace(text, "trace.json");
    CHECK(from.content.events.size() == 2);
    REQUIRE(from.repairs.size() == 2);
    CHECK(has(from.repairs[0], "5 events without a time, a size or an address were left out"));
    CHECK(has(from.repairs[1], "1 allocations at addresses that were not freed"));
}

TEST_CASE("text that is no Chrome trace is refused with the offset", "[report][chrome_import]") {
    CHECK(has(refusal_of(""), "trace.json: at byte 0: is not valid JSON"));
    CHECK(has(refusal_of("[{\"ph\":\"i\"},"), "at byte 12: is not valid JSON"));
    CHECK(has(refusal_of("[{\"ph\":nul"), "is not valid JSON"));
    CHECK(has(refusal_of("{\"events\":[]}"), "it has no list of events"));
    CHECK(has(refusal_of("17"), "it has no list of events"));
    CHECK(has(refusal_of("[]"), "no memory events"));
    CHECK(has(refusal_of("{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"[memory]\"}]}"), "no memory events"));
    CHECK(has(refusal_of(std::string(1'000'000, '[')), "is not valid JSON"));
    std::string const whole = "[" + memory("1", 512, 4096) + "]";
    CHECK(has(refusal_of(whole + '\0' + "rest"),
              "at byte " + std::to_string(whole.size()) + ": contains a zero byte"));
    CHECK(has(refusal_of("[{\"name\":\"\xff\"}]"), "is not valid JSON"));
}

TEST_CASE("a Chrome trace is read from a file", "[report][chrome_import]") {
    support::temp_folder const folder;
    cuota::file const file{folder.write("trace.json", "[" + memory("1", 512, 4096) + "]")};
    CHECK(read_chrome_trace(file).content.events.size() == 1);
    cuota::file const compressed{folder.write("trace.json.gz", "\x1f\x8b\x08")};
    CHECK(has(thrown<cuota::data_error>([&] { (void)read_chrome_trace(compressed); }).what(),
              "is compressed by gzip"));
}
