// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/mirrored_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

using ints = cuota::mirrored_buffer<int>;

static_assert(!std::is_copy_constructible_v<ints> && std::is_nothrow_move_constructible_v<ints> &&
              std::is_nothrow_move_assignable_v<ints>);

namespace {

struct add_to_all {
    cuota::device_span<int> to;
    int value;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += value; }
};

constexpr std::size_t count = 1000;
constexpr std::size_t bytes = count * sizeof(int);

// Charges each side of an array to its own budget, exactly.
struct scene {
    cuota::stream const s{};
    cuota::budget const device{"device", 1_MiB};
    cuota::budget const host{"host", 1_MiB};
    ints all{count, s, cuota::budgeted<cuota::device_memory>{device},
             cuota::budgeted<cuota::pinned_memory>{host}, "weights"};

    void add(int value, cuota::stream_ref on) {
        auto const some = all.write(on);
        cuota::for_each_index(on, count, add_to_all{some.span(), value}, "add");
    }
    void add(int value) { add(value, s); }
    [[nodiscard]] bool are(int value) {
        auto const some = all.read_host();
        return some.size() == count && std::ranges::all_of(some, [&](int x) { return x == value; });
    }
    [[nodiscard]] bool has(bool on_host, bool on_device) const {
        return all.is_host_valid() == on_host && all.is_device_valid() == on_device;
    }
};

}  // namespace

TEST_CASE("a mirrored_buffer allocates each side on its first use, and its elements are zero at first",
          "[buffer][mirrored_buffer]") {
    scene on;
    CHECK(on.all.size() == count);
    CHECK(on.all.bytes() == bytes);
    CHECK(on.has(false, false));
    CHECK(on.device.held() + on.host.held() == 0);
    SECTION("the host first") {
        CHECK(on.are(0));
        CHECK(on.has(true, false));
        CHECK(on.device.held() == 0);
        CHECK(on.host.held() >= bytes);
    }
    SECTION("the device first") {
        on.add(7);
        CHECK(on.has(false, true));
        CHECK(on.host.held() == 0);
        CHECK(on.device.held() >= bytes);
        CHECK(on.are(7));
        CHECK(on.has(true, true));
    }
}

TEST_CASE("a write on one side invalidates the other side, and a read does not",
          "[buffer][mirrored_buffer]") {
    scene on;
    std::ranges::fill(on.all.write_host(), 3);
    CHECK(on.has(true, false));
    { auto const look = on.all.read(on.s); }
    CHECK(on.has(true, true));
    CHECK(on.are(3));
    CHECK(on.has(true, true));
    on.add(1);
    CHECK(on.has(false, true));
    CHECK(on.are(4));
    for (int& x : on.all.write_host()) ++x;
    CHECK(on.has(true, false));
    on.add(10);
    CHECK(on.are(15));
}

TEST_CASE("both sides have the same values whichever streams have written",
          "[buffer][mirrored_buffer][gpu]") {
    scene on;
    cuota::stream const a;
    cuota::stream const b;
    std::ranges::fill(on.all.write_host(), 1);
    on.add(2, a);
    on.add(4, b);
    on.add(8);
    CHECK(on.are(15));
    for (int& x : on.all.write_host()) x *= 2;
    on.add(1, b);
    CHECK(on.are(31));
}

TEST_CASE("overwriting all of the elements copies none of them", "[buffer][mirrored_buffer]") {
    scene on;
    std::ranges::fill(on.all.overwrite_host(), 5);
    CHECK(on.has(true, false));
    {
        auto const some = on.all.overwrite(on.s);
        CHECK(on.has(false, true));
        cuota::rt::fill_bytes(some.span().data(), 0, bytes, on.s);
        cuota::for_each_index(on.s, count, add_to_all{some.span(), 6});
    }
    CHECK(on.are(6));
    std::ranges::fill(on.all.overwrite_host(), 7);
    on.add(1);
    CHECK(on.are(8));
}

TEST_CASE("a released or evicted side frees its bytes, and the values are kept",
          "[buffer][mirrored_buffer]") {
    scene on;
    cuota::stream const copies;
    std::ranges::fill(on.all.write_host(), 2);
    on.all.release_host();
    CHECK(on.has(false, true));
    CHECK(on.host.held() == 0);
    CHECK(on.device.held() >= bytes);

    on.add(1);
    on.all.evict_to_host(copies);
    CHECK(on.has(true, false));
    CHECK(on.device.held() == 0);
    CHECK(on.host.held() >= bytes);

    on.all.prefetch_to_device(copies);
    CHECK(on.has(true, true));
    on.add(1, copies);
    CHECK(on.are(4));
    on.all.evict_to_host(copies);  // no copy: the host side is valid
    CHECK(on.are(4));
    on.all.evict_to_host(copies);
    on.all.release_host();
    on.all.release_host();
    CHECK(on.are(4));
}

TEST_CASE("two arrays alternate in device memory that holds one", "[buffer][mirrored_buffer]") {
    cuota::stream const s;
    cuota::stream const copies;
    cuota::budget const device{"device", 5000};
    cuota::budgeted<cuota::device_memory> const memory{device};
    ints a{count, s, memory};
    ints b{count, s, memory};
    auto const add = [&](ints& to, int value) {
        auto const some = to.write(s);
        cuota::for_each_index(s, count, add_to_all{some.span(), value});
    };
    for (int turn = 0; turn != 5; ++turn) {
        add(a, 1);
        CHECK_THROWS_AS(b.read(s), cuota::budget_exceeded);
        a.evict_to_host(copies);
        add(b, 2);
        b.evict_to_host(copies);
    }
    CHECK(a.read_host()[count - 1] == 5);
    CHECK(b.read_host()[0] == 10);
}

TEST_CASE("a side whose allocation is refused leaves the values unchanged", "[buffer][mirrored_buffer]") {
    cuota::stream const s;
    cuota::budget const device{"device", 1000};
    cuota::budget const host{"host", 1_MiB};
    ints all{count, s, cuota::budgeted<cuota::device_memory>{device},
             cuota::budgeted<cuota::pinned_memory>{host}};
    std::ranges::fill(all.write_host(), 9);
    CHECK_THROWS_AS(all.read(s), cuota::budget_exceeded);
    CHECK_THROWS_AS(all.overwrite(s), cuota::budget_exceeded);
    CHECK_THROWS_AS(all.release_host(), cuota::budget_exceeded);
    CHECK(all.is_host_valid());
    CHECK_FALSE(all.has_device_memory());
    CHECK(all.read_host()[3] == 9);
    CHECK(device.held() == 0);
}

TEST_CASE("host access and eviction are refused while a lease for writing is open",
          "[buffer][mirrored_buffer]") {
    scene on;
    {
        auto const open = on.all.write(on.s);
        auto const error = thrown<cuota::usage_error>([&] { (void)on.all.read_host(); });
        CHECK(has(
            error.what(),
            "buffer: cannot be read by host code while it is leased for writing since mirrored_buffer.cpp:"));
        CHECK_THROWS_AS(on.all.write_host(), cuota::usage_error);
        CHECK_THROWS_AS(on.all.overwrite_host(), cuota::usage_error);
        CHECK_THROWS_AS(on.all.evict_to_host(on.s), cuota::usage_error);
        CHECK(on.has(false, true));
    }
    {
        auto const open = on.all.read(on.s);
        CHECK(on.are(0));
        CHECK_THROWS_AS(on.all.evict_to_host(on.s), cuota::usage_error);
    }
    on.all.evict_to_host(on.s);
    CHECK(on.has(true, false));
}

TEST_CASE("a moved mirrored_buffer keeps its elements, and the original is empty",
          "[buffer][mirrored_buffer]") {
    scene on;
    std::ranges::fill(on.all.write_host(), 4);
    ints other{std::move(on.all)};
    CHECK(on.all.size() == 0);
    CHECK(on.all.read_host().empty());
    CHECK(other.read_host()[5] == 4);
    on.all = std::move(other);
    CHECK(on.are(4));
}

TEST_CASE("a mirrored_buffer of no elements works on both sides", "[buffer][mirrored_buffer]") {
    cuota::stream const s;
    ints none{0, s, cuota::device_memory{}};
    CHECK(none.read_host().empty());
    CHECK(none.write(s).size() == 0);
    none.evict_to_host(s);
    none.release_host();
}

TEST_CASE("a mirrored_buffer whose sides the host or kernels cannot access is refused",
          "[buffer][mirrored_buffer]") {
    cuota::stream const s;
    CHECK_THROWS_AS((ints{10, s, cuota::pinned_memory{}}), cuota::usage_error);
    CHECK_THROWS_AS((ints{10, s, cuota::device_memory{}, cuota::device_memory{}}), cuota::usage_error);
    CHECK_THROWS_AS((ints{-1, s, cuota::device_memory{}}), cuota::usage_error);
    CHECK_THROWS_AS((ints{~std::size_t{0}, s, cuota::device_memory{}}), cuota::out_of_memory);
}
