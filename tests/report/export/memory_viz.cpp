// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/export/memory_viz.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/recording/usage_series.hpp>

#include <sys/wait.h>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::block_use;
using cuota::event_kind;
using cuota::memory_viz_options;
using cuota::recording;
using cuota::source_kind;

namespace {

[[nodiscard]] std::string viz_json(recording const& r, memory_viz_options const& options = {}) {
    std::ostringstream out;
    cuota::write_memory_viz_json(out, r, options);
    return out.str();
}
[[nodiscard]] std::string viz_pickle(recording const& r, memory_viz_options const& options = {}) {
    std::ostringstream out;
    cuota::write_memory_viz_pickle(out, r, options);
    return out.str();
}

// Reads both files with independent readers, replays the traces as the viewer does, and prints the peak of each device. A test appends
// lines of Python.
constexpr char const* viz_reader = R"py(
import io, json, pickle, pickletools, sys
class Reader(pickle.Unpickler):
    def find_class(self, module, name): raise AssertionError(f"a class: {module}.{name}")
    def persistent_load(self, pid): raise AssertionError("a persistent id")
raw = open(sys.argv[2], "rb").read()
d = json.loads(open(sys.argv[1], "rb").read().decode("utf-8"))
p = Reader(io.BytesIO(raw)).load()
def same(a, b):  # and no 1 for True
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert list(a) == list(b), (a, b)
        for k in a: same(a[k], b[k])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b): same(x, y)
    else: assert a == b, (a, b)
same(d, p)
ops = [(op.name, arg) for op, arg, _ in pickletools.genops(raw)]
assert ops[0] == ("PROTO", 2) and ops[-1][0] == "STOP"
allowed = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "LONG1", "STOP",
           "NEWTRUE", "NEWFALSE"}
assert {name for name, _ in ops} <= allowed, {name for name, _ in ops} - allowed
run = 0  # of values side by side in a list, at most a batch
depth = []
for name, _ in ops:
    if name == "MARK": depth.append(0)
    elif name in ("SETITEMS", "APPENDS"):
        assert depth.pop() <= 1000
        assert not depth or depth[-1] <= 1000
    elif depth: depth[-1] += name not in ("PROTO", "STOP")

def ghosts(device, lives):
    for s in d["segments"]:
        if s["device"] == device:
            for b in s["blocks"]:
                if b["state"] == "active_allocated" and b["address"] not in lives: yield b
def peak(device, trace):
    now, older, open_, deltas = 0, 0, {}, []
    for i, e in enumerate(trace):
        if e["action"] == "alloc":
            assert e["addr"] not in open_, ("an address with two owners", e)
            open_[e["addr"]] = e["size"]
            deltas.append(e["size"])
        elif e["action"] == "free_requested":
            n = trace[i + 1]
            assert n["action"] == "free_completed" and n["addr"] == e["addr"], (e, n)
        elif e["action"] == "free_completed":
            assert trace[i - 1]["action"] == "free_requested"
            if e["addr"] in open_: deltas.append(-open_.pop(e["addr"]))
            else:
                older += e["size"]
                deltas.append(-e["size"])
    older += sum(b["requested_size"] for b in ghosts(device, open_))
    now = most = older
    for x in deltas: now += x; most = max(most, now)
    return most
def check_segments(device, trace):  # backwards, as the viewer goes
    held, live = {}, {}
    for s in d["segments"]:
        if s["device"] != device: continue
        at = s["address"]
        for b in s["blocks"]:
            assert b["address"] == at and b["size"] > 0, (s, b)
            if b["state"] == "active_allocated": live[at] = b["requested_size"]
            at += b["size"]
        assert at == s["address"] + s["total_size"], s
        assert s["allocated_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated")
        assert s["active_size"] == sum(b["size"] for b in s["blocks"] if b["state"] != "inactive")
        assert s["address"] not in held
        held[s["address"]] = s["total_size"]
    def inside(a, size):
        return any(h <= a and a + size <= h + n for h, n in held.items())
    def merge():
        for a in sorted(held):
            while a in held and a + held[a] in held: held[a] += held.pop(a + held[a])
    for e in reversed(trace):
        a, size, what = e["addr"], e["size"], e["action"]
        if what == "segment_free": assert a not in held, e; held[a] = size
        elif what == "segment_alloc": assert held.pop(a) == size, e
        elif what == "segment_unmap": assert a not in held, e; held[a] = size; merge()
        elif what == "segment_map":
            merge()
            h = next(h for h, n in held.items() if h <= a and a + size <= h + n)
            n = held.pop(h)
            if h < a: held[h] = a - h
            if a + size < h + n: held[a + size] = h + n - a - size
        elif what == "free_completed":
            assert a not in live, e
            assert inside(a, size) or not strict, e
            live[a] = size
        elif what == "alloc":
            assert live.pop(a, None) == size or not strict, e
            assert inside(a, size) or not strict, e
    for a, size in live.items(): assert inside(a, size) or not strict
    assert all(n > 0 for n in held.values())
strict = sys.argv[4] == "strict"
wanted = json.loads(open(sys.argv[3]).read())
assert len(d["device_traces"]) == len(wanted), (len(d["device_traces"]), wanted)
for device, trace in enumerate(d["device_traces"]):
    assert [e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace)
    assert peak(device, trace) == wanted[device], (device, peak(device, trace), wanted)
    check_segments(device, trace)
)py";

/// Returns the peak of the requested bytes by usage_over_time.
[[nodiscard]] std::size_t peak_asked_for(recording r, std::vector<std::uint16_t> const& sources) {
    for (cuota::memory_event& e : r.events)
        if (e.kind == event_kind::allocated || e.kind == event_kind::free_requested) e.size = e.bytes;
    for (cuota::pool_info& pool : r.final_snapshot.pools)
        for (cuota::segment_info& s : pool.segments)
            for (cuota::block_info& b : s.blocks) b.size = b.requested;
    return cuota::usage_over_time(r, {.sources = sources}).total.peak;
}

struct viz_claim {
    std::vector<std::size_t> peaks;  // by device
    std::string more{};              // lines of Python
    bool is_strict = true;           // each block must always lie in a segment
};

/// Returns whether Python finds both files to be the same valid snapshot with these peaks.
[[nodiscard]] bool python_finds(recording const& r, viz_claim const& claim,
                                memory_viz_options const& options = {}) {
    support::temp_folder const folder;
    std::string wanted;
    for (std::size_t const peak : claim.peaks) wanted += (wanted.empty() ? "[" : ",") + std::to_string(peak);
    std::string command = "'" CUOTA_PYTHON "' '" + folder.write("reader.py", viz_reader + claim.more) +
                          "' '" + folder.write("viz.json", viz_json(r, options)) + "' '" +
                          folder.write("viz.pickle", viz_pickle(r, options)) + "' '" +
                          folder.write("wanted", wanted + ']') + "'";
    return std::system((command + (claim.is_strict ? " strict" : " loose")).c_str()) == 0;
}

/// Returns the verdict of PyTorch's viewer on both files; nullopt if the viewer is not available.
[[nodiscard]] std::optional<bool> viewer_finds(recording const& r, std::string const& peaks) {
    support::temp_folder const folder;
    std::string const here = __FILE__;
    std::string const script = here.substr(0, here.rfind('.')) + "_in_viewer.py";
    if (!std::filesystem::exists(script)) return std::nullopt;  // not run where it was built
    std::string const command = "'" CUOTA_PYTHON "' '" + script + "' " + peaks + " '" +
                                folder.write("viz.json", viz_json(r)) + "' '" +
                                folder.write("viz.pickle", viz_pickle(r)) + "'";
    int const status = std::system(command.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return std::nullopt;
    return status == 0;
}

/// A pool on device 0 and one on device 2, a budget, pinned memory. From before the recording, pool one has 300 bytes that stay and 200
/// that are freed.
[[nodiscard]] recording viz_by_hand() {
    recording r;
    r.start_time = std::chrono::system_clock::time_point{std::chrono::seconds{1'700'000'000}};
    r.sites = {{}, {"weights", {"a.cpp", 11}}, {"x", {"b.cpp", 22}}};
    r.sources = {{.kind = source_kind::program},
                 {.kind = source_kind::budget, .name = "root", .limit = 10'000},
                 {.kind = source_kind::pool, .name = "one", .device = 0, .budget = 1, .pool = 0},
                 {.kind = source_kind::pool, .name = "two", .device = 2, .pool = 1},
                 {.kind = source_kind::resource, .name = "pinned", .memory = cuota::memory_kind::pinned}};
    r.final_snapshot.pools.resize(2);
    cuota::segment_info s{4096, 4096, false, {}};
    s.blocks = {{.address = 4096, .size = 512, .requested = 300, .name = "weights", .where = {"a.cpp", 11}},
                {.address = 4608, .size = 1024, .requested = 0, .use = block_use::pending},
                {.address = 5632, .size = 2560}};
    s.blocks[0].use = block_use::live;
    r.final_snapshot.pools[0].segments.push_back(s);
    return r;
}
void viz_event(recording& to, event_kind kind, std::uint16_t source, std::uint64_t address, std::size_t bytes,
               std::uint64_t stream = 7) {
    cuota::memory_event e;
    e.kind = kind;
    e.source = source;
    e.site = kind == event_kind::allocated ? 2 : 0;
    e.at = (to.events.size() + 1) * 1500;
    e.address = address;
    e.bytes = bytes;
    e.size = (bytes + 511) / 512 * 512;
    e.stream = stream;
    to.events.push_back(e);
}
[[nodiscard]] recording viz_with_events() {
    recording r = viz_by_hand();
    viz_event(r, event_kind::allocated, 2, 5120, 500);
    viz_event(r, event_kind::free_requested, 2, 4608, 200);  // allocated before the recording
    viz_event(r, event_kind::allocated, 2, 4608, 400);       // same address, completion not yet seen
    viz_event(r, event_kind::free_completed, 2, 4608, 200);
    viz_event(r, event_kind::segment_allocated, 3, 4096, 8192);  // also an address of the other device
    viz_event(r, event_kind::allocated, 3, 4096, 7000);
    viz_event(r, event_kind::allocated, 4, 4096, 100);  // and in pinned memory
    viz_event(r, event_kind::allocated, 1, 4097, 5000);
    viz_event(r, event_kind::refused, 1, 0, 6000);
    r.events.back().size = 9000;
    viz_event(r, event_kind::free_requested, 2, 4608, 400);
    viz_event(r, event_kind::free_requested, 3, 4096, 7000, 9);
    viz_event(r, event_kind::free_completed, 3, 4096, 7000, 9);
    viz_event(r, event_kind::free_requested, 2, 5120, 500);
    viz_event(r, event_kind::free_requested, 4, 4096, 100);
    viz_event(r, event_kind::segment_freed, 3, 4096, 8192);
    viz_event(r, event_kind::segment_freed, 3, 65536, 4096);  // added before the recording
    return r;
}

/// Pages are released while a piece of pinned memory exists on the same device.
[[nodiscard]] recording viz_pages_beside_pieces() {
    recording r = viz_by_hand();
    r.sources[3].device = 0;
    r.final_snapshot.pools[1].segments = {{1 << 20, 4096, true, {}}};
    viz_event(r, event_kind::segment_allocated, 3, 1 << 20, 8192);
    viz_event(r, event_kind::allocated, 4, 4096, 100);
    viz_event(r, event_kind::segment_freed, 3, (1 << 20) + 4096, 4096);
    viz_event(r, event_kind::free_requested, 4, 4096, 100);
    viz_event(r, event_kind::refused, 1, 0, cuota::unlimited);
    return r;
}

/// Two pools, two streams, a loader, refusals; with the last `capacity` events.
[[nodiscard]] recording viz_of_real_pools(std::size_t capacity) {
    cuota::budget budget{"root", 512_MiB};
    cuota::budget part{"part", 64_MiB, budget};
    cuota::stream const streams[2];
    cuota::scoped_pool one{budget, {.name = "one"}};
    void* const kept = one.allocate(streams[0], 5'000'000, 256, "kept");
    cuota::recorder const recorder{budget, {.capacity = capacity}};
    cuota::scoped_pool two{part, {.name = "two"}};
    std::vector<float> const values(1000);
    cuota::batch_loader const loader{cuota::memory_dataset{"numbers", values},
                                     {.batch_size = 10, .device_budget = budget}};
    struct held_block {
        cuota::scoped_pool* pool;
        void* at;
        std::size_t bytes;
    };
    std::vector<held_block> held;
    std::mt19937 random{static_cast<unsigned>(capacity)};
    for (int i = 0; i != 3000; ++i) {
        cuota::stream const& stream = streams[random() % 2];
        if (held.size() < 30 && random() % 2 == 0) {
            cuota::scoped_pool& pool = random() % 2 == 0 ? one : two;
            std::size_t const bytes = 1 + random() % (random() % 8 == 0 ? 3'000'000 : 30'000);
            held.push_back({&pool, pool.allocate(stream, bytes, 256, "some"), bytes});
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            held.back().pool->deallocate(stream, held.back().at, held.back().bytes);
            held.pop_back();
        }
        if (random() % 300 == 0) (void)one.trim(1_MiB);
        if (random() % 500 == 0)
            CHECK_THROWS_AS(two.allocate(stream, 70_MiB, 256, "too much"), cuota::out_of_memory);
    }
    recording r = recorder.read();
    for (held_block const& b : held) b.pool->deallocate(streams[0], b.at, b.bytes);
    one.deallocate(streams[0], kept, 5'000'000);
    return r;
}

/// Accepts `room` bytes and then fails.
class viz_short_stream : public std::streambuf {
public:
    explicit viz_short_stream(std::size_t room) : room_{room} {}

private:
    int_type overflow(int_type c) override {
        if (room_ == 0) return traits_type::eof();
        --room_;
        return traits_type::not_eof(c);
    }
    std::size_t room_;
};

}  // namespace

TEST_CASE("memory_viz: JSON and pickle contain the same snapshot with the recording's peaks",
          "[report][memory_viz][python]") {
    recording const r = viz_with_events();
    std::size_t const zero = peak_asked_for(r, {0, 1, 2, 4});
    CHECK(zero == 300 + 500 + 400 + 100 + 5000);
    CHECK(python_finds(r, {{zero, 0, 7000}, R"py(
zero, one, two = d["device_traces"]
assert one == [] and [e["action"] for e in two] == ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "segment_free"]
assert zero[0] == {"action": "alloc", "addr": 5120, "size": 500, "stream": 7, "time_us": 1_700_000_000_000_001,
                   "user_metadata": "one", "frames": [{"filename": "b.cpp", "line": 22, "name": "x"}]}, zero[0]
oom = [e for e in zero if e["action"] == "oom"]
assert len(oom) == 1 and oom[0]["size"] == 6000 and oom[0]["device_free"] == 1000 and oom[0]["user_metadata"] == "root"
assert [s["user_metadata"] for s in d["segments"]] == ["one", "root"]
assert [b["state"] for b in d["segments"][0]["blocks"]] == ["active_allocated", "active_pending_free", "inactive"]
assert d["segments"][0]["blocks"][0]["frames"] == [{"filename": "a.cpp", "line": 11, "name": "weights"}]
assert d["segments"][1]["address"] >= 2**52 and d["segments"][1]["requested_size"] == 5000
)py"}));
}

TEST_CASE("memory_viz has the chosen sources only, and memory without a device under the chosen index",
          "[report][memory_viz][python]") {
    recording const r = viz_with_events();
    CHECK(python_finds(r, {{900 + 300, 0, 7000}}, {.sources = {2, 3}}));
    CHECK(python_finds(r, {{900 + 300}}, {.sources = {2}}));
    // A budget is on the device of its pools.
    CHECK(python_finds(r, {{peak_asked_for(r, {1, 2}), 100, 7000}}, {.elsewhere = 1}));
    CHECK(
        support::has(support::thrown<cuota::usage_error>([&] { (void)viz_json(r, {.sources = {5}}); }).what(),
                     "source index 5 is out of range: the recording has 5"));
    CHECK_THROWS_AS(viz_pickle(r, {.elsewhere = 1024}), cuota::usage_error);
    CHECK_THROWS_AS(viz_pickle(r, {.elsewhere = -1}), cuota::usage_error);
}

TEST_CASE("memory_viz of an empty recording is a valid snapshot", "[report][memory_viz][python]") {
    CHECK(viz_json({}) == "{\"device_traces\":[[]],\"segments\":[]}\n");
    CHECK(python_finds({}, {{0}}));
}

TEST_CASE("memory_viz: names are escaped", "[report][memory_viz][python]") {
    recording r = viz_with_events();
    r.sites[2] = {cuota::tag::named("a\"b\\c\n\x01\x7F</script>\xFF\xC3 \xE2\x82\xAC \xF0\x9F\x98\x80"),
                  {"__proto__\xED\xA0\x80.cpp", 22}};
    r.sources[2].name = "\x80pool";
    CHECK(python_finds(r, {{peak_asked_for(r, {0, 1, 2, 4}), 0, 7000}, R"py(
f = d["device_traces"][0][0]["frames"][0]
assert f["name"] == 'a"b\\c\n\x01\x7f</script>\ufffd\ufffd \u20ac \U0001f600', f
assert f["filename"] == "__proto__\ufffd\ufffd\ufffd.cpp", f
assert d["segments"][0]["user_metadata"] == "\ufffdpool"
)py"}));
}

TEST_CASE("memory_viz: numbers of any size are exact", "[report][memory_viz][python]") {
    recording r = viz_by_hand();
    std::string wanted = "assert [e['stream'] for e in d['device_traces'][0]] == [0";
    viz_event(r, event_kind::allocated, 2, 0, 1, cuota::memory_event::no_stream);
    for (unsigned bit = 1; bit != 64; ++bit)
        for (std::uint64_t const n : {(std::uint64_t{1} << bit) - 1, std::uint64_t{1} << bit}) {
            viz_event(r, event_kind::allocated, 2, n + bit * 3, 1, n);
            wanted += "," + std::to_string(n);
        }
    r.final_snapshot.pools.clear();
    for (cuota::event_source& s : r.sources) s.pool.reset();
    r.sources[3].device = 0;
    CHECK(python_finds(r, {{127}, wanted + "]\n", false}));
}

TEST_CASE("memory_viz: pages may be freed in other pieces than they were allocated", "[report][memory_viz]") {
    recording r = viz_by_hand();
    r.final_snapshot.pools[1].segments = {{8192, 4096, true, {}}, {1 << 20, 4096, true, {}}};
    viz_event(r, event_kind::segment_allocated, 3, 4096, 8192);
    viz_event(r, event_kind::segment_allocated, 3, 12288, 8192);
    viz_event(r, event_kind::allocated, 3, 8000, 5000);
    viz_event(r, event_kind::free_requested, 3, 8000, 5000);
    viz_event(r, event_kind::segment_freed, 3, 16384, 4096);  // the end of a run, then its start
    viz_event(r, event_kind::segment_freed, 3, 12288, 4096);
    viz_event(r, event_kind::segment_freed, 3, 4096, 4096);
    std::string const more = R"py(
assert [e["action"] for e in d["device_traces"][2]] == ["segment_map"] * 2 + ["alloc", "free_requested", "free_completed"] + ["segment_unmap"] * 3
)py";
    CHECK(python_finds(r,
                       {{300, 0, 5000},
                        more + "assert [s['is_expandable'] for s in d['segments']] == [False, True, True]"}));
    r.sources[3].pool.reset();  // the pool is destroyed: inferred from how it released memory
    viz_event(r, event_kind::segment_freed, 3, 8192, 4096);
    CHECK(python_finds(r, {{300, 0, 5000}, R"py(
assert {e["action"] for e in d["device_traces"][2][-4:]} == {"segment_unmap"}
)py"}));
}

TEST_CASE("memory_viz: if a pool has pages, all of its segments are shown as pages",
          "[report][memory_viz][python]") {
    CHECK(python_finds(viz_pages_beside_pieces(), {{400}, R"py(
assert [e["action"] for e in d["device_traces"][0] if "segment" in e["action"]] == ["segment_map"] * 2 + ["segment_unmap"] * 2
)py"}));
}

TEST_CASE("memory_viz ends blocks and segments without a recorded free", "[report][memory_viz][python]") {
    recording r = viz_by_hand();
    viz_event(r, event_kind::segment_allocated, 2, 65536, 4096);
    viz_event(r, event_kind::allocated, 2, 65536, 1000);
    viz_event(r, event_kind::allocated, 2, 65536, 900);  // again, so it was freed in between
    viz_event(r, event_kind::segment_allocated, 2, 65536, 8192);
    viz_event(r, event_kind::segment_allocated, 3, 4096, 8192);  // and the snapshot shows all of these
    viz_event(r, event_kind::allocated, 3, 4096, 800);
    CHECK(python_finds(r, {{1300, 0, 800},
                           R"py(
assert [e["action"] for e in d["device_traces"][2]][-3:] == ["free_requested", "free_completed", "segment_free"]
assert len(d["segments"]) == 1
)py",
                           false}));
}

TEST_CASE("memory_viz has the same peaks as recordings of real pools", "[report][memory_viz][gpu][python]") {
    for (std::size_t const capacity : {64u, 512u, 100'000u}) {
        recording const r = viz_of_real_pools(capacity);
        REQUIRE((r.dropped == 0) == (capacity == 100'000));
        CHECK(python_finds(r, {{peak_asked_for(r, {})}}));
    }
}

TEST_CASE("memory_viz: PyTorch's own viewer computes the same peaks", "[report][memory_viz][gpu][python]") {
    std::optional<bool> const small = viewer_finds(viz_with_events(), "[6300,0,7000]");
    if (!small)
        CUOTA_SKIP("no PyTorch viewer: CUOTA_MEMORY_VIZ names none, there is no node, or the test's script "
                   "is not here");
    CHECK(*small);
    CHECK(viewer_finds(viz_pages_beside_pieces(), "[400]") == true);
    for (std::size_t const capacity : {64u, 512u, 100'000u}) {
        recording const r = viz_of_real_pools(capacity);
        CHECK(viewer_finds(r, '[' + std::to_string(peak_asked_for(r, {})) + ']') == true);
    }
}

TEST_CASE("memory_viz throws data_error when its stream is full", "[report][memory_viz]") {
    recording const r = viz_with_events();
    for (std::size_t const room : {0u, 100u}) {
        viz_short_stream few{room};
        std::ostream out{&few};
        CHECK_THROWS_AS(cuota::write_memory_viz_json(out, r), cuota::data_error);
        viz_short_stream fewer{room};
        std::ostream binary{&fewer};
        auto const failed =
            support::thrown<cuota::data_error>([&] { cuota::write_memory_viz_pickle(binary, r); });
        CHECK(failed.file() == "memory_viz snapshot");
    }
}
