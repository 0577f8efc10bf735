// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/frame.hpp>

#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<cuota::frame> && !std::is_move_constructible_v<cuota::frame>);
static_assert(std::is_convertible_v<cuota::frame&, cuota::any_resource>);

namespace {

std::byte* bytes_at(void* p) { return static_cast<std::byte*>(p); }

}  // namespace

TEST_CASE("a frame behaves as a resource", "[pool][frame][resource]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 256_MiB};
    {
        cuota::scoped_pool pool{budget};
        auto frame = pool.frame();
        support::behaves_as_a_resource(frame.resource());
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("allocations in a frame are adjacent and are freed when it is destroyed", "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    {
        auto frame = pool.frame();
        auto* const first = bytes_at(frame.allocate(s, 1000));
        CHECK(frame.allocate(s, 500) == first + 1024);
        CHECK(frame.allocate(s, 3, 4) == first + 1024 + 500);
        CHECK(frame.allocate(s, 24, 8) == first + 1024 + 504);
        CHECK(frame.allocate(s, 1) == first + 1024 + 768);
        CHECK(pool.stats().live_blocks == 1);
        support::write_words(s, first, 1000, 7);
        CHECK(support::all_are(support::words(s, first, 1000), 7));
    }
    CHECK(pool.stats().live_blocks == 0);
    CHECK(pool.largest_free() == 8_MiB);
    CHECK(errors.take().empty());
}

TEST_CASE("the last block of a frame can be allocated again together with blocks freed before it",
          "[pool][frame]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    auto frame = pool.frame();
    void* const first = frame.allocate(s, 256);
    void* const second = frame.allocate(s, 256);
    void* const third = frame.allocate(s, 256);
    frame.deallocate(s, second, 256);
    CHECK(frame.allocate(s, 256) == bytes_at(third) + 256);
    frame.deallocate(s, bytes_at(third) + 256, 256);
    frame.deallocate(s, third, 256);
    CHECK(frame.allocate(s, 512) == second);
    CHECK(first != second);
}

TEST_CASE("a frame allocates few chunks, and at most a 16th of its pool in advance", "[pool][frame]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 32_MiB}};
    auto frame = pool.frame();
    std::size_t requested = 0;
    for (int i = 0; i != 10'000; ++i) {
        (void)frame.allocate(s, 1024);
        requested += 1024;
        REQUIRE(pool.stats().allocated <= std::max(2 * requested, requested + 64_KiB));
        REQUIRE(pool.stats().allocated <= requested + 2_MiB);
    }
    CHECK(pool.stats().live_blocks < 20);
    CHECK(pool.stats().reserved == 32_MiB);
}

TEST_CASE("a frame allocates no more than the request from its upstream", "[pool][frame]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 1_MiB};
    cuota::scoped_pool pool{budget};
    auto frame = pool.frame();
    (void)frame.allocate(s, 100'000);
    CHECK(budget.held() == cuota::round_up(100'000, 512));
    (void)frame.allocate(s, 1_MiB - budget.held());
    CHECK(budget.held() == 1_MiB);

    auto const refused = thrown<cuota::budget_exceeded>([&] {
        (void)frame.allocate(s, 1000, 256, "rows", {"train.cpp", 9});
    });
    CHECK(refused.info().requested == 1000);
    CHECK(has(refused.what(), "train.cpp:9"));
}

TEST_CASE("nested frames are independent: the outer frame can be used while the inner one is open",
          "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 8_MiB}};
    auto outer = pool.frame();
    void* const before = outer.allocate(s, 4096);
    void* between = nullptr;
    support::write_words(s, before, 4096, 1);
    {
        auto inner = outer.nested();
        void* const own = inner.allocate(s, 4096);
        between = outer.allocate(s, 4096);
        support::write_words(s, own, 4096, 2);
        support::write_words(s, between, 4096, 3);
        CHECK(pool.stats().live_blocks == 2);
        CHECK(support::all_are(support::words(s, own, 4096), 2));
    }
    CHECK(pool.stats().live_blocks == 1);
    void* const after = outer.allocate(s, 4096);
    support::write_words(s, after, 4096, 4);
    CHECK(support::all_are(support::words(s, before, 4096), 1));
    CHECK(support::all_are(support::words(s, between, 4096), 3));
    CHECK(errors.take().empty());
}

TEST_CASE("a buffer that outlives its frame is reported and keeps its memory", "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget, {.name = "main"}};
    std::optional<cuota::device_buffer<support::word>> late;
    void* raw = nullptr;
    {
        auto frame = pool.frame({"train.cpp", 20});
        late = cuota::device_buffer<support::word>{25'000, s, frame, cuota::no_init, "activations"};
        cuota::device_buffer<support::word> const in_time{1000, s, frame, cuota::no_init};
        raw = frame.allocate(s, 1000);
        late->copy_from(std::vector<support::word>(25'000, 7), s);
    }
    auto texts = errors.take();
    REQUIRE(texts.size() == 1);
    CHECK(has(texts[0],
              "frame of pool main destroyed while 1 allocation is still alive: activations 97.7 KiB "
              "(frame.cpp:"));
    CHECK(has(texts[0], "(train.cpp:20)"));

    CHECK(pool.stats().live_blocks == 1);
    void* const other = pool.allocate(s, 100'000);
    support::write_words(s, other, 100'000, 8);
    std::vector<support::word> seen(25'000);
    late->copy_to(seen, s);
    s.synchronize();
    CHECK(support::all_are(seen, 7));
    pool.deallocate(s, other, 100'000);
    auto memory = cuota::any_resource{pool.frame()};
    texts = errors.take();
    CHECK(texts.empty());
    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)memory.allocate(s, 1, 256, {{}, {"late.cpp", 3}});
              }).what(),
              "allocation after its destruction (late.cpp:3)"));
    late.reset();
    CHECK(pool.stats().live_blocks == 0);
    CHECK(raw != nullptr);
    CHECK(errors.take().empty());
}

TEST_CASE("blocks that are never freed are freed when the last handle on their frame is destroyed",
          "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::scoped_pool pool{budget};
    {
        auto frame = pool.frame();
        (void)frame.resource().allocate(s, 1_MiB, 256, {"lost", {"a.cpp", 1}});
    }
    CHECK(errors.take().size() == 1);
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("invalid frees in a frame are reported with both call sites and change nothing", "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.name = "main", .initial_size = 8_MiB}};
    auto frame = pool.frame({"train.cpp", 20});
    void* const p = frame.allocate(s, 1000, 256, "rows", {"train.cpp", 21});
    void* const top = frame.allocate(s, 1000);
    auto const report_of = [&](void* at, std::size_t bytes) {
        frame.deallocate(s, at, bytes, {"train.cpp", 30});
        auto const texts = errors.take();
        REQUIRE(texts.size() == 1);
        return texts[0];
    };

    std::string text = report_of(p, 999);
    CHECK(has(text, "frame (train.cpp:20) of pool main: deallocate with the wrong size: 999 B of rows 1000 "
                    "B (train.cpp:21) "
                    "(train.cpp:30)"));
    int on_host = 0;
    CHECK(has(report_of(&on_host, 4), "deallocate of a pointer that it did not allocate (train.cpp:30)"));
    CHECK(has(report_of(bytes_at(p) + 4, 996), "unknown pointer"));
    frame.deallocate(s, p, 1000);
    CHECK(errors.take().empty());
    CHECK(has(report_of(p, 1000), "double free: rows 1000 B (train.cpp:21) (train.cpp:30)"));
    frame.deallocate(s, top, 1000);
    CHECK(has(report_of(top, 1000), "unknown pointer"));
    frame.deallocate(s, nullptr, 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a frame refuses invalid requests with usage_error or out_of_memory, and stays usable",
          "[pool][frame]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 1_MiB}};
    auto frame = pool.frame();
    CHECK(frame.allocate(s, 0) == nullptr);
    CHECK_THROWS_AS(frame.allocate(s, 1, 3), cuota::usage_error);
    CHECK_THROWS_AS(frame.allocate(s, 1, std::size_t{1} << 40), cuota::usage_error);
    CHECK_THROWS_AS(frame.allocate(s, cuota::unlimited), cuota::out_of_memory);
    CHECK_THROWS_AS(frame.allocate(s, cuota::unlimited - 100), cuota::out_of_memory);
    CHECK(pool.stats().live_blocks == 0);
    CHECK(frame.allocate(s, 100) != nullptr);
}

TEST_CASE("a frame may be destroyed after its pool", "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const s;
    cuota::budget budget{"trainer", 64_MiB};
    std::optional<cuota::scoped_pool> pool{std::in_place, budget};
    {
        auto frame = pool->frame({"train.cpp", 20});
        (void)frame.allocate(s, 1000, 256, "rows", {"train.cpp", 21});
        pool.reset();
        auto const texts = errors.take();
        REQUIRE(texts.size() == 1);
        CHECK(has(texts[0], "rows 1000 B (train.cpp:21)"));
        CHECK_THROWS_AS(frame.allocate(s, 1_MiB), cuota::usage_error);
    }
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a free on another stream succeeds when the host has no memory to record that stream",
          "[pool][frame]") {
    support::captured_errors errors;
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 16_MiB}};
    {
        auto frame = pool.frame();
        auto memory = frame.resource();
        void* const p = memory.allocate(a, 1000);
        std::size_t refused = 0;
        {
            support::failing_heap const heap{0};
            memory.deallocate(b, p, 1000);
            refused = heap.refused();
        }
        CHECK(refused != 0);
    }
    CHECK(errors.take().empty());
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("threads may allocate from one frame at the same time", "[pool][frame][threads]") {
    cuota::scoped_pool pool{cuota::budget{"trainer", 64_MiB}, {.initial_size = 16_MiB}};
    std::vector<cuota::stream> streams(4);
    std::vector<char> right(4, 0);
    {
        auto frame = pool.frame();
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t != 4; ++t)
            threads.emplace_back([&, t] {
                std::vector<void*> blocks;
                for (int i = 0; i != 50; ++i) {
                    blocks.push_back(frame.allocate(streams[t], 1024));
                    support::write_words(streams[t], blocks.back(), 1024, support::word(t * 100) + 1);
                    if (i % 5 == 4) frame.deallocate(streams[t], blocks[std::size_t(i) / 5], 1024);
                }
                right[t] = support::all_are(support::words(streams[t], blocks.back(), 1024),
                                            support::word(t * 100) + 1);
            });
        for (std::thread& t : threads) t.join();
    }
    CHECK(right == std::vector<char>(4, 1));
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a frame provides alignments up to 2 MiB", "[pool][frame]") {
    cuota::stream const s;
    cuota::budget budget{"trainer", 256_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 64_MiB}};
    cuota::frame frame = pool.frame();
    for (int round = 0; round != 2; ++round)
        for (std::size_t alignment = 1; alignment <= 2_MiB; alignment *= 2) {
            void* const p = frame.allocate(s, 100, alignment);
            CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
        }
    CHECK_THROWS_AS(frame.allocate(s, 100, 4_MiB), cuota::usage_error);
    CHECK_THROWS_AS(frame.allocate(s, 100, 3), cuota::usage_error);
    CHECK(pool.stats().reserved == budget.held());
}
