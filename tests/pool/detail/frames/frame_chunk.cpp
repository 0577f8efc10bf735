// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/frames/frame_chunk.hpp>

#include <cstdint>
#include <new>
#include <optional>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::frame_chunk;
using state = cuota::detail::frame_entry::state;

namespace {

// These addresses are not backed by memory: a chunk does not access its bytes.
std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 40) + offset);
}
void* take(frame_chunk& c, std::size_t bytes, std::size_t alignment = 256, state epoch = state::owned) {
    return c.try_take(bytes, alignment, {}, epoch);
}

}  // namespace

TEST_CASE("a frame_chunk allocates up to its last byte and no further", "[pool][frame_chunk]") {
    frame_chunk c{address(0), 1000, nullptr};
    CHECK(take(c, 500) == address(0));
    CHECK(!take(c, 489));
    CHECK(!take(c, ~std::size_t{0}));
    CHECK(take(c, 488) == address(512));
    CHECK(!take(c, 1));
    CHECK(!take(c, 1, 1));
    CHECK(c.available() == 0);
    CHECK(c.has(address(999)));
    CHECK_FALSE(c.has(address(1000)));
}

TEST_CASE("a frame_chunk reuses the freed blocks at its end, except those freed out of its order",
          "[pool][frame_chunk]") {
    frame_chunk c{address(0), 4096, nullptr};
    for (std::size_t i = 0; i != 4; ++i) CHECK(take(c, 256) == address(256 * i));
    c.give(*c.find(address(256)), true);
    c.give(*c.find(address(0)), false);
    c.give(*c.find(address(768)), true);
    CHECK(c.entries().size() == 3);
    CHECK(c.is_owned());
    c.give(*c.find(address(512)), true);
    CHECK(c.entries().size() == 1);
    CHECK_FALSE(c.is_owned());
    CHECK(c.available() == 4096 - 256);
    CHECK_FALSE(c.find(address(0))->is_live());
    CHECK(!c.find(address(256)));
}

TEST_CASE("a frame_chunk is unchanged when the host has no memory", "[pool][frame_chunk]") {
    frame_chunk c{address(0), 4096, nullptr};
    {
        support::failing_heap const heap{0};
        CHECK_THROWS_AS(take(c, 256), std::bad_alloc);
    }
    CHECK(c.available() == 4096);
    CHECK_FALSE(c.is_owned());
    CHECK(take(c, 256) == address(0));
}

TEST_CASE("blocks that are freed with their frame have no owner", "[pool][frame_chunk]") {
    frame_chunk c{address(0), 4096, nullptr};
    (void)take(c, 256, 256, state::ends_with_frame);
    CHECK_FALSE(c.is_owned());
    (void)take(c, 256);
    c.end();
    CHECK_FALSE(c.find(address(0))->is_live());
    CHECK(c.find(address(256))->is_live());
    CHECK(c.is_owned());
}
