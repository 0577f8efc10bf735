// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests that need the simulator: which calls are made, what happens when they fail, and what a missing wait would cause.
#include <algorithm>
#include <cuota/pool/scoped_pool.hpp>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/frame.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/peer_access.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/failing_heap.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::calls_since;
using support::has;
using support::thrown;

namespace simulator = cuota::simulator;

namespace {

constexpr cuota::pool_options in_segments{.growth = cuota::pool_growth::segments};

bool is_same(cuota::pool_stats const& a, cuota::pool_stats const& b) {
    return a.requested == b.requested && a.allocated == b.allocated && a.reserved == b.reserved &&
           a.live_blocks == b.live_blocks && a.segments == b.segments;
}

// Two fills of the same bytes on two streams, and the report of that race.
std::string race_on(void* p, std::size_t bytes) {
    cuota::stream const a;
    cuota::stream const b;
    std::size_t const before = simulator::race_reports().size();
    REQUIRE(cudaMemsetAsync(p, 1, bytes, a.get()) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(p, 2, bytes, b.get()) == cudaSuccess);
    a.synchronize();
    b.synchronize();
    std::vector<std::string> const all = simulator::race_reports();
    REQUIRE(all.size() == before + 1);
    return all.back();
}

// Allocates blocks of one size with live blocks between them, so that freed ones are not merged.
std::vector<void*> apart(cuota::scoped_pool& pool, cuota::stream_ref s, std::size_t bytes, std::size_t count,
                         std::vector<void*>& between) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i != count; ++i) {
        blocks.push_back(pool.allocate(s, bytes));
        between.push_back(pool.allocate(s, 256));
    }
    return blocks;
}

}  // namespace

TEST_CASE("a warm pool makes no CUDA call while one stream reuses its own blocks", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    cuota::stream const stream;
    for (std::size_t bytes : {1_MiB, 4_KiB}) pool.deallocate(stream, pool.allocate(stream, bytes), bytes);

    calls_since const calls;
    for (std::size_t i = 0; i != 100; ++i) {
        std::size_t const bytes = 1000 * (i + 1);
        void* const p = pool.allocate(stream, bytes);
        void* const q = pool.allocate(stream, 256);
        pool.deallocate(stream, p, bytes);
        pool.deallocate(stream, q, 256);
    }

    CHECK(calls.count() == 0);
    CHECK(pool.stats().stream_waits == 0);
}

TEST_CASE("a pool makes one CUDA call to allocate each segment and one to free it", "[pool][scoped_pool]") {
    support::machine const machine;
    calls_since const mallocs{"cudaMalloc"};
    calls_since const frees{"cudaFree"};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB},
                                {.initial_size = 8_MiB, .growth = cuota::pool_growth::segments}};
        std::vector<void*> blocks;
        for (int i = 0; i != 64; ++i) blocks.push_back(pool.allocate(stream, 128_KiB));
        CHECK(mallocs.count() == 1);
        blocks.push_back(pool.allocate(stream, 128_KiB));
        CHECK(mallocs.count() == 2);
        CHECK(frees.count() == 0);
        for (void* p : blocks) pool.deallocate(stream, p, 128_KiB);
    }
    CHECK(mallocs.count() == 2);
    CHECK(frees.count() == 2);
}

TEST_CASE("the device's allocated bytes equal the bytes that the budget was charged", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 5_MiB + 513};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (std::size_t i = 0; i != 200; ++i) {
        std::size_t const bytes = 1 + i * i * 7;
        try {
            blocks.emplace_back(pool.allocate(stream, bytes), bytes);
        } catch (cuota::budget_exceeded const&) { break; }
        REQUIRE(simulator::live().device_bytes == budget.held());
    }
    CHECK(simulator::peak_device_bytes() <= budget.limit());
    for (auto const& [p, bytes] : blocks) pool.deallocate(stream, p, bytes);
    pool.trim();
    CHECK(simulator::live().device_bytes == 0);
}

TEST_CASE("memory freed on one stream is reused on another in order, without a wait on the host",
          "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    void* const p = pool.allocate(a, 1_MiB);
    support::gate gate{a};
    support::write_words(a, p, 1_MiB, 1);

    calls_since const stream_waits{"cudaStreamSynchronize"};
    calls_since const event_waits{"cudaEventSynchronize"};
    calls_since const device_waits{"cudaDeviceSynchronize"};
    pool.deallocate(a, p, 1_MiB);
    void* const q = pool.allocate(b, 1_MiB);
    support::write_words(b, q, 1_MiB, 2);
    CHECK(stream_waits.count() + event_waits.count() + device_waits.count() == 0);

    CHECK(q == p);
    CHECK(pool.stats().stream_waits == 1);
    support::let_ready_work_run();
    CHECK_FALSE(b.is_idle());
    gate.open();
    CHECK(support::all_are(support::words(b, q, 1_MiB), 2));
    pool.deallocate(b, q, 1_MiB);
}

TEST_CASE("a request for a merged block of two streams waits for both", "[pool][scoped_pool]") {
    support::machine const machine;
    constexpr std::size_t half = 512_KiB;
    cuota::budget budget{"trainer", 2 * half};
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::scoped_pool pool{budget, {.initial_size = 2 * half}};
    void* const p = pool.allocate(a, half);
    void* const q = pool.allocate(b, half);
    support::gate gate{a};
    support::write_words(a, p, half, 1);
    support::write_words(b, q, half, 2);
    pool.deallocate(a, p, half);
    pool.deallocate(b, q, half);

    SECTION("the whole block") {
        void* const all = pool.allocate(c, 2 * half);
        support::write_words(c, all, 2 * half, 3);
        support::let_ready_work_run();
        CHECK_FALSE(c.is_idle());
        gate.open();
        CHECK(support::all_are(support::words(c, all, 2 * half), 3));
        pool.deallocate(c, all, 2 * half);
    }
    SECTION("the rest, after the second stream has allocated the front") {
        void* const front = pool.allocate(b, 256);
        void* const rest = pool.allocate(c, 2 * half - 256);
        support::write_words(c, rest, 2 * half - 256, 3);
        support::let_ready_work_run();
        CHECK_FALSE(c.is_idle());
        gate.open();
        CHECK(support::all_are(support::words(c, rest, 2 * half - 256), 3));
        pool.deallocate(b, front, 256);
        pool.deallocate(c, rest, 2 * half - 256);
    }
    SECTION("through the second stream, which has allocated and freed it unused") {
        pool.deallocate(b, pool.allocate(b, 2 * half), 2 * half);
        void* const all = pool.allocate(c, 2 * half);
        support::write_words(c, all, 2 * half, 3);
        support::let_ready_work_run();
        CHECK_FALSE(c.is_idle());
        gate.open();
        CHECK(support::all_are(support::words(c, all, 2 * half), 3));
        pool.deallocate(c, all, 2 * half);
    }
}

TEST_CASE("one wait covers blocks of two streams when one of the streams has waited for the other",
          "[pool][scoped_pool]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    constexpr std::size_t bytes = 64_KiB;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 4_MiB}};
    std::vector<void*> between;
    std::vector<void*> const blocks = apart(pool, a, bytes, 3, between);
    void* const last = pool.allocate(a, pool.largest_free());
    std::size_t const last_bytes = pool.stats().requested - 3 * (bytes + 256);
    support::gate gate{a};
    for (void* p : blocks) cuota::rt::fill_bytes(p, 1, bytes, a);
    for (void* p : blocks) pool.deallocate(a, p, bytes);

    void* const first = pool.allocate(b, bytes);  // b waits for a
    cuota::rt::fill_bytes(first, 2, bytes, b);
    CHECK(std::ranges::find(blocks, first) != blocks.end());
    CHECK(pool.stats().stream_waits == 1);
    pool.deallocate(b, first, bytes);
    std::vector<void*> taken;
    taken.push_back(pool.allocate(c, 3 * bytes));  // a segment of its own
    cuota::rt::fill_bytes(taken[0], 3, 3 * bytes, c);
    for (int i = 0; i != 3; ++i) taken.push_back(pool.allocate(c, bytes));
    CHECK(pool.stats().stream_waits == 2);  // c waits for b, and so for a
    for (std::size_t i = 1; i != 4; ++i) cuota::rt::copy_on_device(taken[i], taken[0], bytes, c);
    support::let_ready_work_run();
    CHECK_FALSE(c.is_idle());
    gate.open();
    c.synchronize();

    CHECK(std::set<void*>(taken.begin() + 1, taken.end()) == std::set<void*>(blocks.begin(), blocks.end()));
    CHECK(simulator::misuse().races == 0);
    for (std::size_t i = 1; i != 4; ++i) pool.deallocate(c, taken[i], bytes);
    pool.deallocate(c, taken[0], 3 * bytes);
    pool.deallocate(a, last, last_bytes);
    for (void* p : between) pool.deallocate(a, p, 256);
}

TEST_CASE(
    "in a random walk over short-lived streams, memory is reused in order with fewer waits than requests",
    "[pool][scoped_pool]") {
    support::machine const machine;
    simulator::set_race_checks(simulator::race_checks::report);
    struct held {
        void* p;
        std::size_t bytes;
        std::size_t stream;
    };
    std::mt19937 random{20'261'121};
    std::vector<cuota::stream> streams(4);
    cuota::scoped_pool pool{cuota::budget{"trainer", 4_MiB}, {.initial_size = 4_MiB}};
    std::vector<held> live;
    std::size_t taken = 0;
    auto const give = [&](std::size_t i) {
        held const h = std::exchange(live[i], live.back());
        live.pop_back();
        cuota::rt::fill_bytes(h.p, 2, h.bytes, streams[h.stream]);
        pool.deallocate(streams[h.stream], h.p, h.bytes);
    };

    for (int step = 0; step != support::rounds(5000); ++step) {
        std::size_t const s = random() % streams.size();
        std::size_t const bytes = 256 * (1 + random() % (random() % 4 == 0 ? 256 : 16));
        try {
            void* const p = pool.allocate(streams[s], bytes);
            ++taken;
            cuota::rt::fill_bytes(p, 1, bytes, streams[s]);
            live.push_back({p, bytes, s});
        } catch (cuota::budget_exceeded const&) { REQUIRE(!live.empty()); }
        while (live.size() > 100 || (!live.empty() && random() % 2 == 0)) give(random() % live.size());
        if (random() % 300 == 0) {  // once its blocks are freed, a new stream takes its place
            for (std::size_t i = live.size(); i-- != 0;)
                if (live[i].stream == s) give(i);
            streams[s] = cuota::stream{};
        }
    }
    while (!live.empty()) give(live.size() - 1);
    cuota::device::current().synchronize();

    CHECK(simulator::misuse().races == 0);
    CHECK(simulator::current_race_check_counts().accesses >= 2 * taken);
    CHECK(pool.stats().stream_waits > 0);
    CHECK(pool.stats().stream_waits < taken);
}

TEST_CASE("one event and one wait suffice for many frees", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<void*> between;
    std::vector<void*> const blocks = apart(pool, a, 4_KiB, 100, between);
    support::gate gate{a};

    calls_since const creations{"cudaEventCreateWithFlags"};
    calls_since const records{"cudaEventRecord"};
    calls_since const waits{"cudaStreamWaitEvent"};
    for (void* p : blocks) pool.deallocate(a, p, 4_KiB);
    CHECK(records.count() == 0);
    std::vector<void*> taken;
    for (int i = 0; i != 100; ++i) taken.push_back(pool.allocate(b, 4_KiB));

    CHECK(creations.count() == 1);
    CHECK(records.count() == 1);
    CHECK(waits.count() == 1);
    CHECK(pool.stats().stream_waits == 1);
    for (int i = 0; i != 100; ++i) support::write_words(b, taken[static_cast<std::size_t>(i)], 4_KiB, 2);
    support::let_ready_work_run();
    CHECK_FALSE(b.is_idle());
    gate.open();
    for (void* p : taken) pool.deallocate(b, p, 4_KiB);
    for (void* p : between) pool.deallocate(a, p, 256);
}

TEST_CASE("blocks of a stream are reused without a wait once its work is known to have finished",
          "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;  // has not waited for a
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    std::vector<void*> between;
    for (void* p : apart(pool, a, 4_KiB, 4, between)) pool.deallocate(a, p, 4_KiB);
    void* const first = pool.allocate(b, 4_KiB);
    CHECK(pool.stats().stream_waits == 1);
    calls_since const calls_of_b;
    void* const other = pool.allocate(b, 4_KiB);
    CHECK(calls_of_b.count() == 0);
    b.synchronize();  // waits for a's event, too

    calls_since const waits{"cudaStreamWaitEvent"};
    calls_since const queries{"cudaEventQuery"};
    void* const second = pool.allocate(c, 4_KiB);
    CHECK(queries.count() == 1);
    calls_since const calls;
    void* const third = pool.allocate(c, 4_KiB);

    CHECK(waits.count() == 0);
    CHECK(calls.count() == 0);
    CHECK(pool.stats().stream_waits == 1);
    for (void* p : {first, other}) pool.deallocate(b, p, 4_KiB);
    for (void* p : {second, third}) pool.deallocate(c, p, 4_KiB);
    for (void* p : between) pool.deallocate(a, p, 256);
}

TEST_CASE("of blocks of one size, those that need no wait are allocated first", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::stream const busy;
    cuota::stream const over;
    cuota::stream const own;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 32_KiB}};
    std::vector<void*> between;
    std::vector<void*> const blocks = apart(pool, own, 4_KiB, 3, between);
    void* const last = pool.allocate(own, pool.largest_free());
    std::size_t const last_bytes = pool.stats().requested - 3 * (4_KiB + 256);
    pool.deallocate(over, blocks[1], 4_KiB);
    pool.deallocate(over, last, last_bytes);
    void* const waited_for = pool.resource().allocate_sync(last_bytes);
    REQUIRE(waited_for == last);
    support::gate gate{busy};
    pool.deallocate(busy, blocks[0], 4_KiB);
    pool.deallocate(own, blocks[2], 4_KiB);

    calls_since const calls;
    CHECK(pool.allocate(own, 4_KiB) != blocks[0]);
    CHECK(pool.allocate(own, 4_KiB) != blocks[0]);
    CHECK(calls.count() == 0);
    CHECK(pool.allocate(own, 4_KiB) == blocks[0]);
    CHECK(pool.stats().stream_waits == 1);
    gate.open();
    for (void* p : blocks) pool.deallocate(own, p, 4_KiB);
    for (void* p : between) pool.deallocate(own, p, 256);
    pool.deallocate(own, last, last_bytes);
}

TEST_CASE("a pool keeps few short-lived streams and events", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};

    std::size_t most = 0;
    for (int i = 0; i != support::rounds(10'000); ++i) {
        cuota::stream const s;
        void* const p = pool.allocate(s, 4_KiB);
        if (i % 100 == 0) cuota::device::current().synchronize();  // otherwise the host outruns the device
        if (i % 10 == 0) support::write_words(s, p, 4_KiB, 1);
        pool.deallocate(s, p, 4_KiB);
        most = std::max(most, simulator::live().streams);
    }

    CHECK(most < 500);
    CHECK(simulator::live().streams < 500);
    CHECK(simulator::live().events < 500);
    CHECK(budget.held() == 2_MiB);
}

TEST_CASE("a block freed on a stream that was destroyed waits for that stream's work",
          "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    cuota::stream const next;
    std::optional<cuota::stream> gone{std::in_place};
    void* const p = pool.allocate(*gone, 1_MiB);
    support::gate gate{*gone};
    support::write_words(*gone, p, 1_MiB, 1);
    pool.deallocate(*gone, p, 1_MiB);
    gone.reset();

    void* const q = pool.allocate(next, 1_MiB);
    support::write_words(next, q, 1_MiB, 2);

    support::let_ready_work_run();
    CHECK_FALSE(next.is_idle());
    gate.open();
    CHECK(support::all_are(support::words(next, q, 1_MiB), 2));
    pool.deallocate(next, q, 1_MiB);
}

TEST_CASE("a block freed on a native stream can be reused after that stream was destroyed",
          "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    cuota::stream const next;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
    void* const p = pool.allocate(native, 1_MiB);
    support::gate gate{native};
    support::write_words(native, p, 1_MiB, 1);
    pool.deallocate(native, p, 1_MiB);
    REQUIRE(cudaStreamDestroy(native) == cudaSuccess);

    void* q = nullptr;
    REQUIRE_NOTHROW(q = pool.allocate(next, 1_MiB));
    support::write_words(next, q, 1_MiB, 2);

    support::let_ready_work_run();
    CHECK_FALSE(next.is_idle());
    gate.open();
    CHECK(support::all_are(support::words(next, q, 1_MiB), 2));
    pool.deallocate(next, q, 1_MiB);
}

TEST_CASE("allocate_sync returns memory whose earlier work has finished", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    cuota::stream const a;
    void* const p = pool.allocate(a, 1_MiB);
    support::write_words(a, p, 1_MiB, 1);
    pool.deallocate(a, p, 1_MiB);

    void* const q = pool.resource().allocate_sync(1_MiB);

    CHECK(q == p);
    CHECK(a.is_idle());
    pool.resource().deallocate_sync(q, 1_MiB);
    calls_since const calls;
    pool.resource().deallocate_sync(pool.resource().allocate_sync(1_MiB), 1_MiB);
    CHECK(calls.count() == 0);  // not used since
}

TEST_CASE("trim waits for work that may still use a segment", "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, cuota::async_memory{}};
    cuota::stream const a;
    void* const p = pool.allocate(a, 1_MiB);
    support::gate gate{a};
    support::write_words(a, p, 1_MiB, 1);
    pool.deallocate(a, p, 1_MiB);

    calls_since const waits{"cudaEventSynchronize"};
    std::size_t given = 0;
    std::thread trimmer{[&] { given = pool.trim(); }};
    gate.open();
    trimmer.join();

    CHECK(given == 1_MiB);
    CHECK(waits.count() == 1);
    CHECK(a.is_idle());
}

TEST_CASE("a segment whose work cannot be waited for is kept, and the failure is reported",
          "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget, in_segments};
    cuota::stream const a;
    pool.deallocate(a, pool.allocate(a, 1_MiB), 1_MiB);
    simulator::fail_call("cudaEventSynchronize", 1);

    CHECK(pool.trim() == 0);

    auto const texts = machine.errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0], "cudaEventSynchronize"));
    CHECK(budget.held() == 1_MiB);
    CHECK(pool.trim() == 1_MiB);
}

TEST_CASE("destroying a pool waits for freed blocks that share a segment with a leaked block",
          "[pool][scoped_pool]") {
    support::machine machine;
    cuota::stream const a;
    std::optional<support::gate> gate;
    std::thread opener;
    calls_since const waits{"cudaEventSynchronize"};
    {
        cuota::scoped_pool pool{
            cuota::budget{"trainer", 64_MiB}, cuota::async_memory{}, {.initial_size = 2_MiB}};
        (void)pool.allocate(a, 1_MiB);  // leaked
        void* const p = pool.allocate(a, 1_MiB);
        gate.emplace(a);
        support::write_words(a, p, 1_MiB, 1);
        pool.deallocate(a, p, 1_MiB);
        opener = std::thread{[&] { gate->open(); }};
    }
    opener.join();

    CHECK(waits.count() == 1);
    CHECK(a.is_idle());
    CHECK(machine.errors.take().size() == 1);
}

TEST_CASE("destroying a pool of segments waits for the work on leaked blocks", "[pool][scoped_pool]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::set_unkindness({.free_at_once = true});
    bool const is_told_its_device = GENERATE(true, false);
    cuota::budget const account{"trainer", 64_MiB};
    cuota::stream const a;
    {
        cuota::scoped_pool pool = is_told_its_device
                                      ? cuota::scoped_pool{account, in_segments}
                                      : cuota::scoped_pool{account, cuota::device_memory{}, in_segments};
        cuota::rt::fill_bytes(pool.allocate(a, 1_MiB), 1, 1_MiB, a);  // leaked
    }
    CHECK(machine.errors.take().size() == 1);
    for (std::string const& line : simulator::race_reports()) UNSCOPED_INFO(line);
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("destroying a pool waits for freed blocks although event waits fail", "[pool][scoped_pool]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::set_unkindness({.free_at_once = true});
    cuota::stream const a;
    {
        cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, in_segments};
        void* const p = pool.allocate(a, 1_MiB);
        cuota::rt::fill_bytes(p, 1, 1_MiB, a);
        pool.deallocate(a, p, 1_MiB);
        for (std::uint64_t const nth : {1, 2})
            simulator::fail_call("cudaEventSynchronize", nth);  // in its trim and in its destructor
    }
    CHECK(machine.errors.take().size() == 2);
    CHECK(simulator::race_reports() == std::vector<std::string>{});
}

TEST_CASE("destroying a pool waits for freed blocks although the host has no memory", "[pool][scoped_pool]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    simulator::set_unkindness({.free_at_once = true});
    cuota::pool_options const how{.growth =
                                      GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments)};
    cuota::stream const a;
    std::optional<cuota::scoped_pool> pool{std::in_place, cuota::budget{"trainer", 64_MiB}, how};
    void* const p = pool->allocate(a, 1_MiB);
    cuota::rt::fill_bytes(p, 1, 1_MiB, a);
    pool->deallocate(a, p, 1_MiB);
    {
        support::failing_heap_of_all const heap{0, support::heap_failure::stays};
        pool.reset();
    }
    CHECK(simulator::live().device_bytes == 0);
    CHECK(simulator::race_reports() == std::vector<std::string>{});
    (void)machine.errors.take();
}

TEST_CASE("a refusal reports that the device has less memory than the budget, and nothing stays charged",
          "[pool][scoped_pool]") {
    support::machine const machine{{.capacity = 64_MiB}};
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    {
        cuota::scoped_pool pool{budget, {.name = "main"}};
        void* const p = pool.allocate(stream, 4_MiB, 256, "weights");
        simulator::set_other_programs(0, 50_MiB);
        auto const before = pool.stats();

        std::optional<cuota::out_of_memory> refused;
        try {
            (void)pool.allocate(stream, 16_MiB, 256, "activations", {"train.cpp", 17});
        } catch (cuota::budget_exceeded const&) {
            FAIL("no budget was exceeded");
        } catch (cuota::out_of_memory const& error) { refused = error; }

        REQUIRE(refused);
        cuota::refusal const& facts = refused->info();
        CHECK(has(facts.cause, "within budget"));
        CHECK(has(facts.cause, "pool main"));
        CHECK(facts.requested == 16_MiB);
        CHECK(facts.request.name == cuota::tag{"activations"});
        REQUIRE(facts.device);
        CHECK(facts.device->free == 10_MiB);
        CHECK(facts.device->external() == 50_MiB);
        CHECK(facts.max_fit == 10_MiB);
        CHECK(budget.held() == 4_MiB);
        CHECK(is_same(pool.stats(), before));
        void* const rest = pool.allocate(stream, facts.max_fit);
        CHECK(budget.held() == 14_MiB);
        pool.deallocate(stream, rest, facts.max_fit);
        pool.deallocate(stream, p, 4_MiB);
    }
    CHECK(budget.held() == 0);
}

TEST_CASE("a pool releases its free memory when the device has less memory than the budget",
          "[pool][scoped_pool]") {
    support::machine const machine{{.capacity = 16_MiB}};
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    std::vector<void*> blocks;
    for (int i = 0; i != 12; ++i) blocks.push_back(pool.allocate(stream, 1_MiB));
    for (void* p : blocks) pool.deallocate(stream, p, 1_MiB);

    void* p = nullptr;
    REQUIRE_NOTHROW(p = pool.allocate(stream, 16_MiB));

    CHECK(budget.held() == 16_MiB);
    CHECK(pool.stats().segments == 1);
    pool.deallocate(stream, p, 16_MiB);
}

TEST_CASE("growth by more than the request is retried with the exact size when the device refuses it",
          "[pool][scoped_pool]") {
    support::machine const machine{{.capacity = 16_MiB + 64_KiB}};
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.initial_size = 16_MiB}};
    void* const p = pool.allocate(stream, 16_MiB);

    void* const q = pool.allocate(stream, 64_KiB);

    CHECK(budget.held() == 16_MiB + 64_KiB);
    pool.deallocate(stream, p, 16_MiB);
    pool.deallocate(stream, q, 64_KiB);
}

TEST_CASE("a CUDA error other than out of memory is thrown, and nothing stays charged",
          "[pool][scoped_pool]") {
    support::machine const machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, in_segments};
    simulator::fail_call("cudaMalloc", 1, cudaErrorUnknown);

    auto const error = thrown<cuota::cuda_error>([&] { (void)pool.allocate(stream, 1_MiB); });

    CHECK(error.call() == "cudaMalloc");
    CHECK(budget.held() == 0);
    CHECK(pool.stats().reserved == 0);
}

TEST_CASE("a request that fails for any reason leaves the pool unchanged", "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 8_MiB};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{budget};
    void* const kept = pool.allocate(a, 1_MiB);

    std::size_t failed = 0;
    for (cudaError_t const code : {cudaErrorMemoryAllocation, cudaErrorUnknown}) {
        for (std::uint64_t nth = 1;; ++nth) {
            // Stream b must wait for a block, and the pool must grow for the second request.
            pool.deallocate(a, pool.allocate(a, 2_MiB), 2_MiB);
            pool.trim(3_MiB);
            auto const injected = simulator::faults_injected();
            auto before = pool.stats();
            simulator::fail_call(nullptr, nth, code);
            std::vector<std::pair<void*, std::size_t>> taken;
            try {
                for (std::size_t const bytes : {2_MiB, 4_MiB}) {
                    taken.emplace_back(pool.allocate(b, bytes), bytes);
                    before = pool.stats();
                }
            } catch (cuota::cuda_error const&) {
                ++failed;
                CHECK(is_same(pool.stats(), before));
                CHECK(budget.held() == before.reserved);
            } catch (cuota::out_of_memory const&) {
                ++failed;
                CHECK(is_same(pool.stats(), before));
                CHECK(budget.held() == before.reserved);
            }
            bool const was_used = simulator::faults_injected() != injected;
            simulator::clear_faults();
            for (auto const& [p, bytes] : taken) pool.deallocate(b, p, bytes);
            REQUIRE(pool.stats().live_blocks == 1);
            b.synchronize();
            pool.trim(1_MiB);
            if (!was_used) break;
        }
    }

    CHECK(failed > 4);
    (void)machine.errors.take();  // reports of failed releases
    pool.deallocate(a, kept, 1_MiB);
}

TEST_CASE("a pool survives the failure of any CUDA call, and leaks nothing", "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 8_MiB};

    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::stream const a;
        cuota::stream const b;
        cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
        cuota::pool_resource memory = pool.resource();
        struct held {
            cuota::pool_resource& from;
            cuota::stream_ref s;
            std::size_t bytes;
            void* p = from.allocate(s, bytes);
            ~held() { from.deallocate(s, p, bytes); }
        };
        { held const first{memory, a, 1_MiB}; }
        {
            held const second{memory, b, 1_MiB};
            held const third{memory, a, 4_MiB};
        }
        { held const fourth{memory, b, 5_MiB}; }
        pool.trim(1_MiB);
        void* const p = memory.allocate_sync(1_MiB);
        memory.deallocate_sync(p, 1_MiB);
        pool.close();
    });

    CHECK(seen.thrown > 10);
    CHECK(budget.held() == 0);
}

TEST_CASE("a free on a stream whose id cannot be queried waits for that stream", "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const owner;
    cudaStream_t const native = owner.get();
    void* const p = pool.allocate(a, 1_MiB);
    support::write_words(native, p, 1_MiB, 1);
    simulator::fail_call("cudaStreamGetId", 1, cudaErrorUnknown);

    pool.deallocate(native, p, 1_MiB);

    REQUIRE(machine.errors.take().size() == 1);
    CHECK(cuota::stream_ref{native}.is_idle());
    void* const q = pool.allocate(b, 1_MiB);
    CHECK(pool.stats().stream_waits == 0);
    pool.deallocate(b, q, 1_MiB);
}

TEST_CASE("a free on a native stream that was destroyed waits for the device", "[pool][scoped_pool]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::scoped_pool pool{cuota::budget{"trainer", 1_MiB}, {.initial_size = 1_MiB}};
    cuota::stream const b;
    cudaStream_t native = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess);
    void* const p = pool.allocate(native, 1_MiB);
    {
        cuota::simulator::hold const nothing_runs;
        REQUIRE(cudaMemsetAsync(p, 1, 1_MiB, native) == cudaSuccess);
        REQUIRE(cudaStreamDestroy(native) == cudaSuccess);
    }

    pool.deallocate(native, p, 1_MiB);

    CHECK(!machine.errors.take().empty());
    void* const q = pool.allocate(b, 1_MiB);
    REQUIRE(cudaMemsetAsync(q, 2, 1_MiB, b.get()) == cudaSuccess);
    CHECK(support::all_are(support::words(b, q, 1_MiB), 0x02020202u));
    pool.deallocate(b, q, 1_MiB);
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a free on a native stream whose event cannot be recorded waits for that stream",
          "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 1_MiB}};
    void* p = pool.allocate(cudaStreamLegacy, 1_MiB);
    bool const had_an_event = GENERATE(false, true);
    if (had_an_event) {
        pool.deallocate(cudaStreamLegacy, p, 1_MiB);
        p = pool.allocate(cudaStreamLegacy, 1_MiB);
    }
    support::write_words(cudaStreamLegacy, p, 1_MiB, 1);
    simulator::fail_call(had_an_event ? "cudaEventRecord" : "cudaEventCreateWithFlags", 1, cudaErrorUnknown);

    pool.deallocate(cudaStreamLegacy, p, 1_MiB);

    REQUIRE(machine.errors.take().size() == 1);
    CHECK(cuota::stream_ref{cudaStreamLegacy}.is_idle());
    CHECK(pool.stats().active == 0);
    cuota::stream const b;
    void* const q = pool.allocate(b, 1_MiB);
    CHECK(pool.stats().stream_waits == 0);
    pool.deallocate(b, q, 1_MiB);
}

TEST_CASE("a segment whose release fails is released again later, and the failure is reported",
          "[pool][scoped_pool]") {
    support::machine machine;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    simulator::fail_call("cudaFree", 1, cudaErrorUnknown);
    {
        cuota::scoped_pool pool{budget, in_segments};
        pool.deallocate(stream, pool.allocate(stream, 1_MiB), 1_MiB);
    }
    CHECK(machine.errors.take().size() == 1);
    CHECK(simulator::live().device_allocations == 0);  // the second try released it
    CHECK(budget.held() == 0);
}

TEST_CASE("a pool serves streams of its device whichever device is current", "[pool][scoped_pool]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    {
        cuota::device_scope const other{cuota::device{1}};
        void* p = nullptr;
        REQUIRE_NOTHROW(p = pool.allocate(a, 1_MiB));
        pool.deallocate(a, p, 1_MiB);
        REQUIRE_NOTHROW(p = pool.allocate(b, 1_MiB));
        pool.deallocate(b, p, 1_MiB);
        pool.trim();
    }
    CHECK(pool.stats().reserved == 0);
}

namespace {

cuota::stream stream_of(int ordinal) {
    cuota::device_scope const there{cuota::device{ordinal}};
    return cuota::stream{};
}

}  // namespace

TEST_CASE("a pool's memory is accessible from the peers in its options and from no other device",
          "[pool][scoped_pool][peers]") {
    support::machine const machine{{.devices = 3}};
    // Kernels that access memory out of reach fault.
    simulator::set_memory_checks(simulator::memory_checks::strict);
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    cuota::stream const home;
    cuota::stream const peer = stream_of(1);
    cuota::stream const stranger = stream_of(2);
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB},
                            {.initial_size = 2_MiB, .growth = growth, .peers = {cuota::device{1}}}};
    for (std::size_t const bytes : {1_MiB, 5_MiB}) {  // within the reserved bytes, and more
        void* const p = pool.allocate(peer, bytes);
        support::write_words(peer, p, bytes, 7);
        CHECK(support::all_are(support::words(peer, p, bytes), 7));
        CHECK(cuota::rt::out_of_reach(cuota::device{2}, p) == cuota::device{0});
        pool.deallocate(peer, p, bytes);
        void* const q = pool.allocate(home, bytes);
        support::write_words(home, q, bytes, 8);
        CHECK(support::all_are(support::words(home, q, bytes), 8));
        pool.deallocate(home, q, bytes);
    }
    auto const before = pool.stats();
    auto const refused = thrown<cuota::usage_error>([&] { (void)pool.allocate(stranger, 1_MiB); });
    CHECK(has(refused.what(), "device 0"));
    CHECK(has(refused.what(), "device{2}"));
    CHECK(is_same(pool.stats(), before));
}

TEST_CASE("a request on a stream of a device that is not a peer of the pool is refused",
          "[pool][scoped_pool][peers]") {
    support::machine const machine{{.devices = 2}};
    cuota::stream const other = stream_of(1);
    bool const is_native = GENERATE(false, true);
    cuota::stream_ref const s = is_native ? cuota::stream_ref{other.get()} : cuota::stream_ref{other};
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}};
    CHECK_THROWS_AS(pool.allocate(s, 256), cuota::usage_error);
    CHECK_THROWS_AS(pool.persistent().allocate(s, 256), cuota::usage_error);
    auto frame = pool.frame();
    CHECK_THROWS_AS(frame.resource().allocate(s, 256), cuota::usage_error);
    CHECK(pool.stats().reserved == 0);
}

TEST_CASE("work of two devices on one block is ordered", "[pool][scoped_pool][peers]") {
    support::machine const machine{{.devices = 2}};
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const home;
    cuota::stream const peer = stream_of(1);
    cuota::scoped_pool pool{cuota::budget{"trainer", 4_MiB}, {.peers = {cuota::device{1}}}};
    for (int i = 0; i != 3; ++i) {
        for (cuota::stream_ref const s : {cuota::stream_ref{home}, cuota::stream_ref{peer}}) {
            void* const p = pool.allocate(s, 4_MiB);
            support::write_words(s, p, 4_MiB, 1);
            pool.deallocate(s, p, 4_MiB);
        }
    }
    pool.trim();
    CHECK(simulator::misuse().races == 0);
}

TEST_CASE("a pool refuses a peer without access to its device, and peers of pinned memory",
          "[pool][scoped_pool][peers]") {
    support::machine const machine{{.devices = 2, .has_peer_access = false}};
    cuota::budget const budget{"trainer", 64_MiB};
    cuota::pool_options const wanted{.name = "shared", .peers = {cuota::device{0}, cuota::device{1}}};
    auto const refused = thrown<cuota::usage_error>([&] { cuota::scoped_pool const pool{budget, wanted}; });
    CHECK(has(refused.what(), "pool shared of device 0"));
    CHECK(has(refused.what(), "device 1"));
    CHECK_NOTHROW(cuota::scoped_pool{budget, {.peers = {cuota::device{0}}}});  // a device reaches itself
    CHECK_THROWS_AS((cuota::scoped_pool{budget, cuota::pinned_memory{}, wanted}), cuota::usage_error);
    CHECK_NOTHROW(cuota::scoped_pool{budget, cuota::dry_run_memory{}, wanted});  // a dry run of it
}

TEST_CASE("a pool with a peer survives the failure of any CUDA call", "[pool][scoped_pool][peers]") {
    support::machine machine{{.devices = 2}};
    cuota::budget budget{"trainer", 64_MiB};
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    auto const life = [&] {
        cuota::stream const peer = stream_of(1);
        cuota::scoped_pool pool{budget, {.growth = growth, .peers = {cuota::device{1}}}};
        void* const p = pool.allocate(peer, 3_MiB);
        pool.deallocate(peer, p, 3_MiB);
    };
    auto const seen = support::survives_every_failure(machine, life, {cudaErrorUnknown});
    CHECK(budget.held() == 0);
    CHECK(seen.thrown > 5);
    CHECK(cuota::device::current() == cuota::device{0});
}

TEST_CASE("idle pools of any budget are reclaimed when the driver refuses memory", "[pool][scoped_pool]") {
    support::machine const sim{{1, 80_MiB}};
    cuota::stream const s;
    cuota::budget budget{"trainer", 200_MiB};
    cuota::budget other{"other", 200_MiB};
    bool const is_other = GENERATE(false, true);
    bool const is_segmented = GENERATE(false, true);
    cuota::pool_options options{.name = "idle"};
    if (is_segmented) options.growth = cuota::pool_growth::segments;
    cuota::scoped_pool idle{is_other ? other : budget, options};
    idle.deallocate(s, idle.allocate(s, 60_MiB), 60_MiB);
    REQUIRE(idle.stats().reserved >= 60_MiB);

    SECTION("for a pool of pages") {
        cuota::scoped_pool busy{budget, {.name = "busy"}};
        busy.deallocate(s, busy.allocate(s, 60_MiB), 60_MiB);
    }
    SECTION("for a pool of segments") {
        cuota::scoped_pool busy{budget, {.name = "busy", .growth = cuota::pool_growth::segments}};
        busy.deallocate(s, busy.allocate(s, 60_MiB), 60_MiB);
    }
    SECTION("for memory outside of pools") {
        cuota::device_memory memory;
        memory.deallocate_sync(memory.allocate_sync(60_MiB), 60_MiB);
        cuota::async_memory pooled;
        pooled.deallocate(s, pooled.allocate(s, 60_MiB), 60_MiB);
    }
    SECTION("but not for a request that exceeds all idle memory") {
        cuota::scoped_pool busy{budget, {.name = "busy"}};
        void* const p = busy.allocate(s, 18_MiB);
        auto const refused = thrown<cuota::out_of_memory>([&] { (void)busy.allocate(s, 70_MiB); });
        CHECK(has(refused.what(), "within budget, but the upstream resource of pool busy is out of memory"));
        CHECK(idle.stats().reserved >= 60_MiB);
        busy.deallocate(s, p, 18_MiB);
    }
}

TEST_CASE("a reclaimer is called when the driver refuses, and the pool that it freed blocks to is trimmed",
          "[pool][scoped_pool]") {
    support::machine const sim{{1, 80_MiB}};
    cuota::stream const s;
    cuota::budget budget{"trainer", 200_MiB};
    cuota::scoped_pool pool{budget, {.name = "cached"}};
    void* cached = pool.allocate(s, 60_MiB);
    cuota::reclaimer const cache{budget, "images", [&](std::size_t) { return cached ? 60_MiB : 0; },
                                 [&](std::size_t) {
                                     if (!cached) return std::size_t{0};
                                     pool.deallocate(s, std::exchange(cached, nullptr), 60_MiB);
                                     return std::size_t{60_MiB};
                                 }};
    cuota::device_memory memory;
    memory.deallocate_sync(memory.allocate_sync(60_MiB), 60_MiB);
    CHECK(!cached);
}

TEST_CASE("idle pinned pools are reclaimed when the host cannot pin more memory", "[pool][scoped_pool]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::budget budget{"host", 200_MiB};
    cuota::scoped_pool idle{budget, cuota::pinned_memory{}};
    idle.deallocate(s, idle.allocate(s, 20_MiB), 20_MiB);
    REQUIRE(idle.stats().reserved != 0);
    simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    cuota::pinned_memory memory;
    memory.deallocate_sync(memory.allocate_sync(20_MiB), 20_MiB);
    CHECK(idle.stats().reserved == 0);
}

TEST_CASE("memory that the driver refused is not part of a peak", "[pool][scoped_pool]") {
    support::machine const sim{{1, 80_MiB}};
    cuota::stream const s;
    cuota::budget account{"pool", 1_GiB};
    cuota::scoped_pool pool{account, GENERATE(cuota::pool_options{}, in_segments)};
    void* const p = pool.allocate(s, 10_MiB);
    CHECK_THROWS_AS(pool.allocate(s, 200_MiB), cuota::out_of_memory);
    CHECK_THROWS_AS(pool.allocate(s, 79_MiB), cuota::out_of_memory);  // less than the device's total
    CHECK(account.held() == pool.stats().reserved);
    CHECK(account.peak() == pool.stats().peak_reserved);
    CHECK(account.peak() < 15_MiB);
    pool.deallocate(s, p, 10_MiB);
}

TEST_CASE("a pool of segments does not keep segments of steadily growing requests", "[pool][scoped_pool]") {
    support::machine const sim;
    std::size_t const streams = GENERATE(1, 3);
    std::size_t const step = GENERATE(400, 4'000, 60'000);
    bool const is_pinned = GENERATE(false, true);
    cuota::budget account{"serving", 4_GiB};
    std::vector<cuota::stream> on(streams);
    cuota::scoped_pool pool = is_pinned ? cuota::scoped_pool{account, cuota::pinned_memory{}}
                                        : cuota::scoped_pool{account, in_segments};
    auto const calls = simulator::allocation_calls();
    std::size_t const tokens = 300;
    for (std::size_t token = 0; token != tokens; ++token) {
        std::size_t const bytes = 1'000'000 + step * token;
        cuota::stream const& s = on[token % streams];
        pool.deallocate(s, pool.allocate(s, bytes), bytes);
    }
    CHECK(account.peak() <= pool.stats().peak_allocated * 3 / 2);
    CHECK(simulator::allocation_calls() - calls <= 60);
    for (cuota::stream const& s : on) s.synchronize();
}

TEST_CASE("a pool of segments makes no CUDA call for a repeated cycle of requests", "[pool][scoped_pool]") {
    support::machine const sim;
    unsigned const seed = GENERATE(range(0U, 40U));
    std::mt19937 random{seed};
    cuota::stream const s;
    cuota::budget account{"steady", 4_GiB};
    cuota::scoped_pool pool{account, in_segments};
    struct act {
        bool takes;
        std::size_t which;
        std::size_t bytes;
    };
    // A random cycle of allocations and frees that is repeated; nothing is live at its end.
    std::vector<act> cycle;
    std::vector<act> live;
    std::size_t number = 0;
    for (int i = 0; i != 40; ++i)
        if (live.empty() || random() % 2 == 0) {
            live.push_back({true, number++, 1 + random() % (random() % 4 == 0 ? 20'000'000 : 2'000'000)});
            cycle.push_back(live.back());
        } else {
            std::size_t const at = random() % live.size();
            cycle.push_back({false, live[at].which, live[at].bytes});
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        }
    for (act const& a : live) cycle.push_back({false, a.which, a.bytes});
    std::vector<void*> blocks(number);
    std::uint64_t calls = 0;
    for (int round = 0; round != 40; ++round) {
        if (round == 20) calls = simulator::allocation_calls();
        for (act const& a : cycle)
            if (a.takes) blocks[a.which] = pool.allocate(s, a.bytes);
            else pool.deallocate(s, blocks[a.which], a.bytes);
    }
    CHECK(simulator::allocation_calls() == calls);
    s.synchronize();
}

TEST_CASE("reports of races name the block of a pool, a frame or a plan", "[pool][scoped_pool]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    support::machine const gpu;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 64_MiB}};

    void* const large = pool.allocate(s, 5_MiB, "large");  // of several mappings
    void* const small = pool.allocate(s, 1000, "small");
    auto const at_its_end = race_on(static_cast<std::byte*>(large) + 5_MiB - 100, 100);
    CHECK(has(at_its_end, ", in block \"large\", 5242880 bytes at "));
    auto const in_small = race_on(small, 10);
    CHECK(has(in_small, ", in block \"small\", 1000 bytes at "));
    CHECK(has(in_small, ", allocated at scoped_pool.sim.cpp:"));

    // A copy of several blocks: the one that both accesses touch is named.
    cuota::stream const other;
    std::size_t const before = simulator::race_reports().size();
    auto* const first = std::min(static_cast<std::byte*>(large), static_cast<std::byte*>(small));
    auto* const last =
        std::max(static_cast<std::byte*>(large) + 5_MiB, static_cast<std::byte*>(small) + 1000);
    REQUIRE(cudaMemsetAsync(small, 1, 1000, s.get()) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(first, 2, static_cast<std::size_t>(last - first), other.get()) == cudaSuccess);
    s.synchronize();
    other.synchronize();
    REQUIRE(simulator::race_reports().size() == before + 1);
    CHECK(has(simulator::race_reports().back(), ", in block \"small\", 1000 bytes at "));

    pool.deallocate(s, small, 1000);
    void* const again = pool.allocate(s, 600, "again");
    REQUIRE(again == small);
    auto const reused = race_on(again, 10);
    CHECK(has(reused, ", in block \"again\", 600 bytes at "));
    CHECK(!has(reused, "small"));
    pool.deallocate(s, again, 600);
    pool.deallocate(s, large, 5_MiB);
    {
        auto frame = pool.frame();
        CHECK(has(race_on(frame.allocate(s, 300, "framed"), 300), ", in block \"framed\", 300 bytes at "));
    }
    cuota::step_plan plan{pool};
    auto memory = plan.resource();
    for (int step = 0; step != 2; ++step) {
        auto const running = plan.begin();
        void* const planned = memory.allocate(s, 2000, 256, {"planned", cuota::source_location::current()});
        CHECK(has(race_on(planned, 20), ", in block \"planned\", 2000 bytes at "));
        memory.deallocate(s, planned, 2000);
    }
}
