// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/lease.hpp>

#include <concepts>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using cuota::device_span;
using cuota::lease;
using support::has;
using support::thrown;

namespace {

template <class Lease>
concept gives_its_span = requires(Lease&& l) {
    std::forward<Lease>(l).span();
};

// A lease converts only to spans that its access mode allows.
static_assert(std::convertible_to<lease<int>, device_span<int>>);
static_assert(std::convertible_to<lease<int>, device_span<int const>>);
static_assert(std::convertible_to<lease<int const>, device_span<int const>>);
static_assert(!std::convertible_to<lease<int const>, device_span<int>>);

// Only a named lease has a span: a temporary would end before the span is used.
static_assert(gives_its_span<lease<int>&> && gives_its_span<lease<int> const&>);
static_assert(!gives_its_span<lease<int>> && !gives_its_span<lease<int const>>);

static_assert(!std::is_copy_constructible_v<lease<int>> && std::is_nothrow_move_constructible_v<lease<int>>);
static_assert(!std::is_move_assignable_v<lease<int>>);

using words = cuota::device_buffer<support::word>;

struct next_of {
    int* to;
    int const* from;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i] + 1; }
};

}  // namespace

TEST_CASE("a temporary lease lasts until the end of the launch expression", "[buffer][lease][gpu]") {
    cuota::stream const stream;
    words from{1000, 5u, stream, cuota::device_memory{}};
    words to{1000, stream, cuota::device_memory{}};
    auto const copy = [](cuota::stream_ref s, device_span<support::word const> in,
                         device_span<support::word> out) {
        cuota::for_each_index(s, in.size(), support::copy_word{out.data(), in.data()}, "copy");
    };

    copy(stream, from.read(stream), to.write(stream));

    CHECK(support::all_are(to.to_vector(stream), 5));
}

TEST_CASE("any number of leases may be open on one stream", "[buffer][lease]") {
    cuota::stream const home;
    cuota::stream const other;
    words some{10, home, cuota::device_memory{}};
    cuota::stream_ref const s = GENERATE(0, 1) == 0 ? cuota::stream_ref{home} : cuota::stream_ref{other};

    auto const first = some.write(s);
    auto const second = some.read(s);
    REQUIRE_NOTHROW(some.write(s));
    CHECK(first.size() == 10);
    CHECK(second.span().data() == first.span().data());
}

TEST_CASE("several streams may have read leases at the same time", "[buffer][lease]") {
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream const c;
    words const some{10, a, cuota::device_memory{}};

    auto const first = some.read(a);
    auto const second = some.read(b);
    auto const third = some.read(b);
    REQUIRE_NOTHROW(some.read(c));
}

TEST_CASE(
    "a write lease and a lease on another stream at the same time are misuse that names both call sites",
    "[buffer][lease]") {
    cuota::stream const a;
    cuota::stream const b;
    words some{10, a, cuota::device_memory{}};
    std::string text;

    SECTION("two writers") {
        auto const first = some.write(a, {"first.cpp", 11});
        text = thrown<cuota::usage_error>([&] { (void)some.write(b, {"second.cpp", 22}); }).what();
        CHECK(has(text, "conflicting leases: write requested here, but the buffer is leased for writing on "
                        "another stream"));
    }
    SECTION("a reader, then a writer") {
        auto const first = some.read(a, {"first.cpp", 11});
        text = thrown<cuota::usage_error>([&] { (void)some.write(b, {"second.cpp", 22}); }).what();
        CHECK(has(text, "conflicting leases: write requested here, but the buffer is leased for reading on "
                        "another stream"));
    }
    SECTION("a writer, then a reader") {
        auto const first = some.write(b, {"first.cpp", 11});
        text = thrown<cuota::usage_error>([&] { (void)some.read(a, {"second.cpp", 22}); }).what();
        CHECK(has(text, "conflicting leases: read requested here, but the buffer is leased for writing on "
                        "another stream"));
    }
    CHECK(has(text, "since first.cpp:11"));
    CHECK(has(text, "(second.cpp:22)"));
    REQUIRE_NOTHROW(some.write(b));  // the first lease has ended; the refused one borrowed nothing
    REQUIRE_NOTHROW(some.write(a));
}

TEST_CASE("the call site of a lease is the line of the call", "[buffer][lease]") {
    cuota::stream const a;
    cuota::stream const b;
    words some{10, a, cuota::device_memory{}};
    auto const first = some.write();

    unsigned const line = __LINE__ + 1;
    auto const error = thrown<cuota::usage_error>([&] { (void)some.read(b); });

    CHECK(error.where().line == line);
    CHECK(has(error.what(), "since lease.cpp:" + std::to_string(line - 3)));
}

TEST_CASE("a moved lease ends once, when its last owner is destroyed", "[buffer][lease]") {
    cuota::stream const a;
    cuota::stream const b;
    words some{10, a, cuota::device_memory{}};
    {
        std::optional<lease<support::word>> first{some.write(a)};
        lease<support::word> const second{std::move(*first)};
        CHECK(first->size() == 0);
        first.reset();
        CHECK_THROWS_AS(some.write(b), cuota::usage_error);
        CHECK(second.size() == 10);
    }
    REQUIRE_NOTHROW(some.write(b));
}

TEST_CASE("a lease stays valid when its buffer is moved", "[buffer][lease]") {
    support::captured_errors errors;
    cuota::stream const a;
    cuota::stream const b;
    words some{10, a, cuota::device_memory{}};
    {
        auto const use = some.write(b);
        words const moved{std::move(some)};
        CHECK_THROWS_AS(moved.read(a), cuota::usage_error);  // the open lease moved with its buffer
        CHECK(use.size() == 10);
        some = words{5, a, cuota::device_memory{}};
        REQUIRE_NOTHROW(some.write(a));
        CHECK(errors.take().empty());
    }
    CHECK(errors.take().size() == 1);  // moved was destroyed before its lease
}

TEST_CASE("destroying a leased buffer is reported with the call site of the lease", "[buffer][lease]") {
    support::captured_errors errors;
    cuota::stream const a;
    cuota::stream const b;
    cuota::stream_ref const s = GENERATE(0, 1) == 0 ? cuota::stream_ref{a} : cuota::stream_ref{b};
    {
        std::optional<words> some{std::in_place, 10u, a, cuota::device_memory{}};
        auto const use = some->read(s, {"train.cpp", 30});
        some.reset();

        auto const texts = errors.take();
        REQUIRE(texts.size() == 1);
        CHECK(has(texts[0], "buffer destroyed while it is leased (train.cpp:30)"));
    }
    CHECK(errors.take().empty());
}

TEST_CASE("threads may read one buffer on separate streams", "[buffer][lease][threads]") {
    cuota::stream const home;
    words some{1000, 3u, home, cuota::device_memory{}};
    auto const work = [&some] {
        cuota::stream const own;
        words to{1000, own, cuota::device_memory{}};
        for (int i = 0; i != 50; ++i) {
            auto const in = some.read(own);
            auto const out = to.write(own);
            cuota::for_each_index(own, 1000, support::copy_word{out.span().data(), in.span().data()}, "copy");
        }
        return support::all_are(to.to_vector(own), 3);
    };

    bool right = false;
    std::thread other{[&] { right = work(); }};
    bool const here = work();
    other.join();

    CHECK(here);
    CHECK(right);
    some.copy_from(std::vector<support::word>(1000, 9), home);
    CHECK(support::all_are(some.to_vector(home), 9));
}

TEST_CASE("a lease is a device pointer in the arguments of a call", "[buffer][lease]") {
    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    cuota::device_buffer<int> x{100, s, pool};
    struct call {
        static void next(int* to, int const* from, std::size_t count, cuota::stream_ref on) {
            cuota::for_each_index(on, count, next_of{to, from}, "next");
        }
    };
    call::next(x.write(s), x.read(s), x.size(), s);
    call::next(x.write(s).data(), x.write(s), x.size(), s);
    CHECK(x.to_vector(s) == std::vector<int>(100, 2));
    auto const mine = x.write(s);
    CHECK(mine.data() == mine.span().data());
    CHECK(cuota::device_buffer<int>{0, s, pool}.read(s).data() == nullptr);
}
