// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/released_buffer.hpp>

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

using support::word;
using words = cuota::device_buffer<word>;
using released = cuota::released_buffer<word>;

static_assert(!std::is_copy_constructible_v<released> && !std::is_copy_assignable_v<released>);
static_assert(std::is_nothrow_move_constructible_v<released> && std::is_nothrow_move_assignable_v<released>);
static_assert(std::is_trivially_copyable_v<cuota::raw_memory>);  // for use from C

}  // namespace

TEST_CASE("a released_buffer has the elements and their address", "[buffer][released_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    words some{1000, 7u, stream, pool};

    released const raw = some.release();

    CHECK(raw.size() == 1000);
    CHECK(raw.bytes() == 1000 * sizeof(word));
    CHECK(raw.home() == cuota::stream_ref{stream});
    CHECK(support::all_are(support::words(stream, raw.get(), raw.bytes()), 7));
    CHECK(pool.stats().live_blocks == 1);
}

TEST_CASE("a buffer is empty and usable after its memory was released", "[buffer][released_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    words some{1000, 7u, stream, pool};

    released raw = some.release();

    CHECK(some.is_empty());
    some.resize(10, 3u);
    CHECK(support::all_are(some.to_vector(stream), 3));
    CHECK(pool.stats().live_blocks == 2);
    raw = some.release();
    CHECK(pool.stats().live_blocks == 1);
    raw.reset();
    raw.reset();
    CHECK(raw.get() == nullptr);
    CHECK(raw.is_empty());
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a buffer of no elements is released as a null pointer", "[buffer][released_buffer]") {
    cuota::stream const stream;
    words none{0, stream, cuota::device_memory{}};
    released raw = none.release();

    CHECK(raw.get() == nullptr);
    CHECK(raw.is_empty());
    REQUIRE_NOTHROW(raw.used_on(stream));
    cuota::raw_memory const plain = std::move(raw).release();
    CHECK(plain.data == nullptr);
    CHECK(plain.bytes == 0);
    plain.deleter(plain.context);
}

TEST_CASE("the deleter of raw_memory frees the memory of a detached released_buffer",
          "[buffer][released_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    released raw = words{1000, 7u, stream, pool}.release();
    word* const at = raw.get();

    cuota::raw_memory const plain = std::move(raw).release();

    CHECK(plain.data == at);
    CHECK(plain.bytes == 1000 * sizeof(word));
    CHECK(raw.is_empty());
    CHECK(support::all_are(support::words(stream, plain.data, plain.bytes), 7));
    CHECK(pool.stats().live_blocks == 1);
    plain.deleter(plain.context);
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a released_buffer keeps its home stream", "[buffer][released_buffer]") {
    support::captured_errors errors;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    std::optional<cuota::stream> home{std::in_place};
    std::optional<released> raw{words{1000, 7u, *home, pool}.release()};
    home.reset();

    REQUIRE_NOTHROW(raw->used_on(other));
    raw.reset();

    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a released_buffer can be filled and zeroed, whole or in part", "[buffer][released_buffer]") {
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    auto raw = cuota::device_buffer<int>{4, s, pool}.release();
    cuota::pinned_buffer<int> host{4};
    auto const now = [&] {
        host.download({raw.get(), raw.size()}, s);
        auto const read = host.read();
        return std::vector<int>(read.begin(), read.end());
    };
    raw.fill(5, other);
    CHECK(now() == std::vector<int>{5, 5, 5, 5});
    raw.fill(6, 0, 1, s);
    raw.zero(2, 2, s);
    CHECK(now() == std::vector<int>{6, 5, 0, 0});
    raw.zero(s);
    CHECK(now() == std::vector<int>(4));
    auto const beyond = thrown<cuota::usage_error>([&] { raw.zero(3, 2, s); });
    CHECK(has(beyond.what(), "released_buffer: elements [3, 3 + 2) are outside a buffer of 4"));
}

TEST_CASE("a default-constructed released_buffer is empty until it is assigned",
          "[buffer][released_buffer]") {
    struct model {
        cuota::released_buffer<float> weights;
    };
    model m{};
    CHECK(m.weights.is_empty());
    CHECK(m.weights.get() == nullptr);
    m.weights.used_on(cuota::stream{});
    m.weights.reset();
    m.weights.fill(1, cuota::default_stream);
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    m.weights = cuota::device_buffer<float>{4, s, pool}.release();
    CHECK(m.weights.size() == 4);
    m = {};
    CHECK(pool.stats().live_blocks == 0);
}
