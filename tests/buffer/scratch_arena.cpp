// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/scratch_arena.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::device_scratch;
using cuota::scratch_arena;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<scratch_arena> &&
              std::is_nothrow_move_constructible_v<scratch_arena>);
static_assert(std::is_trivially_copyable_v<device_scratch>);

namespace {

// Each thread allocates i % most words, fills them with its index, and records whether it got all and they are unchanged.
struct fill_and_look {
    device_scratch from;
    cuota::device_span<int> seen;
    std::size_t most;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        auto const words = from.take<std::uint32_t>(i % most);
        for (std::size_t k = 0; k != words.size(); ++k) words[k] = static_cast<std::uint32_t>(i);
        bool is_mine = words.size() == i % most;
        for (std::size_t k = 0; k != words.size(); ++k) is_mine = is_mine && words[k] == i;
        seen[i] = is_mine ? 1 : 0;
    }
};
struct take_bytes {
    device_scratch from;
    cuota::device_span<std::uint64_t> at;
    std::size_t count;
    std::size_t parts;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        auto const piece = from.take<char>(count, i % parts);
        at[i] = reinterpret_cast<std::uint64_t>(piece.data());
    }
};
struct take_too_much {
    device_scratch from;
    cuota::device_span<int> given;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        std::size_t const most = ~std::size_t{0};
        std::size_t const counts[] = {most, most / 8, most / 8 + 1, most - 7, std::size_t{1} << 62, 0};
        given[i] = from.take<double>(counts[i]).is_empty() ? 0 : 1;
    }
};

struct scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 8_MiB}};

    // Returns the addresses that threads got; 0 where the allocation failed.
    [[nodiscard]] std::vector<std::uint64_t> take(scratch_arena& from, std::size_t threads, std::size_t bytes,
                                                  std::size_t parts = 1) const {
        cuota::device_buffer<std::uint64_t> at{threads, s, pool};
        auto const to = at.write(s);
        cuota::for_each_index(s, threads, take_bytes{from.open(s), to.span(), bytes, parts});
        return at.to_vector(s);
    }
};

std::size_t given(std::vector<std::uint64_t> const& at) {
    std::size_t n = 0;
    for (std::uint64_t const a : at) n += a != 0;
    return n;
}

}  // namespace

TEST_CASE("pieces that a scratch_arena allocates to different threads do not overlap",
          "[buffer][scratch_arena][gpu]") {
    scene const on;
    scratch_arena arena{64_KiB, on.s, on.pool};
    CHECK(arena.part_bytes() == 64_KiB);
    CHECK(arena.parts() == 1);
    cuota::device_buffer<int> seen{1000, on.s, on.pool};
    for (int kernel = 0; kernel != 3; ++kernel) {  // each has the whole arena
        auto const marks = seen.write(on.s);
        cuota::for_each_index(on.s, 1000, fill_and_look{arena.open(on.s), marks.span(), 16});
    }
    CHECK(seen.to_vector(on.s) == std::vector<int>(1000, 1));
    arena.check(on.s);
    std::size_t sum = 0;
    for (std::size_t i = 0; i != 1000; ++i) sum += (i % 16 * 4 + 15) / 16 * 16;
    CHECK(arena.needed(on.s) == sum);
}

TEST_CASE("pieces of a scratch_arena are aligned to 16 bytes and do not overlap",
          "[buffer][scratch_arena][gpu]") {
    scene const on;
    scratch_arena arena{4096, on.s, on.pool};
    auto at = on.take(arena, 100, 17);
    CHECK(given(at) == 100);
    std::ranges::sort(at);
    for (std::size_t i = 0; i != at.size(); ++i) {
        REQUIRE(at[i] % 16 == 0);
        if (i != 0) REQUIRE(at[i] - at[i - 1] >= 32);
    }
    CHECK(at.back() - at.front() + 32 <= 4096);
}

TEST_CASE("an exhausted scratch_arena returns null in the kernel, and check throws the size that suffices",
          "[buffer][scratch_arena][gpu]") {
    scene const on;
    scratch_arena arena{1000, on.s, on.pool, "visited"};
    CHECK(arena.part_bytes() == 1024);
    CHECK(given(on.take(arena, 100, 64)) == 16);
    auto const error = thrown<cuota::kernel_overflow_error>([&] { arena.check(on.s, {"walk.cpp", 9}); });
    CHECK(error.capacity() == 1024);
    CHECK(error.needed() == 6400);
    CHECK(has(error.what(),
              R"(scratch_arena "visited": a kernel requested 6.2 KiB, capacity is 1.0 KiB (walk.cpp:9))"));

    scratch_arena enough{error.needed(), on.s, on.pool};
    CHECK(given(on.take(enough, 100, 64)) == 100);
    enough.check(on.s);
}

TEST_CASE("a scratch_arena's needed size is the maximum over all kernels", "[buffer][scratch_arena]") {
    scene const on;
    scratch_arena arena{1024, on.s, on.pool};
    (void)on.take(arena, 100, 64);
    CHECK(given(on.take(arena, 16, 64)) == 16);
    CHECK(arena.needed(on.s) == 6400);
}

TEST_CASE("the parts of a scratch_arena have equal sizes, and each is exhausted separately",
          "[buffer][scratch_arena][gpu]") {
    scene const on;
    scratch_arena arena{256, 4, on.s, on.pool};
    CHECK(arena.parts() == 4);
    auto const at = on.take(arena, 10, 128, 4);  // three, three, two and two
    CHECK(given(at) == 8);
    auto const error = thrown<cuota::kernel_overflow_error>([&] { arena.check(on.s); });
    CHECK(error.capacity() == 256);
    CHECK(error.needed() == 384);
    CHECK(has(error.what(), ", capacity is 256 B per part"));
}

TEST_CASE("requests of any size are refused in the kernel and counted without overflow",
          "[buffer][scratch_arena]") {
    scene const on;
    scratch_arena arena{1024, on.s, on.pool};
    cuota::device_buffer<int> taken{6, on.s, on.pool};
    {
        auto const marks = taken.write(on.s);
        cuota::for_each_index(on.s, 6, take_too_much{arena.open(on.s), marks.span()});
    }
    CHECK(taken.to_vector(on.s) == std::vector<int>(6, 0));
    CHECK(arena.needed(on.s) == ~std::size_t{0});
}

TEST_CASE("a scratch_arena without parts or of too large a size is refused", "[buffer][scratch_arena]") {
    scene const on;
    CHECK_THROWS_AS((scratch_arena{1024, 0, on.s, on.pool}), cuota::usage_error);
    CHECK_THROWS_AS((scratch_arena{~std::size_t{0} / 2, 3, on.s, on.pool}), cuota::out_of_memory);
    CHECK_THROWS_AS((scratch_arena{~std::size_t{0}, on.s, on.pool}), cuota::out_of_memory);
    CHECK(on.pool.stats().live_blocks == 0);
    scratch_arena none{0, on.s, on.pool};
    CHECK(given(on.take(none, 5, 1)) == 0);
    CHECK(none.needed(on.s) == 80);
}

TEST_CASE("a moved scratch_arena keeps its capacity and its counts", "[buffer][scratch_arena]") {
    scene const on;
    scratch_arena a{1024, on.s, on.pool};
    (void)on.take(a, 100, 64);
    scratch_arena b{std::move(a)};
    CHECK(b.needed(on.s) == 6400);
    CHECK(given(on.take(b, 16, 64)) == 16);
}
