// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/detail/host_pages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <sys/mman.h>

#include <cuota/core/bytes.hpp>

#include "support/catch.hpp"

using namespace cuota::detail;

namespace {

std::size_t pages_there(std::byte* at, std::size_t bytes) {
    std::vector<unsigned char> there(bytes / page_bytes());
    REQUIRE(::mincore(at, bytes, there.data()) == 0);
    return static_cast<std::size_t>(
        std::ranges::count_if(there, [](unsigned char c) { return (c & 1) != 0; }));
}

}  // namespace

TEST_CASE("pages are whole, zero, and resident once they were touched", "[resource][host_pages]") {
    CHECK(cuota::is_power_of_two(page_bytes()));
    std::size_t const pages = 37;
    std::size_t const threads = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{64});
    std::size_t const bytes = pages * page_bytes();
    std::byte* const at = map_pages(bytes);
    REQUIRE(at);
    CHECK(reinterpret_cast<std::uintptr_t>(at) % page_bytes() == 0);
    CHECK(pages_there(at, bytes) == 0);
    touch_pages(at, bytes, threads);
    CHECK(pages_there(at, bytes) == pages);
    CHECK(std::ranges::all_of(std::span{at, bytes}, [](std::byte b) { return b == std::byte{0}; }));
    unmap_pages(at, bytes);
}

TEST_CASE("map_pages returns null if the pages do not fit", "[resource][host_pages]") {
    CHECK(map_pages(std::numeric_limits<std::size_t>::max() / 2) == nullptr);
}

TEST_CASE("one thread touches few pages, and at most four threads touch many", "[resource][host_pages]") {
    using namespace cuota::literals;
    CHECK(threads_to_touch(1) == 1);
    CHECK(threads_to_touch(63_MiB) == 1);
    CHECK(threads_to_touch(100_GiB) <= 4);
    CHECK(threads_to_touch(100_GiB) >= threads_to_touch(64_MiB));
}
