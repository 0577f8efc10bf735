// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/byte_counters.hpp>

#include <cstddef>

#include "support/catch.hpp"

using cuota::detail::block;
using cuota::detail::byte_counters;

namespace {

void set(block& b, std::size_t requested, std::size_t size) {
    b.requested = requested;
    b.size = size;
}

}  // namespace

TEST_CASE("the counters of live blocks keep their peaks, and the bytes of all frees",
          "[pool][byte_counters]") {
    byte_counters counters;
    block first;
    block second;
    set(first, 100, 256);
    set(second, 300, 512);
    counters.add(first);
    counters.add(second);
    counters.remove(first);
    cuota::pool_stats now;
    counters.write_to(now, 0);
    CHECK(now.requested == 300);
    CHECK(now.peak_requested == 400);
    CHECK(now.allocated == 512);
    CHECK(now.peak_allocated == 768);
    CHECK(counters.freed() == 256);
    CHECK_FALSE(counters.would_peak(100, 256));
    CHECK(counters.would_peak(101, 256));
    CHECK(counters.would_peak(100, 257));
}

TEST_CASE("lent bytes count as requested and raise no peak", "[pool][byte_counters]") {
    byte_counters counters;
    block b;
    set(b, 100, 256);
    counters.add(b);
    CHECK(counters.lend(10) == 0);
    counters.remove(b);
    CHECK(counters.lend(60) == 60);
    CHECK(counters.lend(60) == 40);
    cuota::pool_stats now;
    counters.write_to(now, 0);
    CHECK(now.requested == 100);
    CHECK(now.peak_requested == 100);
    counters.take_back(100);
    counters.write_to(now, 0);
    CHECK(now.requested == 0);
}

TEST_CASE("memory that is being released counts as reserved, but not as staying", "[pool][byte_counters]") {
    byte_counters counters;
    counters.add_reserved(1000);
    counters.add_leaving(300);
    CHECK(counters.reserved() == 1000);
    CHECK(counters.staying() == 700);
    counters.remove_leaving(300);
    counters.remove_reserved(300);
    CHECK(counters.leaving() == 0);
    CHECK(counters.staying() == 700);
    cuota::pool_stats now;
    counters.write_to(now, 0);
    CHECK(now.peak_reserved == 1000);
}

TEST_CASE("the peak of active bytes is the highest that was written, and at least that of live bytes",
          "[pool][byte_counters]") {
    byte_counters counters;
    block b;
    set(b, 100, 256);
    counters.add(b);
    counters.remove(b);
    cuota::pool_stats now;
    counters.write_to(now, 100);
    CHECK(now.active == 100);
    CHECK(now.peak_active == 256);
    counters.write_to(now, 512);
    counters.write_to(now, 0);
    CHECK(now.active == 0);
    CHECK(now.peak_active == 512);
}
