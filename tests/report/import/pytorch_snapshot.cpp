// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/pytorch_snapshot.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/io/file.hpp>
#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/export/memory_viz.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/usage_series.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>

#include "report/trace_samples.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::block_use;
using cuota::event_kind;
using cuota::imported_recording;
using cuota::read_pytorch_snapshot;
using support::has;
using support::thrown;

namespace {

template <class Action>
std::string refusal_of(Action action) {
    return thrown<cuota::data_error>(action).what();
}

// Lines of Python that define `snapshot`, which is written by Python's own pickle module.
std::string pickled(support::temp_folder const& folder, std::string const& lines, int protocol = 4) {
    std::string const path = folder.path("snapshot" + std::to_string(protocol) + ".pickle");
    std::string const script =
        folder.write("make.py", "import pickle, sys\n" + lines +
                                    "\npickle.dump(snapshot, open(sys.argv[1], 'wb'), int(sys.argv[2]))\n");
    std::string const command =
        "'" CUOTA_PYTHON "' '" + script + "' '" + path + "' " + std::to_string(protocol);
    REQUIRE(std::system(command.c_str()) == 0);
    return path;
}

imported_recording read(std::string const& path) { return read_pytorch_snapshot(cuota::file{path}); }

constexpr char const* small_snapshot = R"py(
def frame(name, file, line): return {'name': name, 'filename': file, 'line': line}
torch = frame('empty', '/lib/python3/site-packages/torch/functional.py', 9)
mine = frame('forward', '/home/me/model.py', 17)
stack = [frame('at::empty', '??', 0), torch, mine, frame('main', '/home/me/train.py', 3)]
MiB = 1 << 20
snapshot = {
    'segments': [
        {'device': 1, 'address': 0x7f0000000000, 'total_size': 2 * MiB, 'allocated_size': MiB, 'active_size': MiB + 512,
         'requested_size': MiB - 24, 'stream': 0, 'segment_type': 'small', 'segment_pool_id': (0, 0), 'is_expandable': False, 'frames': [],
         'blocks': [{'address': 0x7f0000000000, 'size': MiB, 'requested_size': MiB - 24, 'state': 'active_allocated', 'frames': stack},
                    {'address': 0x7f0000000000 + MiB, 'size': 512, 'requested_size': 500, 'state': 'active_pending_free', 'frames': stack},
                    {'address': 0x7f0000000000 + MiB + 512, 'size': MiB - 512, 'requested_size': 0, 'state': 'inactive', 'frames': []}]}],
    'device_traces': [[], [
        {'action': 'segment_alloc', 'addr': 0x7f0000000000, 'size': 2 * MiB, 'stream': 0, 'time_us': 1700000000000000, 'frames': stack},
        {'action': 'alloc', 'addr': 0x7f0000000000, 'size': MiB - 24, 'stream': 0, 'time_us': 1700000000000001, 'frames': stack},
        {'action': 'alloc', 'addr': 0x7f0000000000 + MiB, 'size': 500, 'stream': 7, 'time_us': 1700000000000002, 'frames': [torch],
         'user_metadata': 'my bytes'},
        {'action': 'free_requested', 'addr': 0x7f0000000000 + MiB, 'size': 500, 'stream': 7, 'time_us': 1700000000000003, 'frames': []},
        {'action': 'oom', 'device_free': 3 * MiB, 'size': 8 * MiB, 'stream': 0, 'time_us': 1700000000000004, 'frames': stack},
        {'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0, 'time_us': 1700000000000005, 'frames': []}]],
    'allocator_settings': {'max_split_size': -1, 'garbage_collection_threshold': 0.5, 'last': None},
    'external_annotations': []}
)py";

}  // namespace

TEST_CASE("a snapshot's trace, segments, call sites and refusals are read, whatever the protocol",
          "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    int const protocol = GENERATE(2, 3, 4, 5);
    imported_recording const from = read(pickled(folder, small_snapshot, protocol));
    CHECK(from.repairs.empty());
    cuota::recording const& r = from.content;
    cuota::check_snapshot(r.final_snapshot);
    CHECK(r.start_time.time_since_epoch() == std::chrono::microseconds{1'700'000'000'000'000});

    CHECK(r.final_snapshot.taken - r.start_time == std::chrono::microseconds{5});
    REQUIRE(r.final_snapshot.pools.size() == 1);
    cuota::pool_info const& pool = r.final_snapshot.pools[0];
    CHECK(pool.name == "PyTorch:1");
    CHECK(pool.stats.requested == 1_MiB - 24);
    CHECK(pool.stats.allocated == 1_MiB);
    CHECK(pool.stats.active == 1_MiB + 512);
    CHECK(pool.stats.reserved == 2_MiB);
    CHECK(pool.stats.peak_requested == 1_MiB - 24 + 500);
    CHECK(pool.stats.peak_allocated == 1_MiB + 512);
    REQUIRE(pool.segments.size() == 1);
    REQUIRE(pool.segments[0].blocks.size() == 3);
    CHECK(pool.segments[0].blocks[0].name == cuota::tag{"forward"});
    CHECK(std::string{pool.segments[0].blocks[0].where.file} == "/home/me/model.py");
    CHECK(pool.segments[0].blocks[0].where.line == 17);
    CHECK(pool.segments[0].blocks[1].use == block_use::pending);

    REQUIRE(r.events.size() == 6);
    CHECK(r.events[1].kind == event_kind::allocated);
    CHECK(r.events[1].at == 1'000);
    CHECK(r.events[1].size == 1_MiB);
    CHECK(r.sites[r.events[2].site].name == cuota::tag{"my bytes"});
    CHECK(r.sites[r.events[2].site].where.line == 9);
    CHECK(r.events[2].stream == 7);
    CHECK(r.events[3].kind == event_kind::free_requested);
    CHECK(r.events[4].kind == event_kind::refused);
    CHECK(r.events[4].bytes == 8_MiB);
    CHECK(r.events[4].size == 2_MiB);  // reserved then
    cuota::event_source const& budget = r.sources[r.events[4].source];
    CHECK(budget.kind == cuota::source_kind::budget);
    CHECK(budget.limit == 5_MiB);  // reserved and free
    CHECK(r.events[5].kind == event_kind::marker);
    CHECK(has(cuota::diagnosis_text(cuota::diagnose(r)),
              "budget device 1 refused 1 request, short by 5.0 MiB; for forward (model.py:17)"));
    CHECK(has(cuota::summary(r.final_snapshot), "PyTorch:1"));
}

TEST_CASE("the traces of several devices are ordered by their times, whichever begins first",
          "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    imported_recording const from = read(pickled(folder, R"py(
def alloc(addr, time): return {'action': 'alloc', 'addr': addr, 'size': 1, 'stream': 0, 'time_us': time, 'frames': []}
snapshot = {'segments': [], 'device_traces': [[alloc(1, 1000), alloc(2, 1003)], [], [alloc(3, 997), alloc(4, 1002)]]})py"));
    CHECK(from.repairs.empty());
    CHECK(from.content.start_time.time_since_epoch() == std::chrono::microseconds{997});
    std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
    for (auto const& e : from.content.events) seen.emplace_back(e.address, e.at);
    CHECK(seen ==
          std::vector<std::pair<std::uint64_t, std::uint64_t>>{{3, 0}, {1, 3'000}, {4, 5'000}, {2, 6'000}});
}

TEST_CASE("a call site is the most telling frame of a stack", "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    imported_recording const from = read(pickled(folder, R"py(
def cpp(*names): return [{'name': n, 'filename': '??', 'line': 0} for n in names]
recording = cpp('torch::unwind::unwind()', 'torch::CapturedTraceback::gather(bool, bool, bool)', 'torch::cuda::(anonymous namespace)::gather_with_cpp()',
                'c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)',
                'at::TensorBase at::detail::_empty_generic<long>(long)', 'at::detail::empty_cuda(long)')
operator = cpp('at::native::mul(at::Tensor const&)', 'at::_ops::mul_Tensor::redispatch(c10::DispatchKeySet)', 'at::_ops::mul_Tensor::call(at::Tensor const&)')
node = cpp('torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)', 'torch::autograd::Node::operator()(long)')
loop = cpp('_PyEval_EvalFrameDefault')
library = [{'name': 'adamw', 'filename': '/lib/torch/optim/adamw.py', 'line': 7}]
own = [{'name': 'train', 'filename': '/home/me/train.py', 'line': 9}]
stacks = [recording + operator + node + loop + library + own, recording + operator + node + loop + library, recording + operator + node + loop,
          recording + operator, recording + cpp('nvrtc_compile()', 'main'), recording, [], cpp('torch::autograd::AccumulateGrad::apply(long)')]
snapshot = {'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': i + 1, 'size': 1, 'stream': 0, 'time_us': i, 'frames': stack}
                                               for i, stack in enumerate(stacks)]]})py"));
    std::vector<std::string> sites;
    for (auto const& e : from.content.events) {
        cuota::event_site const& by = from.content.sites.at(e.site);
        sites.push_back(std::string{by.name.text()} +
                        (by.where.line ? ":" + std::to_string(by.where.line) : ""));
    }
    CHECK(sites == std::vector<std::string>{"train:9", "adamw:7", "MulBackward0", "mul_Tensor",
                                            "nvrtc_compile()", "", "", "AccumulateGrad"});
}

TEST_CASE("the list of segments alone, and blocks as older versions wrote them, are read",
          "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    imported_recording const from = read(pickled(folder, R"py(
snapshot = [{'device': 0, 'address': 1 << 40, 'total_size': 2048, 'stream': 0, 'segment_type': 'small',
             'blocks': [{'size': 1024, 'state': 'active_allocated',
                         'history': [{'addr': 1 << 40, 'real_size': 1000, 'frames': [{'name': 'f', 'filename': 'a.py', 'line': 2}]}]},
                        {'size': 1024, 'state': 'inactive'}]}])py"));
    cuota::check_snapshot(from.content.final_snapshot);
    cuota::pool_info const& pool = from.content.final_snapshot.pools.at(0);
    CHECK(pool.stats.requested == 1000);
    CHECK(pool.segments[0].blocks[0].where.line == 2);
    CHECK(pool.segments[0].blocks[1].address == (std::uint64_t{1} << 40) + 1024);
    CHECK(from.content.events.empty());
}

TEST_CASE("peaks are those that an independent count finds, also when the trace has lost its beginning",
          "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    int const seed = GENERATE(range(0, 12));
    // A random program on addresses of its own; the trace keeps its last entries, as PyTorch's ring does.
    std::string const path = pickled(folder, "seed = " + std::to_string(seed) + R"py(
import random
random.seed(seed)
trace, live, pending, next_address, requested = [], {}, [], 1 << 40, [0]
for step in range(2000):
    time = 1000 + step * random.choice([0, 1, 3])
    time = max([time] + [e['time_us'] for e in trace[-1:]])
    def say(action, addr, size):
        trace.append({'action': action, 'addr': addr, 'size': size, 'stream': 0, 'time_us': time, 'frames': []})
        requested.append(requested[-1] + {'alloc': size, 'free_requested': -size}.get(action, 0))
    if random.random() < 0.55 or not live:
        size = random.choice([1, 511, 512, 513, random.randrange(1, 1 << 20)])
        say('segment_map', next_address, -(-size // 512) * 512)
        say('alloc', next_address, size)
        live[next_address] = size
        next_address += 1 << 21
    else:
        addr = random.choice(list(live))
        size = live.pop(addr)
        say('free_requested', addr, size)
        if random.random() < 0.8:
            say('free_completed', addr, size)
            say('segment_unmap', addr, -(-size // 512) * 512)
        else: pending.append((addr, size))
kept = random.choice([len(trace), 700, 1])
segments = [{'device': 0, 'address': a, 'total_size': -(-n // 512) * 512, 'is_expandable': True,
             'blocks': [{'size': -(-n // 512) * 512, 'requested_size': n, 'state': s, 'frames': []}]}
            for s, part in (('active_allocated', live.items()), ('active_pending_free', pending)) for a, n in part]
first = len(trace) - kept
assert requested[-1] == sum(live.values())
peak = max(requested[first:])  # before the first entry that is kept, and after each
snapshot = {'segments': segments, 'device_traces': [trace[first:]]}
open(sys.argv[1] + '.peak', 'w').write(str(peak)))py");
    imported_recording const from = read(path);
    cuota::check_snapshot(from.content.final_snapshot);
    std::size_t wanted = 0;
    std::ifstream{path + ".peak"} >> wanted;
    CHECK(from.content.final_snapshot.pools.at(0).stats.peak_requested == wanted);

    cuota::recording as_requested = from.content;
    for (cuota::memory_event& e : as_requested.events) e.size = e.bytes;
    for (auto& s : as_requested.final_snapshot.pools[0].segments)
        for (auto& b : s.blocks) b.size = b.requested;
    CHECK(cuota::usage_over_time(as_requested).total.peak == wanted);
}

TEST_CASE("what cuota writes for PyTorch's viewer is read back", "[report][pytorch_snapshot]") {
    support::machine const machine;
    cuota::recording const original = trace_samples::of_real_pools();
    std::ostringstream out;
    cuota::write_memory_viz_pickle(out, original);
    std::string const text = out.str();
    imported_recording const from =
        read_pytorch_snapshot(std::as_bytes(std::span{text.data(), text.size()}), "written");
    CHECK(from.repairs.empty());
    cuota::check_snapshot(from.content.final_snapshot);
    auto const live_bytes = [](cuota::recording const& r) {
        std::size_t bytes = 0;
        for (auto const& pool : r.final_snapshot.pools) bytes += pool.stats.requested;
        return bytes;
    };
    CHECK(live_bytes(from.content) == live_bytes(original));
    auto const count = [](cuota::recording const& r, event_kind kind) {
        std::size_t n = 0;
        for (auto const& e : r.events) n += e.kind == kind;
        return n;
    };
    CHECK(count(from.content, event_kind::allocated) == count(original, event_kind::allocated));
    CHECK(count(from.content, event_kind::free_requested) == count(original, event_kind::free_requested));
    CHECK(count(from.content, event_kind::refused) == count(original, event_kind::refused));
}

TEST_CASE("what a trace gets wrong is repaired, and the repairs are told", "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    imported_recording const from = read(pickled(folder, R"py(
def e(action, addr, size, time): return {'action': action, 'addr': addr, 'size': size, 'stream': 0, 'time_us': time, 'frames': []}
snapshot = {'segments': [{'device': 0, 'address': 4096, 'total_size': 8192, 'blocks': [
                {'size': 512, 'requested_size': 10, 'state': 'active_allocated', 'frames': []}]}],
            'device_traces': [[e('alloc', 4096, 10, 50), e('alloc', 4096, 10, 60), e('workspace_snapshot', 0, 0, 61),
                               e('free_requested', 9000, 5, 62), e('free_requested', 9000, 5, 40), e('free_completed', 9000, 5, 70)]]})py"));
    cuota::check_snapshot(from.content.final_snapshot);
    REQUIRE(from.repairs.size() == 5);
    CHECK(has(from.repairs[0], "1 entries are earlier than their predecessors"));
    CHECK(has(from.repairs[1], "1 entries of unknown kinds"));
    CHECK(has(from.repairs[2], "1 frees of blocks that were freed before"));
    CHECK(has(from.repairs[3], "1 allocations at addresses that were not freed"));
    CHECK(has(from.repairs[4], "1 segments are larger than their blocks"));
    CHECK(from.content.events.size() == 4);
}

TEST_CASE("a file that is no snapshot is refused, and the error says why and where",
          "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    struct sample {
        char const* lines;
        char const* message;
    };
    sample const samples[]{
        {"snapshot = 5", "segments is an integer; expected a list"},
        {"snapshot = {}", "the snapshot has no 'segments'"},
        {"snapshot = {'segments': [5]}", "a segment is an integer; expected a dict"},
        {"snapshot = {'segments': [{'device': 5000}]}", "is out of range [0, 1023]"},
        {"snapshot = {'segments': [{'device': -1}]}", "device is negative"},
        {"snapshot = {'segments': [{'device': 0, 'address': 1, 'total_size': (1 << 64) - 1, 'blocks': []}]}",
         "ends above the last address"},
        {"snapshot = {'segments': [{'device': 0, 'address': 0, 'total_size': 512, 'blocks': [{'size': 513, "
         "'state': 'inactive'}]}]}",
         "are larger than it"},
        {"snapshot = {'segments': [{'device': 0, 'address': 0, 'total_size': 512, 'blocks': [{'size': 512, "
         "'state': 'odd'}]}]}",
         "unknown state odd"},
        {"snapshot = {'segments': [{'device': 0, 'address': 0, 'total_size': 512, 'blocks': [{'size': 0, "
         "'state': 'inactive'}]}]}",
         "a block has no bytes"},
        {"snapshot = {'segments': [{'device': 0, 'address': 0, 'total_size': 512, 'blocks': [{'size': 512, "
         "'address': 1, 'state': 'inactive'}]}]}",
         "does not begin where its predecessor ends"},
        {"snapshot = {'segments': [{'device': 0, 'address': a, 'total_size': 512, 'blocks': [{'size': 512, "
         "'state': 'inactive'}]} for a in (0, 256)]}",
         "overlaps another one"},
        {"snapshot = {'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 1}]]}",
         "an entry has no 'size'"},
        {"snapshot = {'segments': [], 'device_traces': [[{'action': 'oom', 'size': 1}]]}",
         "an oom entry has no 'device_free'"},
        {"e = {'action': 'x'}\nt = [e] * 1000\nsnapshot = {'segments': [], 'device_traces': [t] * 1000}",
         "names its values more often than it has bytes"},
        {"import os\nsnapshot = {'segments': [os.system]}", "asks for"},
        {"snapshot = {'segments': []}\nsnapshot['device_traces'] = [snapshot]",
         "a device's trace is a dict; expected a list"},
    };
    for (sample const& s : samples) {
        INFO(s.lines);
        std::string const path = pickled(folder, s.lines);
        CHECK(has(refusal_of([&] { (void)read(path); }), s.message));
    }
}

TEST_CASE("what lies in place of a snapshot is named", "[report][pytorch_snapshot]") {
    support::temp_folder const folder;
    cuota::file const pointer{
        folder.write("snapshot.pickle", "version https://git-lfs.github.com/spec/v1\n")};
    CHECK(has(refusal_of([&] { (void)read_pytorch_snapshot(pointer); }), "is a Git LFS pointer"));
}
