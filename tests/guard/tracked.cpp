// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/tracked.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/this_program.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::dry_run_memory;
using cuota::tracked;
using cuota::tracked_order;

// Its memory kind is its upstream's, as far as the type determines it.
static_assert(cuota::device_accessible_resource<tracked<>> && !cuota::host_accessible_resource<tracked<>>);
static_assert(cuota::host_accessible_resource<tracked<cuota::pinned_memory>> &&
              !cuota::device_accessible_resource<tracked<cuota::pinned_memory>>);
static_assert(cuota::host_accessible_resource<tracked<cuota::any_resource>> &&
              cuota::device_accessible_resource<tracked<cuota::any_resource>>);
static_assert(sizeof(tracked<cuota::any_resource>) == sizeof(void*));
static_assert(!std::is_copy_constructible_v<cuota::growth_check>);

namespace {

cuota::label as(cuota::tag name, unsigned line = 1) { return {name, {"train.cpp", line}}; }
using texts = std::vector<std::string>;

// Throws for 13 bytes and returns null for 14.
struct fussy {
    void* allocate(cuota::stream_ref, std::size_t n, std::size_t a) { return allocate_sync(n, a); }
    void deallocate(cuota::stream_ref, void* p, std::size_t n, std::size_t a) noexcept {
        deallocate_sync(p, n, a);
    }
    void* allocate_sync(std::size_t n, std::size_t) {
        if (n == 13) throw std::runtime_error{"not thirteen"};
        return n == 14 ? nullptr : ::operator new(n);
    }
    void deallocate_sync(void* p, std::size_t, std::size_t) noexcept { ::operator delete(p); }
    std::size_t granularity() const { return 64; }
    cuota::memory_kind kind() const { return cuota::memory_kind::pinned; }
    bool operator==(fussy const&) const = default;
};

}  // namespace

TEST_CASE("tracked behaves as a resource", "[guard][tracked]") {
    SECTION("of device memory") { support::behaves_as_a_resource(tracked<>{}); }
    SECTION("of async memory") { support::behaves_as_a_resource(tracked<cuota::async_memory>{}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(tracked<cuota::managed_memory>{}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(tracked<cuota::pinned_memory>{}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(tracked{cuota::any_resource{cuota::device_memory{}}});
    }
    SECTION("as any resource") { support::behaves_as_a_resource(cuota::any_resource{tracked<>{}}); }
    SECTION("of tracked memory") { support::behaves_as_a_resource(tracked<tracked<>>{tracked<>{}}); }
    SECTION("under a budget") {
        support::behaves_as_a_resource(cuota::budgeted{budget{"b", 1_GiB}, tracked<>{}});
    }
    SECTION("over a pool") {
        cuota::scoped_pool pool{budget{"b", 1_GiB}};
        support::behaves_as_a_resource(tracked{pool.resource()});
    }
}

TEST_CASE("tracked lists tag, call site, stream, size and age of live allocations", "[guard][tracked]") {
    cuota::stream const s;
    tracked memory{dry_run_memory{}};
    CHECK(memory.live().is_empty());
    CHECK(memory.leaks().empty());
    void* const a = memory.allocate(s, 1000, 256, as("weights", 7));
    void* const b = memory.allocate_sync(5000, 256, as("ids", 8));
    memory.deallocate_sync(memory.allocate_sync(1), 1);

    cuota::tracked_report const seen = memory.live();
    REQUIRE(seen.count() == 2);
    CHECK(seen.bytes == 6000);
    CHECK(seen.blocks[0].at == a);
    CHECK(seen.blocks[0].name == cuota::tag{"weights"});
    CHECK(seen.blocks[0].where.line == 7);
    CHECK(seen.blocks[0].stream == s.id());
    CHECK(seen.blocks[0].bytes == 1000);
    CHECK(seen.blocks[0].number == 1);
    CHECK(seen.blocks[0].age == 2);
    CHECK(!seen.blocks[1].stream);
    CHECK(seen.blocks[1].age == 1);
    CHECK(memory.live(tracked_order::largest).blocks[0].at == b);
    CHECK(seen.tags[0].name == cuota::tag{"ids"});
    CHECK(memory.leaks() == "2 allocations are still alive: ids 4.9 KiB (train.cpp:8), "
                            "weights 1000 B (train.cpp:7)");
    memory.deallocate(s, a, 1000);
    memory.deallocate_sync(b, 5000);
    CHECK(memory.live().is_empty());
}

TEST_CASE("0 bytes are not tracked", "[guard][tracked]") {
    tracked memory{dry_run_memory{}};
    CHECK(memory.allocate_sync(0) == nullptr);
    CHECK(memory.live().is_empty());
    memory.deallocate_sync(nullptr, 0);
}

TEST_CASE("a diff lists blocks that were allocated since and are live, and blocks that were freed",
          "[guard][tracked]") {
    tracked memory{dry_run_memory{}};
    void* const old = memory.allocate_sync(100, 256, as("old"));
    void* const stays = memory.allocate_sync(200, 256, as("stays"));
    auto const before = memory.snapshot();
    CHECK(before.live().count() == 2);
    CHECK(memory.diff(before).is_empty());

    memory.deallocate_sync(old, 100);
    void* const fresh = memory.allocate_sync(300, 256, as("new"));  // possibly at the old block's address
    memory.deallocate_sync(memory.allocate_sync(400), 400);
    auto const changed = memory.diff(before);
    REQUIRE(changed.allocated.count() == 1);
    CHECK(changed.allocated.blocks[0].name == cuota::tag{"new"});
    REQUIRE(changed.freed.count() == 1);
    CHECK(changed.freed.blocks[0].name == cuota::tag{"old"});
    CHECK(memory.diff(memory.snapshot()).is_empty());

    tracked other{dry_run_memory{}};
    CHECK_THROWS_AS(other.diff(before), cuota::usage_error);
    memory.deallocate_sync(stays, 200);
    memory.deallocate_sync(fresh, 300);
    CHECK(memory.diff(before).freed.count() == 2);
}

TEST_CASE("a step that leaks is reported with the names of its blocks", "[guard][tracked]") {
    support::captured_errors errors;
    tracked memory{dry_run_memory{}, "trainer"};
    void* const weights = memory.allocate_sync(1000, 256, as("weights"));
    void* left = nullptr;
    {
        auto const check = memory.expect_no_growth("step", {"loop.cpp", 3});
        memory.deallocate_sync(memory.allocate_sync(100, 256, as("batch")), 100);
        left = memory.allocate_sync(300, 256, as("loss", 9));
    }
    CHECK(errors.take() == texts{"cuota::usage_error: step of tracked memory trainer ended with more memory "
                                 "in use: 1 allocation is "
                                 "still alive: loss 300 B (train.cpp:9) (loop.cpp:3)"});
    auto const check = memory.expect_no_growth();
    memory.deallocate_sync(left, 300);
    memory.deallocate_sync(weights, 1000);
}

TEST_CASE("a block that replaces one of its tag is not growth, unless it is larger", "[guard][tracked]") {
    support::captured_errors errors;
    tracked memory{dry_run_memory{}, "trainer"};
    void* weights = memory.allocate_sync(1000, 256, as("weights"));
    void* nameless = memory.allocate_sync(1000, 256, as({}, 4));
    {
        auto const check = memory.expect_no_growth("step");
        void* const next = memory.allocate_sync(1000, 256, as("weights", 2));
        memory.deallocate_sync(std::exchange(weights, next), 1000);
        memory.deallocate_sync(nameless, 1000);
        nameless = memory.allocate_sync(1000, 256, as({}, 4));
    }
    CHECK(errors.take().empty());
    {
        auto const check = memory.expect_no_growth("step");
        memory.deallocate_sync(weights, 1000);
        weights = memory.allocate_sync(1001, 256, as("weights", 5));
        memory.deallocate_sync(nameless, 1000);  // does not offset growth, not even of another untagged block
        nameless = memory.allocate_sync(900, 256, as({}, 6));
    }
    auto const told = errors.take();
    REQUIRE(told.size() == 1);
    CHECK(support::has(told[0], "2 allocations are still alive: weights 1001 B (train.cpp:5), untagged 900 B "
                                "(train.cpp:6)"));
    memory.deallocate_sync(weights, 1001);
    memory.deallocate_sync(nameless, 900);
}

TEST_CASE("close of a growth check throws, and its destructor does not report again", "[guard][tracked]") {
    support::captured_errors errors;
    tracked memory{dry_run_memory{}, "trainer"};
    void* left = nullptr;
    {
        auto check = memory.expect_no_growth();
        auto inner = memory.expect_no_growth("inner");
        inner.close();
        left = memory.allocate_sync(300, 256, as("loss", 9));
        auto const grew = support::thrown<cuota::usage_error>([&] { check.close(); });
        CHECK(support::has(
            grew.what(), "a step of tracked memory trainer ended with more memory in use: 1 allocation is"));
        CHECK(grew.where().line != 0);
    }
    CHECK(errors.count() == 0);
    memory.deallocate_sync(left, 300);
}

TEST_CASE("a wrong size, a double free and a foreign pointer are reported with the block",
          "[guard][tracked]") {
    support::captured_errors errors;
    tracked memory{fussy{}, "x"};
    void* const p = memory.allocate_sync(100, 16, as("weights", 4));
    memory.deallocate_sync(p, 99);
    memory.deallocate(cudaStreamPerThread, static_cast<char*>(p) + 8, 100);
    CHECK(
        errors.take() ==
        texts{
            "cuota::usage_error: tracked memory x: deallocate with the wrong size: 99 bytes, allocated 100: "
            "weights 100 B (train.cpp:4)",
            "cuota::usage_error: tracked memory x: deallocate of an interior pointer, 8 bytes inside "
            "weights 100 B (train.cpp:4)"});
    CHECK(memory.live().bytes == 100);
    memory.deallocate_sync(p, 100);
    memory.deallocate_sync(p, 100);
    CHECK(errors.take() ==
          texts{"cuota::usage_error: tracked memory x: double free: weights 100 B (train.cpp:4)"});
    int none = 0;
    memory.deallocate_sync(&none, sizeof none);
    CHECK(errors.take().size() == 1);
}

TEST_CASE("requests that upstream refused are not tracked", "[guard][tracked]") {
    tracked memory{fussy{}};
    CHECK_THROWS_AS(memory.allocate_sync(13), std::runtime_error);
    CHECK_THROWS_AS(memory.allocate(cudaStreamPerThread, 13), std::runtime_error);
    CHECK(memory.allocate_sync(14) == nullptr);
    CHECK(memory.live().is_empty());
}

TEST_CASE("without host memory, tracked refuses before it calls upstream, and can free all blocks",
          "[guard][tracked]") {
    support::captured_errors errors;
    tracked memory{dry_run_memory{}};
    std::vector<std::pair<void*, std::size_t>> blocks;
    blocks.reserve(200);
    std::size_t refusals = 0;
    {
        support::failing_heap const none{0};
        try {
            (void)memory.allocate_sync(1);
        } catch (std::bad_alloc const&) { ++refusals; }
    }
    for (std::size_t i = 0; i != 48; ++i) blocks.emplace_back(memory.allocate_sync(i + 1), i + 1);
    {
        support::failing_heap const none{0};
        try {
            (void)memory.allocate_sync(1);  // the table is full
        } catch (std::bad_alloc const&) { ++refusals; }
        for (auto const& [p, bytes] : blocks) memory.deallocate_sync(p, bytes);
    }
    CHECK(refusals == 2);
    CHECK(memory.live().is_empty());
    CHECK(errors.count() == 0);
}

TEST_CASE("tracked refuses to close while allocations are live, and to allocate after it",
          "[guard][tracked]") {
    tracked memory{dry_run_memory{}, "trainer"};
    void* const p = memory.allocate_sync(100, 256, as("weights"));
    auto const alive = support::thrown<cuota::usage_error>([&] { memory.close(); });
    CHECK(
        support::has(alive.what(), "tracked memory trainer: cannot close while 1 allocation is still alive"));
    memory.deallocate_sync(memory.allocate_sync(1), 1);
    memory.deallocate_sync(p, 100);
    memory.close();
    CHECK_THROWS_AS(memory.allocate_sync(1), cuota::usage_error);
    CHECK(memory.allocate_sync(0) == nullptr);
}

TEST_CASE("live allocations are reported when the last copy is destroyed", "[guard][tracked]") {
    support::captured_errors errors;
    std::optional<tracked<dry_run_memory>> memory{std::in_place, dry_run_memory{}, cuota::tag{"trainer"}};
    (void)memory->allocate_sync(100, 256, as("weights", 3));
    std::optional copy{*memory};
    memory.reset();
    CHECK(errors.count() == 0);
    copy.reset();
    CHECK(errors.take() ==
          texts{"cuota::usage_error: tracked memory trainer destroyed while 1 allocation is still alive: "
                "weights 100 B (train.cpp:3)"});
}

TEST_CASE("a buffer keeps its tracked memory alive and is listed with its own call site",
          "[guard][tracked]") {
    cuota::stream const s;
    std::optional<tracked<>> memory{std::in_place};
    tracked<> const look{*memory};
    std::optional<cuota::device_buffer<float>> buffer;
    buffer.emplace(std::size_t{100}, s, *memory, cuota::tag{"weights"});
    memory.reset();
    REQUIRE(look.live().count() == 1);
    CHECK(look.live().blocks[0].name == cuota::tag{"weights"});
    CHECK(look.live().blocks[0].bytes == 400);
    CHECK(look.live().blocks[0].where.line != 0);
    buffer.reset();
    CHECK(look.live().is_empty());
}

TEST_CASE("tracked below a pool lists its segments, and above a pool the users' blocks", "[guard][tracked]") {
    cuota::stream const s;
    tracked below{cuota::device_memory{}};
    {
        cuota::scoped_pool pool{cuota::any_resource{below}};
        tracked above{pool.resource()};
        void* const p = above.allocate(s, 1000);
        CHECK(above.live().bytes == 1000);
        CHECK(below.live().bytes >= 1000);
        above.deallocate(s, p, 1000);
        CHECK(above.live().is_empty());
        CHECK(!below.live().is_empty());
    }
    CHECK(below.live().is_empty());
}

// Run by the next test in a process of its own.
TEST_CASE("a program that does not destroy an owner", "[.][tracked-at-exit]") {
    static auto& forgotten = *new tracked{dry_run_memory{}, "forgotten"};
    (void)forgotten.allocate_sync(100, 256, as("weights", 3));
    static tracked static_memory{dry_run_memory{}, cuota::tag::named("sta" + std::string{"tic"})};
    (void)static_memory.allocate_sync(200, 256, as(cuota::tag::named("ids " + std::to_string(4)), 5));
    static auto& without_blocks = *new tracked{dry_run_memory{}, "empty"};
    (void)without_blocks;
}

TEST_CASE("live allocations are reported at program exit, even if their owner is never destroyed",
          "[guard][tracked]") {
    auto* const pipe = popen((support::this_program() + " '[tracked-at-exit]' 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    char line[512];
    while (std::fgets(line, sizeof line, pipe)) text += line;
    int const status = pclose(pipe);
    INFO(text);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(support::has(text,
                       "tracked memory forgotten: not destroyed at program exit while 1 allocation is still "
                       "alive: weights 100 B (train.cpp:3)\n"));
    CHECK(support::has(text, "tracked memory static destroyed while 1 allocation is still alive: ids 4 200 B "
                             "(train.cpp:5)\n"));
    CHECK(!support::has(text, "empty"));
}
