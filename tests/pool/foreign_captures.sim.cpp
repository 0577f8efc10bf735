// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Pools beside foreign captures: no capture is invalidated, and memory that its graph uses is not reused.
#include <cuota/pool/detail/blocks/captured_blocks.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/foreign_capture.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::foreign_capture;
using support::has;
using support::native_stream;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t much = 3_MiB;

/// Returns the size of the part of a block that tests write: all of it, or less where long tests take fewer rounds.
std::size_t written(std::size_t bytes) {
    return support::rounds(bytes / sizeof(unsigned)) * sizeof(unsigned);
}

struct scene {
    explicit scene(cuota::pool_growth growth = cuota::pool_growth::automatic, std::size_t limit = 64_MiB)
        : account{"test", limit}, pool{account, {.growth = growth}} {}
    native_stream const captured{};
    native_stream const native{};
    cuota::stream const owned{};
    cuota::budget account;
    cuota::scoped_pool pool;
};

void use(cuota::scoped_pool& pool, cuota::stream_ref s, std::size_t bytes) {
    void* const p = pool.allocate(s, bytes);
    support::write_words(s, p, written(bytes), 1);
    pool.deallocate(s, p, bytes);
}

void on_a_thread(bool is_another, auto work) {
    if (is_another) std::thread{work}.join();
    else work();
}

}  // namespace

TEST_CASE("a pool serves a stream in a foreign capture of any mode, and the graph keeps the memory",
          "[pool][foreign_capture]") {
    support::machine const machine;
    auto const mode =
        GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
    auto const growth = GENERATE(cuota::pool_growth::automatic, cuota::pool_growth::segments);
    bool const is_another = GENERATE(false, true);
    scene on{growth};
    use(on.pool, on.native, much);
    use(on.pool, on.owned, much);
    use(on.pool, on.captured, much);
    simulator::set_capture_checks(simulator::capture_checks::every_slow_call);
    foreign_capture capture{on.captured, mode};
    std::vector<void*> taken;
    on_a_thread(is_another, [&] {
        for (int i = 0; i != 5; ++i) taken.push_back(on.pool.allocate(on.captured.ref(), much));
    });
    for (void* const p : taken) support::write_words(on.captured.ref(), p, written(much), 7);
    CHECK(capture.is_intact());
    simulator::set_capture_checks(simulator::capture_checks::named);
    {
        auto const graph = capture.end();
        void* const other = on.pool.allocate(on.owned, much);
        CHECK(std::ranges::find(taken, other) == taken.end());
        support::write_words(on.owned, other, written(much), 9);
        graph.launch(on.native);
        for (void* const p : taken)
            CHECK(support::all_are(support::words(on.native.ref(), p, written(much)), 7));
        CHECK(support::all_are(support::words(on.owned, other, written(much)), 9));
        on.pool.deallocate(on.owned, other, much);
    }
    for (void* const p : taken) on.pool.deallocate(on.captured.ref(), p, much);
    on.pool.close();
    CHECK(on.account.held() == 0);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("the host waits for the earlier use of a block that is allocated in a foreign capture",
          "[pool][foreign_capture]") {
    support::machine const machine;
    bool const was_its_own = GENERATE(false, true);
    scene on{cuota::pool_growth::segments, 4_MiB};  // room for one block
    cuota::stream_ref const before = was_its_own ? on.captured.ref() : cuota::stream_ref{on.owned};
    use(on.pool, before, much);
    foreign_capture capture{on.captured};
    void* const p = on.pool.allocate(on.captured.ref(), much);
    support::write_words(on.captured.ref(), p, written(much), 2);
    {
        auto const graph = capture.end();
        graph.launch(on.native);  // ordered after the earlier use by the host only
        CHECK(cudaStreamSynchronize(on.native) == cudaSuccess);
    }
    on.pool.deallocate(on.native.ref(), p, much);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("a block that is freed in a foreign capture serves only that capture until its graphs are released",
          "[pool][foreign_capture]") {
    support::machine const machine;
    scene on;
    cuota::stream_ref const s = on.captured;
    void* const before = on.pool.allocate(s, 2 * much);
    foreign_capture capture{on.captured};
    void* const p = on.pool.allocate(s, much);
    support::write_words(s, p, written(much), 7);
    on.pool.deallocate(s, p, much);
    CHECK(on.pool.allocate(s, much) == p);
    on.pool.deallocate(s, p, much);
    support::write_words(s, before, written(2 * much), 8);
    on.pool.deallocate(s, before, 2 * much);
    std::optional<support::native_graph> graph{std::in_place, capture.end_captured()};
    CHECK(on.pool.stats().live_blocks == 2);

    foreign_capture again{on.captured};
    void* const of_another = on.pool.allocate(s, much);
    CHECK(of_another != p);
    on.pool.deallocate(s, of_another, much);
    graph.emplace(again.end_captured());

    std::vector<void*> others;
    for (int i = 0; i != 8; ++i) others.push_back(on.pool.allocate(on.owned, much));
    CHECK(std::ranges::find(others, p) == others.end());
    CHECK(std::ranges::find(others, before) == others.end());
    CHECK(on.pool.trim() == 0);
    for (void* const q : others) on.pool.deallocate(on.owned, q, much);

    graph.reset();
    CHECK(on.pool.stats().live_blocks == 3);
    CHECK(on.pool.release_foreign_graphs() == 4 * much);
    CHECK(on.pool.release_foreign_graphs() == 0);
    CHECK(on.pool.stats().live_blocks == 0);
    on.owned.synchronize();
    on.pool.close();
    CHECK(on.account.held() == 0);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a pool that foreign graphs use can be destroyed, and close reports other live blocks only",
          "[pool][foreign_capture]") {
    support::machine const machine;
    bool const is_closed = GENERATE(false, true);
    cuota::budget const account{"test", 64_MiB};
    {
        native_stream const captured;
        cuota::scoped_pool pool{account};
        void* const alive = pool.allocate(captured.ref(), 64);
        foreign_capture capture{captured};
        use(pool, captured, much);
        (void)capture.end();
        CHECK_THROWS_AS(pool.close(), cuota::usage_error);
        CHECK(pool.stats().live_blocks == 2);
        pool.deallocate(captured.ref(), alive, 64);
        if (is_closed) pool.close();
    }
    CHECK(account.held() == 0);
}

TEST_CASE("blocks freed on an owned stream in a foreign capture wait for its end, and other blocks serve",
          "[pool][foreign_capture]") {
    support::machine machine;
    scene on{cuota::pool_growth::segments};
    void* const p = on.pool.allocate(on.owned, much);
    support::write_words(on.owned, p, written(much), 1);
    on.pool.deallocate(on.owned, p, much);  // makes no CUDA call, so no event marks the end of the kernel
    cuota::stream const other;
    foreign_capture capture{on.owned.get()};
    void* const q = on.pool.allocate(other, much);
    CHECK(q != p);
    void* const kept = on.pool.persistent().allocate(other, much);
    CHECK(kept != p);
    CHECK(on.pool.stats().reserved >= 3 * much);
    (void)on.pool.trim();
    CHECK(machine.errors.take().size() == 1);  // the free block there cannot be waited for during the capture
    CHECK(capture.is_intact());
    (void)capture.end();
    void* const again = on.pool.allocate(other, much);
    CHECK(again == p);
    support::write_words(other, again, written(much), 2);
    on.pool.deallocate(other, q, much);
    on.pool.persistent().deallocate(other, kept, much);
    on.pool.deallocate(other, again, much);
    on.pool.close();
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("an owned stream in a foreign capture reuses blocks of other streams after a wait of the host",
          "[pool][foreign_capture]") {
    support::machine const machine;
    scene on{cuota::pool_growth::segments, 4_MiB};
    use(on.pool, on.native, much);
    foreign_capture capture{on.owned.get()};
    void* const p = on.pool.allocate(on.owned, much);
    CHECK(capture.is_intact());
    support::write_words(on.owned, p, written(much), 2);
    capture.end().launch(on.owned.get());
    on.pool.deallocate(on.owned, p, much);
    on.owned.synchronize();
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("threads allocate from a pool, trim it and make it grow while another thread captures",
          "[pool][foreign_capture]") {
    support::machine const machine;
    scene on;
    simulator::set_capture_checks(simulator::capture_checks::every_slow_call);
    std::atomic<bool> is_over = false;
    int const captures = std::max(2, support::rounds(5));
    std::atomic<int> rounds = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            cuota::stream const mine;
            cuota::stream const other;
            while (!is_over || rounds < 4 * captures) {
                use(on.pool, mine, much);
                use(on.pool, other, 2 * much);
                use(on.pool, cuota::stream_ref{mine.get()}, much);
                (void)on.pool.stats();
                (void)on.pool.trim();
                ++rounds;
            }
        });
    for (int i = 0; i != captures; ++i) {
        foreign_capture capture{on.captured};
        for (int const now = rounds; rounds < now + 4;) std::this_thread::yield();
        use(on.pool, on.captured, much);
        for (int const now = rounds; rounds < now + 4;) std::this_thread::yield();
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    is_over = true;
    for (std::thread& t : threads) t.join();
    simulator::set_capture_checks(simulator::capture_checks::named);
    CHECK(simulator::misuse_reports().empty());
    CHECK(simulator::race_reports().empty());
}

TEST_CASE("memory of other resources that is freed in a foreign capture stays allocated and is reported",
          "[pool][foreign_capture]") {
    support::machine machine;
    native_stream const captured;
    cuota::stream_ref const s = captured;
    auto const keeps = [&](auto memory) {
        void* const p = memory.allocate(s, 4_KiB);
        auto const before = simulator::live().total();
        foreign_capture capture{captured};
        memory.deallocate(s, p, 4_KiB);
        CHECK(capture.is_intact());
        (void)capture.end();
        auto const errors = machine.errors.take();
        REQUIRE(errors.size() == 1);
        CHECK(has(errors.front(), "stays allocated, because the graph may use it"));
        CHECK(simulator::live().total() == before);
        memory.deallocate(s, p, 4_KiB);
    };
    keeps(cuota::device_memory{});
    keeps(cuota::managed_memory{});
    keeps(cuota::pinned_memory{});
    keeps(cuota::async_memory{});
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("steps and frames that would reuse memory are refused in a foreign capture",
          "[pool][foreign_capture]") {
    support::machine const machine;
    scene on;
    cuota::step_plan plan{on.pool.resource()};
    auto const step = [&](cuota::stream_ref s) {
        auto const open = plan.begin();
        void* const p = plan.resource().allocate(s, much);
        plan.resource().deallocate(s, p, much);
    };
    step(on.captured);
    step(on.captured);
    auto frame = on.pool.frame();
    foreign_capture capture{on.captured};
    CHECK(has(support::thrown<cuota::usage_error>([&] { step(on.captured); }).what(),
              "captured outside cuota::capture"));
    CHECK(
        has(support::thrown<cuota::usage_error>([&] { (void)frame.allocate(on.captured.ref(), 64); }).what(),
            "captured outside cuota::capture"));
    CHECK(capture.is_intact());
    (void)capture.end();
    step(on.captured);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("no CUDA failure in a foreign capture makes a pool reuse a block of its graph",
          "[pool][foreign_capture]") {
    support::machine machine;
    auto const program = [&] {
        scene on;
        cuota::stream_ref const s = on.captured;
        void* p = nullptr;
        {
            foreign_capture capture{on.captured, cudaStreamCaptureModeRelaxed};
            p = on.pool.allocate(s, much);
            on.pool.deallocate(s, p, much);
        }
        void* const other = on.pool.allocate(on.owned, much);
        bool const is_safe = other != p;
        on.pool.deallocate(on.owned, other, much);
        CHECK(is_safe);
    };
    for (char const* const call :
         {"cudaStreamGetCaptureInfo", "cudaThreadExchangeStreamCaptureMode", "cudaEventQuery", "cuMemMap"})
        for (std::uint64_t nth = 1; nth != 12; ++nth) {
            simulator::fail_call(call, nth, cudaErrorUnknown);
            try {
                program();
            } catch (cuota::cuda_error const&) {}
            simulator::clear_faults();
            (void)machine.errors.take();
        }
}
