// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/pinned_buffer.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using cuota::pinned_buffer;
using support::has;
using support::thrown;

namespace {

static_assert(!std::is_copy_constructible_v<pinned_buffer<int>> &&
              !std::is_copy_assignable_v<pinned_buffer<int>>);
static_assert(std::is_nothrow_move_constructible_v<pinned_buffer<int>>);
static_assert(std::is_nothrow_move_assignable_v<pinned_buffer<int>>);
static_assert(std::is_constructible_v<pinned_buffer<int>, std::size_t>);
static_assert(std::is_constructible_v<pinned_buffer<int>, std::size_t, cuota::managed_memory>);
static_assert(std::is_constructible_v<pinned_buffer<int>, std::size_t, cuota::budget&>);
static_assert(!std::is_constructible_v<pinned_buffer<int>, std::size_t, cuota::device_memory>);
static_assert(!std::is_convertible_v<std::size_t, pinned_buffer<int>>);

std::vector<int> counted(std::size_t count) {
    std::vector<int> host(count);
    std::iota(host.begin(), host.end(), 1);
    return host;
}

std::vector<int> contents(pinned_buffer<int> const& some) {
    auto const elements = some.read();
    return {elements.begin(), elements.end()};
}

}  // namespace

TEST_CASE("a pinned_buffer is zero at first and the host can write it", "[buffer][pinned_buffer]") {
    pinned_buffer<int> some{1000};
    CHECK(contents(some) == std::vector<int>(1000, 0));

    std::ranges::copy(counted(1000), some.write().begin());

    CHECK(contents(some) == counted(1000));
    CHECK(some.size() == 1000);
    CHECK(some.bytes() == 4000);
}

TEST_CASE("a pinned_buffer of no elements is allowed", "[buffer][pinned_buffer]") {
    cuota::stream const stream;
    cuota::device_buffer<int> none_there{0, stream, cuota::device_memory{}};
    pinned_buffer<int> none{0};

    CHECK(none.is_empty());
    CHECK(none.read().empty());
    CHECK(none.write().empty());
    REQUIRE_NOTHROW(none.upload(none_there, stream));
    REQUIRE_NOTHROW(none.download(none_there, stream));
}

TEST_CASE("a download returns the uploaded elements", "[buffer][pinned_buffer]") {
    cuota::stream const stream;
    cuota::stream const other;
    pinned_buffer<int> from{100'000};
    pinned_buffer<int> to{100'000};
    cuota::device_buffer<int> there{100'000, stream, cuota::device_memory{}};

    for (int round = 1; round != 10; ++round) {
        std::ranges::fill(from.write(), round);  // waits for the previous upload
        from.upload(there, other);
        to.download(there, stream);
        REQUIRE(std::ranges::all_of(to.read(), [=](int i) { return i == round; }));
    }
}

TEST_CASE("a pinned_buffer charges a budget exactly its bytes", "[buffer][pinned_buffer]") {
    cuota::budget host{"pinned", 1'000'003};
    {
        pinned_buffer<char> const some{1'000'003, host, "staging"};
        CHECK(host.held() == 1'000'003);

        auto const refused = thrown<cuota::budget_exceeded>([&] {
            pinned_buffer<float> const more{2, host, "more", {"train.cpp", 8}};
        });

        CHECK(refused.info().requested == 8);
        CHECK(has(refused.what(), "for more at train.cpp:8"));
        CHECK(has(refused.what(), "staging 976.6 KiB"));
        CHECK(host.held() == 1'000'003);
    }
    CHECK(host.held() == 0);
}

TEST_CASE("an element count of a pinned_buffer whose bytes exceed SIZE_MAX throws out_of_memory",
          "[buffer][pinned_buffer]") {
    CHECK_THROWS_AS(pinned_buffer<int>{cuota::unlimited / 4 + 1}, cuota::out_of_memory);
    CHECK_THROWS_AS(pinned_buffer<int>{cuota::unlimited}, cuota::out_of_memory);
}

TEST_CASE("a type-erased resource is refused at run time when the host cannot access its memory",
          "[buffer][pinned_buffer]") {
    cuota::any_resource const device = cuota::device_memory{};
    CHECK_THROWS_AS((pinned_buffer<int>{10, device}), cuota::usage_error);
    REQUIRE_NOTHROW(pinned_buffer<int>{10, cuota::any_resource{cuota::managed_memory{}}});
}

TEST_CASE("a moved-from pinned_buffer is empty, and self-assignment keeps the elements",
          "[buffer][pinned_buffer]") {
    cuota::budget host{"pinned", 1_MiB};
    pinned_buffer<int> first{100, host};
    std::ranges::fill(first.write(), 7);
    pinned_buffer<int> second{50, host};

    second = std::move(first);
    CHECK(first.is_empty());
    CHECK(first.read().empty());
    CHECK(contents(second) == std::vector<int>(100, 7));
    CHECK(host.held() == 400);

    pinned_buffer<int>& same = second;
    second = std::move(same);
    CHECK(contents(second) == std::vector<int>(100, 7));

    first = pinned_buffer<int>{10, host};
    CHECK(first.size() == 10);
}

TEST_CASE("a copy between a pinned_buffer and a device_buffer of different sizes is refused",
          "[buffer][pinned_buffer]") {
    cuota::stream const stream;
    cuota::device_buffer<int> there{10, 1, stream, cuota::device_memory{}};
    pinned_buffer<int> some{11};

    auto const error = thrown<cuota::usage_error>([&] { some.upload(there, stream, {"train.cpp", 3}); });
    CHECK(has(error.what(), "11 pinned elements and 10 on the device"));
    CHECK(has(error.what(), "train.cpp:3"));
    CHECK_THROWS_AS(some.download(there, stream), cuota::usage_error);
    CHECK(there.to_vector(stream) == std::vector<int>(10, 1));
}

TEST_CASE("a pinned_buffer and its device_buffer may both be destroyed during a copy",
          "[buffer][pinned_buffer]") {
    cuota::stream const stream;
    for (int i = 0; i != 10; ++i) {
        pinned_buffer<int> from{1'000'000};
        cuota::device_buffer<int> there{1'000'000, stream, cuota::device_memory{}};
        from.upload(there, stream);
        from.download(there, stream);
    }
    REQUIRE_NOTHROW(stream.synchronize());
}

TEST_CASE("memory is freed and refunded when an element's constructor throws", "[buffer][pinned_buffer]") {
    struct reluctant {
        reluctant() { throw std::runtime_error{"not today"}; }
        int value = 0;
    };
    static_assert(std::is_trivially_copyable_v<reluctant>);
    cuota::budget host{"pinned", 1000};
    cuota::tracked<cuota::pinned_memory> memory;

    CHECK_THROWS_AS((pinned_buffer<reluctant>{100, host}), std::runtime_error);
    CHECK(host.held() == 0);
    CHECK_THROWS_AS((pinned_buffer<reluctant>{100, memory}), std::runtime_error);
    CHECK(memory.live().blocks.empty());
    cuota::stream const stream;
    cuota::mirrored_buffer<reluctant> both{100, stream, cuota::device_memory{}, memory};
    CHECK_THROWS_AS(both.read_host(), std::runtime_error);
    CHECK(memory.live().blocks.empty());
    CHECK(!both.has_host_memory());
}

TEST_CASE("parts of a pinned_buffer are copied to and from parts of device memory",
          "[buffer][pinned_buffer]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    pinned_buffer<int> host{6};
    std::iota(host.write().begin(), host.write().end(), 1);
    cuota::device_buffer<int> x{4, s, pool};
    host.upload(x, {2, 1, 3}, s);
    CHECK(x.to_vector(s) == std::vector<int>{0, 3, 4, 5});
    host.download(x, {0, 5, 1}, s);
    host.download(x.read(s), {3, 0, 1}, s);
    CHECK(contents(host) == std::vector<int>{5, 2, 3, 4, 5, 0});

    auto raw = x.release();
    pinned_buffer<int> four{4};
    four.download({raw.get(), raw.size()}, s);
    CHECK(contents(four) == std::vector<int>{0, 3, 4, 5});
    four.write()[0] = 9;
    four.upload(cuota::device_span<int>{raw.get(), raw.size()}, s);
    host.download({raw.get(), 1}, {0, 0, 1}, s);
    CHECK(host.read()[0] == 9);
    host.upload(cuota::device_span<int>{raw.get(), 4}, {0, 4, 0}, s);  // an empty part

    auto const here = thrown<cuota::usage_error>([&] { host.download({raw.get(), 4}, {0, 4, 3}, s); });
    CHECK(has(here.what(), "pinned_buffer: elements [4, 4 + 3) are outside a buffer of 6"));
    auto const there = thrown<cuota::usage_error>([&] { host.download({raw.get(), 4}, {2, 0, 3}, s); });
    CHECK(has(there.what(), "pinned_buffer: elements [2, 2 + 3) are outside device memory of 4"));
    CHECK_THROWS_AS(host.download({raw.get(), 4}, s), cuota::usage_error);  // counts differ
}

TEST_CASE("a default-constructed pinned_buffer is empty until it is assigned", "[buffer][pinned_buffer]") {
    struct model {
        pinned_buffer<float> losses;
    };
    model m{};
    CHECK(m.losses.is_empty());
    CHECK(m.losses.read().empty());
    cuota::budget host{"host", 1_MiB};
    m.losses = pinned_buffer<float>{8, host, "losses"};
    CHECK(host.held() == 32);
    m.losses = {};
    CHECK(host.held() == 0);
}
