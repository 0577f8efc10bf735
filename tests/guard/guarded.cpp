// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/guarded.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::guard_bytes_error;
using cuota::guarded;

// Its memory kind is its upstream's, as far as the type determines it.
static_assert(cuota::device_accessible_resource<guarded<>> && !cuota::host_accessible_resource<guarded<>>);
static_assert(cuota::host_accessible_resource<guarded<cuota::pinned_memory>> &&
              !cuota::device_accessible_resource<guarded<cuota::pinned_memory>>);
static_assert(sizeof(guarded<cuota::any_resource>) == sizeof(void*));

namespace {

cuota::label as(cuota::tag name, unsigned line = 1) { return {name, {"train.cpp", line}}; }

// Writes `count` bytes from `offset` on, which may be outside the block.
void write_at(cuota::stream_ref s, void* block, std::ptrdiff_t offset, std::size_t count, unsigned salt = 0) {
    cuota::for_each_index(s, count,
                          support::write_pattern{static_cast<unsigned char*>(block) + offset, salt});
}
std::vector<unsigned char> read(cuota::stream_ref s, void const* from, std::size_t count) {
    std::vector<unsigned char> host(count);
    cuota::rt::copy_anywhere(host.data(), from, count, s);
    s.synchronize();
    return host;
}
bool is_all(std::vector<unsigned char> const& bytes, unsigned char value) {
    return std::all_of(bytes.begin(), bytes.end(), [value](unsigned char b) { return b == value; });
}

}  // namespace

TEST_CASE("guarded behaves as a resource", "[guard][guarded]") {
    support::captured_errors errors;
    SECTION("of device memory") { support::behaves_as_a_resource(guarded<>{}); }
    SECTION("of async memory") { support::behaves_as_a_resource(guarded<cuota::async_memory>{}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(guarded<cuota::managed_memory>{}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(guarded<cuota::pinned_memory>{}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(guarded{cuota::any_resource{cuota::device_memory{}}});
    }
    SECTION("with small guard bytes and no poison") {
        support::behaves_as_a_resource(guarded{cuota::async_memory{}, {.redzone_bytes = 1, .poison = false}});
    }
    SECTION("of tracked memory, tracked") {
        support::behaves_as_a_resource(cuota::tracked{guarded{cuota::tracked<cuota::async_memory>{}}});
    }
    SECTION("over a pool") {
        cuota::scoped_pool pool{budget{"b", 1_GiB}};
        support::behaves_as_a_resource(guarded{pool.resource()});
    }
    SECTION("below a pool") {
        cuota::scoped_pool pool{cuota::any_resource{guarded<>{}}};
        support::behaves_as_a_resource(pool.resource());
    }
    CHECK(errors.take().empty());  // no write was out of bounds
}

TEST_CASE("writes inside of a block are not reported", "[guard][guarded]") {
    cuota::stream const s;
    guarded<cuota::async_memory> memory;
    for (std::size_t const bytes : {1U, 255U, 256U, 100'000U}) {
        void* const p = memory.allocate(s, bytes);
        write_at(s, p, 0, bytes);
        CHECK_NOTHROW(memory.verify(s));
        CHECK_NOTHROW(memory.verify(s, p));
        CHECK(support::has_pattern(read(s, p, bytes).data(), bytes, 0));
        memory.deallocate(s, p, bytes);
    }
    CHECK_NOTHROW(memory.close(s));
}

TEST_CASE("a write behind a block is found by verify, with its offset and its bytes",
          "[guard][guarded][gpu]") {
    support::captured_errors errors;
    cuota::stream const s;
    guarded memory{cuota::async_memory{}, {.name = "debug"}};
    void* const p = memory.allocate(s, 1001, 256, as("weights", 7));
    void* const other = memory.allocate(s, 64, 256, as("other"));
    write_at(s, p, 999, 6);
    auto const broken = support::thrown<guard_bytes_error>([&] { memory.verify(s); });
    REQUIRE(broken.violations().size() == 1);
    cuota::guard_violation const& d = broken.violations()[0];
    CHECK(d.name == cuota::tag{"weights"});
    CHECK(d.where.line == 7);
    CHECK(d.at == p);
    CHECK(d.bytes == 1001);
    CHECK(d.offset == 1001);
    CHECK(d.count == 4);
    CHECK(!d.found_on_free);
    CHECK(d.found.size() == 16);
    CHECK(d.found[0] == support::pattern_byte(2, 0));
    CHECK(d.found[3] == support::pattern_byte(5, 0));
    CHECK(support::has(broken.what(),
                       "guarded memory debug: weights 1001 B (train.cpp:7): 4 bytes written past its "
                       "end, from offset 1001: "));
    CHECK_NOTHROW(memory.verify(s, other));
    CHECK_THROWS_AS(memory.verify(s, p), guard_bytes_error);
    CHECK_THROWS_AS(memory.close(s), guard_bytes_error);
    memory.deallocate(s, p, 1001);
    memory.deallocate(s, other, 64);
    auto const again = support::thrown<guard_bytes_error>([&] { memory.verify(s); });
    REQUIRE(again.violations().size() == 1);
    CHECK(again.violations()[0].found_on_free);
    CHECK_NOTHROW(memory.verify(s));
    CHECK(errors.take().empty());
}

TEST_CASE("a write in front of a block has a negative offset", "[guard][guarded][gpu]") {
    cuota::stream const s;
    guarded<> memory;
    for (std::size_t const redzone_bytes : {1U, 16U, 256U, 1000U}) {
        guarded narrow{cuota::device_memory{}, {.redzone_bytes = redzone_bytes}};
        void* const p = narrow.allocate_sync(100);
        write_at(s, p, -1, 1);
        auto const broken = support::thrown<guard_bytes_error>([&] { narrow.verify(s); });
        CHECK(broken.violations().at(0).offset == -1);
        CHECK(broken.violations().at(0).count == 1);
        CHECK(broken.violations().at(0).found == std::vector<unsigned char>{support::pattern_byte(0, 0)});
        write_at(s, p, -static_cast<std::ptrdiff_t>(redzone_bytes), 1);
        write_at(s, p, 100 + static_cast<std::ptrdiff_t>(redzone_bytes) - 1, 1);
        auto const more = support::thrown<guard_bytes_error>([&] { narrow.verify(s); });
        CHECK(more.violations().at(0).offset == -static_cast<std::ptrdiff_t>(redzone_bytes));
        CHECK(more.violations().at(0).count == (redzone_bytes == 1 ? 2 : 3));
        s.synchronize();
        narrow.deallocate_sync(p, 100);
        CHECK_THROWS_AS(narrow.verify(s), guard_bytes_error);
    }
}

TEST_CASE("damage found by a free is reported by the next allocation", "[guard][guarded]") {
    support::captured_errors errors;
    cuota::stream const s;
    guarded<cuota::async_memory> memory;
    void* const p = memory.allocate(s, 100, 256, as("weights", 4));
    write_at(s, p, 100, 1, 5);
    memory.deallocate(s, p, 100);
    s.synchronize();
    CHECK(errors.count() == 0);
    memory.deallocate(s, memory.allocate(s, 8), 8);
    auto const told = errors.take();
    REQUIRE(told.size() == 1);
    CHECK(
        support::has(told[0], "weights 100 B (train.cpp:4): 1 byte written past its end, from offset 100: "));
    CHECK(support::has(told[0], "(found when it was freed)"));
    CHECK_NOTHROW(memory.verify(s));
}

TEST_CASE("damage that was not queried is reported when the last copy is destroyed", "[guard][guarded]") {
    support::captured_errors errors;
    cuota::stream const s;
    std::optional<guarded<>> memory{std::in_place};
    void* const p = memory->allocate_sync(100, 256, as("weights", 4));
    write_at(s, p, 100, 1);
    s.synchronize();
    memory->deallocate_sync(p, 100);
    memory.reset();
    CHECK(errors.take().size() == 1);
}

TEST_CASE("damage is found on any stream that is ordered after it", "[guard][guarded]") {
    cuota::stream const one;
    cuota::stream const other;
    guarded<cuota::async_memory> memory;
    void* const p = memory.allocate(one, 100);
    // Waits for the guard bytes to be written, although `other` is not ordered after `one`.
    CHECK_NOTHROW(memory.verify(other));
    write_at(one, p, 100, 1);
    cuota::event const written{one};
    other.wait(written);
    CHECK_THROWS_AS(memory.verify(other), guard_bytes_error);
    memory.deallocate(other, p, 100);
    CHECK_THROWS_AS(memory.verify(one), guard_bytes_error);
}

TEST_CASE("new and freed memory is filled with poison, unless the option is off", "[guard][guarded]") {
    cuota::stream const s;
    cuota::scoped_pool pool{budget{"b", 64_MiB}};
    void* const base = pool.allocate(s, 4096);
    cuota::rt::fill_bytes(base, 7, 4096, s);
    pool.deallocate(s, base, 4096);
    {
        guarded plain{pool.resource(), {.poison = false}};
        void* const p = plain.allocate(s, 1000);
        CHECK(is_all(read(s, p, 1000), 7));
        plain.deallocate(s, p, 1000);
    }
    guarded memory{pool.resource()};
    void* const p = memory.allocate(s, 1000);
    CHECK(is_all(read(s, p, 1000), 0xCD));
    write_at(s, p, 0, 1000);
    memory.deallocate(s, p, 1000);
    void* const raw = pool.allocate(s, 1512);
    CHECK(is_all(read(s, raw, 1512), 0xDD));
    pool.deallocate(s, raw, 1512);
}

TEST_CASE("guard bytes keep alignments that a pool supports", "[guard][guarded]") {
    cuota::stream const s;
    cuota::scoped_pool pool{budget{"b", 256_MiB}};
    guarded memory{pool.resource(), {.redzone_bytes = 100}};
    for (std::size_t const alignment : {std::size_t{1}, 64_KiB / 256, 4_KiB, 2_MiB}) {
        void* const p = memory.allocate(s, 3000, alignment);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
        write_at(s, p, 0, 3000);
        CHECK_NOTHROW(memory.verify(s));
        write_at(s, p, -100, 1);
        auto const broken = support::thrown<guard_bytes_error>([&] { memory.verify(s); });
        CHECK(broken.violations().at(0).offset == -100);
        memory.deallocate(s, p, 3000, alignment);
        CHECK_THROWS_AS(memory.verify(s), guard_bytes_error);
    }
}

TEST_CASE("an upstream budget is charged for guard bytes, and its max_fit excludes them",
          "[guard][guarded]") {
    budget b{"b", 10'240};
    guarded memory{cuota::budgeted<>{b}};
    void* const p = memory.allocate_sync(1024);
    CHECK(b.held() == 1536);
    memory.deallocate_sync(p, 1024);
    CHECK(b.held() == 0);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)memory.allocate_sync(10'000); });
    CHECK(refused.info().requested == 10'000);
    CHECK(refused.info().charged == 10'752);
    CHECK(refused.info().max_fit == 10'240 - 512);
    void* const most = memory.allocate_sync(refused.info().max_fit);
    memory.deallocate_sync(most, refused.info().max_fit);
}

TEST_CASE("a wrong size, a double free and an interior pointer are reported and change nothing",
          "[guard][guarded]") {
    support::captured_errors errors;
    guarded memory{cuota::device_memory{}, {.name = "x"}};
    void* const p = memory.allocate_sync(100, 16, as("weights", 4));
    memory.deallocate_sync(p, 99);
    memory.deallocate(cudaStreamPerThread, static_cast<char*>(p) + 8, 100);
    memory.deallocate_sync(p, 100);
    memory.deallocate_sync(p, 100);
    auto const told = errors.take();
    REQUIRE(told.size() == 3);
    CHECK(support::has(told[0],
                       "guarded memory x: deallocate with the wrong size: 99 bytes, allocated 100: weights"));
    CHECK(support::has(told[1], "8 bytes inside weights"));
    CHECK(support::has(told[2], "double free: weights"));
    CHECK_THROWS_AS(memory.verify(cudaStreamPerThread, p), cuota::usage_error);
    CHECK_NOTHROW(memory.verify(cudaStreamPerThread, nullptr));
    CHECK_THROWS_AS((guarded{cuota::device_memory{}, {.redzone_bytes = 0}}), cuota::usage_error);
}

TEST_CASE("guarded refuses to close while allocations are live, and to allocate after it",
          "[guard][guarded]") {
    support::captured_errors errors;
    cuota::stream const s;
    guarded memory{cuota::device_memory{}, {.name = "x"}};
    void* const p = memory.allocate_sync(100, 256, as("weights"));
    auto const alive = support::thrown<cuota::usage_error>([&] { memory.close(s); });
    CHECK(support::has(alive.what(),
                       "guarded memory x: cannot close while 1 allocation is still alive: weights 100 B"));
    memory.deallocate_sync(p, 100);
    memory.close(s);
    CHECK_THROWS_AS(memory.allocate_sync(1), cuota::usage_error);
}

TEST_CASE("an overrun of a buffer is found", "[guard][guarded]") {
    cuota::stream const s;
    guarded<cuota::async_memory> memory;
    cuota::tracked known{memory};
    cuota::device_buffer<float> buffer{100, s, known, "scores"};
    void* const block = const_cast<void*>(known.live().blocks.at(0).at);
    write_at(s, block, 400, 4);
    auto const broken = support::thrown<guard_bytes_error>([&] { memory.verify(s); });
    CHECK(broken.violations().at(0).name == cuota::tag{"scores"});
    CHECK(broken.violations().at(0).offset == 400);
    CHECK(broken.violations().at(0).at == block);
    cuota::rt::fill_bytes(static_cast<char*>(block) + 400, 0xFD, 4, s);
    CHECK_NOTHROW(memory.verify(s));  // repaired, so that later checks find no damage
}
