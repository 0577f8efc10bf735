// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/async_copy.hpp>

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

using numbers = cuota::device_buffer<int>;
using pinned = cuota::pinned_buffer<int>;
using pending = cuota::pending_copy<int>;

static_assert(!std::is_copy_constructible_v<pending> && std::is_nothrow_move_constructible_v<pending>);

// upload takes pinned memory by rvalue only: a borrowed buffer could be destroyed before the copy has finished.
template <class From>
concept uploads_owned = requires(From from, numbers& to, cuota::stream_ref s) {
    cuota::upload(static_cast<From>(from), to, s);
};
static_assert(uploads_owned<pinned&&> && !uploads_owned<pinned&> && !uploads_owned<std::vector<int>&&>);

std::vector<int> counted(std::size_t count) {
    std::vector<int> host(count);
    std::iota(host.begin(), host.end(), 1);
    return host;
}

}  // namespace

TEST_CASE("an upload through a ring copies any count of elements through slots of any size",
          "[buffer][async_copy]") {
    cuota::stream const stream;
    std::size_t const count = GENERATE(0u, 1u, 255u, 256u, 257u, 10'000u);
    std::size_t const slot_bytes = GENERATE(1024u, 4096u, 1001u, 7u);
    if (slot_bytes == 7 && count > 300) return;  // would be thousands of copies
    cuota::staging_ring ring{2, slot_bytes};
    numbers to{count, -1, stream, cuota::device_memory{}};

    cuota::upload(counted(count), to, ring, stream);

    CHECK(to.to_vector(stream) == counted(count));
}

TEST_CASE("an upload keeps its pinned_buffer until the copy has finished, and returns it for the next upload",
          "[buffer][async_copy]") {
    cuota::stream const stream;
    cuota::stream const other;
    numbers to{1000, -1, stream, cuota::device_memory{}};
    pinned from{1000};
    std::ranges::fill(from.write(), 3);

    pending first = cuota::upload(std::move(from), to, stream);
    CHECK(from.is_empty());
    first.make_wait(other);
    pinned again = std::move(first).take();
    CHECK(again.size() == 1000);
    std::ranges::fill(again.write(), 4);
    { pending const dropped = cuota::upload(std::move(again), to, other); }

    CHECK(to.to_vector(stream) == std::vector<int>(1000, 4));
}

TEST_CASE("a download has the values that the buffer held when it was enqueued", "[buffer][async_copy]") {
    cuota::stream const stream;
    cuota::budget account{"pinned", 1_MiB};
    numbers from{1000, 7, stream, cuota::device_memory{}};

    pending const taken = cuota::download(from, stream);
    pending charged = cuota::download(from, stream, account, "result");
    pending reused = cuota::download(from, pinned{1000}, stream);
    from.copy_from(std::vector<int>(1000, 8), stream);

    CHECK(account.held() == 1000 * sizeof(int));
    for (pending const* p : {&taken, &std::as_const(charged), &std::as_const(reused)}) {
        auto const seen = p->get();
        CHECK(std::ranges::count(seen, 7) == 1000);
        CHECK(p->is_done());
    }
    pinned const kept = std::move(charged).take();
    CHECK(std::ranges::count(kept.read(), 7) == 1000);
}

TEST_CASE("uploads and downloads of no elements are allowed", "[buffer][async_copy]") {
    cuota::stream const stream;
    cuota::staging_ring ring{1, 0};
    numbers none{0, stream, cuota::device_memory{}};

    REQUIRE_NOTHROW(cuota::upload({}, none, ring, stream));
    pending up = cuota::upload(pinned{0}, none, stream);
    CHECK(std::move(up).take().is_empty());
    pending const down = cuota::download(none, stream);
    CHECK(down.get().empty());
}

TEST_CASE("copies of another count than the buffer's are refused and change no elements",
          "[buffer][async_copy]") {
    cuota::stream const stream;
    cuota::staging_ring ring{1, 1024};
    cuota::staging_ring no_bytes{1, 0};
    numbers some{10, 1, stream, cuota::device_memory{}};
    pinned host{11};
    std::ranges::fill(host.write(), 5);

    auto const error = thrown<cuota::usage_error>([&] {
        cuota::upload(std::vector<int>(11, 5), some, ring, stream, {"train.cpp", 3});
    });
    CHECK(has(error.what(), "11 elements"));
    CHECK(has(error.what(), "buffer of 10"));
    CHECK(has(error.what(), "train.cpp:3"));
    CHECK_THROWS_AS((void)cuota::upload(std::move(host), some, stream), cuota::usage_error);
    CHECK_THROWS_AS((void)cuota::download(some, std::move(host), stream), cuota::usage_error);
    CHECK_THROWS_AS(cuota::upload(std::vector<int>(10, 5), some, no_bytes, stream), cuota::usage_error);

    CHECK(host.size() == 11);
    CHECK(host.read()[10] == 5);
    CHECK(some.to_vector(stream) == std::vector<int>(10, 1));
}

TEST_CASE("a moved-from pending_copy throws usage_error", "[buffer][async_copy]") {
    cuota::stream const stream;
    numbers const from{10, 7, stream, cuota::device_memory{}};
    pending first = cuota::download(from, stream);
    pending second{std::move(first)};

    CHECK_THROWS_AS((void)first.get(), cuota::usage_error);
    CHECK_THROWS_AS((void)first.is_done(), cuota::usage_error);
    CHECK_THROWS_AS(first.make_wait(stream), cuota::usage_error);
    CHECK(has(thrown<cuota::usage_error>([&] {
                  (void)std::move(first).take({"train.cpp", 4});
              }).what(),
              "train.cpp:4"));

    first = std::move(second);
    CHECK(first.get()[9] == 7);
}
