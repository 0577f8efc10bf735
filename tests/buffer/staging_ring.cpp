// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/staging_ring.hpp>

#include <algorithm>
#include <cstring>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::staging_ring;
using support::has;
using support::thrown;

namespace {

using lease = staging_ring::staging_slot;
static_assert(!std::is_copy_constructible_v<lease> && std::is_nothrow_move_constructible_v<lease>);
static_assert(std::is_copy_constructible_v<staging_ring::in_flight>);

// submit consumes the lease: a named one must be moved explicitly.
template <class Lease>
concept submits = requires(Lease&& l, cuota::stream_ref s, cuota::device_span<std::byte> to) {
    std::forward<Lease>(l).submit(s, to, std::size_t{1});
};
static_assert(submits<lease> && !submits<lease&> && !submits<lease const&>);

using bytes = cuota::device_buffer<std::byte>;

void fill(std::span<std::byte> slot, int value) { std::ranges::fill(slot, static_cast<std::byte>(value)); }

std::vector<std::byte> all(std::size_t count, int value) {
    return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

}  // namespace

TEST_CASE("a staging_ring charges a budget exactly its slots when it is constructed",
          "[buffer][staging_ring]") {
    cuota::budget host{"pinned", 3 * 1001};
    {
        staging_ring ring{3, 1001, host, "slots"};
        CHECK(ring.slots() == 3);
        CHECK(ring.slot_bytes() == 1001);
        CHECK(ring.bytes() == 3003);
        CHECK(host.held() == 3003);
        for (int i = 0; i != 10; ++i) (void)ring.acquire();
        CHECK(host.held() == 3003);

        auto const refused = thrown<cuota::budget_exceeded>([&] {
            staging_ring const another{1, 1, host, "more", {"train.cpp", 12}};
        });
        CHECK(has(refused.what(), "for more at train.cpp:12"));
        CHECK(has(refused.what(), "slots 2.9 KiB"));
    }
    CHECK(host.held() == 0);
}

TEST_CASE("a staging_ring without slots, of device memory or of too large a size is refused",
          "[buffer][staging_ring]") {
    CHECK_THROWS_AS((staging_ring{0, 100}), cuota::usage_error);
    CHECK_THROWS_AS((staging_ring{2, 100, cuota::any_resource{cuota::device_memory{}}}), cuota::usage_error);
    CHECK_THROWS_AS((staging_ring{3, cuota::unlimited / 2}), cuota::out_of_memory);
    REQUIRE_NOTHROW(staging_ring{2, 0});
}

TEST_CASE("the slots of a staging_ring do not overlap", "[buffer][staging_ring]") {
    staging_ring ring{4, 100};
    std::vector<lease> leases;
    for (int i = 0; i != 4; ++i) {
        leases.push_back(ring.acquire());
        REQUIRE(leases.back().bytes().size() == 100);
        fill(leases.back().bytes(), i);
    }
    for (std::size_t i = 0; i != 4; ++i)
        CHECK(std::ranges::all_of(leases[i].bytes(),
                                  [=](std::byte b) { return b == static_cast<std::byte>(i); }));
}

TEST_CASE("submitted slots are copied in order", "[buffer][staging_ring]") {
    cuota::stream const stream;
    staging_ring ring{2, 4096};
    bytes there{4096, stream, cuota::device_memory{}};

    for (int i = 0; i != 20; ++i) {
        lease slot = ring.acquire();
        fill(slot.bytes(), i);
        auto const to = there.write(stream);
        auto const copy = std::move(slot).submit(stream, to.span(), 4096);
        if (i % 5 == 0) {
            copy.synchronize();
            REQUIRE(copy.is_done());
        }
        if (i % 3 == 0) REQUIRE(there.to_vector(stream) == all(4096, i));
    }
    CHECK(there.to_vector(stream) == all(4096, 19));
}

TEST_CASE("a submit copies only the submitted bytes", "[buffer][staging_ring]") {
    cuota::stream const stream;
    staging_ring ring{1, 100};
    bytes there{100, stream, cuota::device_memory{}};
    lease slot = ring.acquire();
    fill(slot.bytes(), 7);

    (void)std::move(slot).submit(stream, there.write(stream), 30);

    auto expected = all(100, 0);
    std::ranges::fill_n(expected.begin(), 30, std::byte{7});
    CHECK(there.to_vector(stream) == expected);
}

TEST_CASE("a submit of no bytes is allowed", "[buffer][staging_ring]") {
    cuota::stream const stream;
    staging_ring ring{1, 100};

    auto const copy = ring.acquire().submit(stream, {}, 0);

    copy.synchronize();
    CHECK(copy.is_done());
    CHECK(ring.try_acquire());
}

TEST_CASE("a lease that is not submitted returns its slot", "[buffer][staging_ring]") {
    staging_ring ring{1, 100};
    for (int i = 0; i != 5; ++i) {
        auto slot = ring.try_acquire();
        REQUIRE(slot);
        CHECK_FALSE(ring.try_acquire());
    }
    lease first = ring.acquire();
    {
        lease second{std::move(first)};
        CHECK(first.bytes().empty());
        CHECK(second.bytes().size() == 100);
        CHECK_FALSE(ring.try_acquire());
        first = std::move(second);
    }
    CHECK_FALSE(ring.try_acquire());
    lease& same = first;
    first = std::move(same);
    CHECK(first.bytes().size() == 100);
}

TEST_CASE("a lease that is assigned to returns its previous slot", "[buffer][staging_ring]") {
    staging_ring ring{2, 100};
    lease first = ring.acquire();
    lease second = ring.acquire();
    CHECK_FALSE(ring.try_acquire());

    first = std::move(second);

    CHECK(ring.try_acquire());
}

TEST_CASE("a submit that is larger than its slot or its target is misuse, and the slot returns to the ring",
          "[buffer][staging_ring]") {
    cuota::stream const stream;
    staging_ring ring{1, 100};
    bytes large{200, stream, cuota::device_memory{}};
    bytes small{50, stream, cuota::device_memory{}};

    auto const error = thrown<cuota::usage_error>([&] {
        (void)ring.acquire().submit(stream, large.write(stream), 101, {"loader.cpp", 5});
    });
    CHECK(has(error.what(), "cannot copy 101 B from a slot of 100 B to a target of 200 B (loader.cpp:5)"));
    CHECK(ring.try_acquire());
    CHECK_THROWS_AS(ring.acquire().submit(stream, small.write(stream), 51), cuota::usage_error);
    CHECK(ring.try_acquire());
    REQUIRE_NOTHROW(ring.acquire().submit(stream, small.write(stream), 50));
}

TEST_CASE("a lease cannot be submitted twice", "[buffer][staging_ring]") {
    cuota::stream const stream;
    staging_ring ring{2, 100};
    bytes there{100, stream, cuota::device_memory{}};
    lease slot = ring.acquire();
    (void)std::move(slot).submit(stream, there.write(stream), 100);
    std::size_t const again = GENERATE(0u, 100u);

    CHECK(slot.bytes().empty());
    CHECK_THROWS_AS(std::move(slot).submit(stream, there.write(stream), again), cuota::usage_error);
}

TEST_CASE("a wait for a slot ends when a stop is requested", "[buffer][staging_ring]") {
    staging_ring ring{1, 100};
    std::stop_source stop;

    SECTION("during the wait") {
        lease const taken = ring.acquire();
        bool got = true;
        std::jthread waiting{[&] { got = ring.acquire(stop.get_token()).has_value(); }};
        stop.request_stop();
        waiting.join();
        CHECK_FALSE(got);
    }
    SECTION("before the wait, although a slot is free") {
        stop.request_stop();
        CHECK_FALSE(ring.acquire(stop.get_token()));
        CHECK(ring.try_acquire());
    }
    SECTION("without a request, acquire returns a slot") {
        CHECK(ring.acquire(stop.get_token()));
        CHECK(ring.acquire(std::stop_token{}));
    }
}

TEST_CASE("a wait for a slot ends when another thread returns one", "[buffer][staging_ring]") {
    staging_ring ring{1, 100};
    std::optional<lease> taken{ring.acquire()};
    bool got = false;
    std::thread waiting{[&] { got = ring.acquire().bytes().size() == 100; }};
    taken.reset();
    waiting.join();
    CHECK(got);
}

TEST_CASE("leases and copies outlive their staging_ring", "[buffer][staging_ring]") {
    support::captured_errors errors;
    cuota::budget host{"pinned", 1_MiB};
    cuota::stream const stream;
    bytes there{100, stream, cuota::device_memory{}};
    {
        std::optional<staging_ring> ring{std::in_place, 2u, 100u, host};
        lease slot = ring->acquire();
        ring.reset();
        CHECK(host.held() == 200);
        fill(slot.bytes(), 3);
        auto const copy = std::move(slot).submit(stream, there.write(stream), 100);
        copy.synchronize();
    }
    CHECK(host.held() == 0);
    CHECK(there.to_vector(stream) == all(100, 3));
    CHECK(errors.take().empty());
}

TEST_CASE("two threads fill slots of one staging_ring, and each copy is complete",
          "[buffer][staging_ring][threads]") {
    staging_ring ring{3, 4096};
    auto const work = [&ring](int salt) {
        cuota::stream const own;
        bytes there{4096, own, cuota::device_memory{}};
        bool right = true;
        for (int i = 0; i != 200; ++i) {
            lease slot = ring.acquire();
            fill(slot.bytes(), salt + i);
            auto const copy = std::move(slot).submit(own, there.write(own), 4096);
            if (i % 20 == 0) right = right && there.to_vector(own) == all(4096, salt + i);
            if (i % 7 == 0) copy.synchronize();
            (void)copy.is_done();
        }
        return right;
    };
    bool there = false;
    std::thread other{[&] { there = work(100); }};
    bool const here = work(0);
    other.join();

    CHECK(here);
    CHECK(there);
}

TEST_CASE("make_wait orders a copy before work on another stream", "[buffer][staging_ring]") {
    cuota::stream const copies;
    cuota::stream const computes;
    staging_ring ring{2, 4000};
    cuota::device_buffer<int> there{1000, copies, cuota::device_memory{}, cuota::no_init};
    cuota::device_buffer<int> result{1000, computes, cuota::device_memory{}};
    int* const at = [&] {
        auto const use = there.write(copies);
        return use.span().data();
    }();

    for (int round = 1; round != 10; ++round) {
        lease slot = ring.acquire();
        std::vector<int> const values(1000, round);
        std::memcpy(slot.bytes().data(), values.data(), 4000);
        auto const copy = std::move(slot).submit(copies, {reinterpret_cast<std::byte*>(at), 4000}, 4000);
        copy.make_wait(computes);
        {
            auto const to = result.write(computes);
            cuota::rt::copy_on_device(to.span().data(), at, 4000, computes);
        }
        REQUIRE(result.to_vector(computes) == values);
        copies.wait(cuota::event{computes});
    }
}

TEST_CASE("a staging_ring of device memory is refused unless the device writes its slots",
          "[buffer][staging_ring]") {
    cuota::stream const s;
    cuota::label const who{"slots", cuota::source_location::current()};
    CHECK(has(thrown<cuota::usage_error>([&] {
                  staging_ring{2, 64, cuota::device_memory{}, who};
              }).what(),
              "staging_ring: cannot use a resource of device memory, which the host cannot fill"));
    staging_ring ring{
        2, 64, cuota::device_memory{}, who, cuota::pin_failure_policy::refuse, cuota::staging_writer::device};
    bytes from{64, s, cuota::device_memory{}};
    bytes to{64, s, cuota::device_memory{}};
    from.copy_from(all(64, 9), s);
    s.synchronize();
    lease slot = ring.acquire();
    auto const lent = from.read(s);
    cuota::rt::copy_on_device(slot.bytes().data(), lent.span().data(), 64, s);
    s.synchronize();  // complete, as after a read from a file
    auto const copy = std::move(slot).submit(s, to.write(s), 64);
    copy.synchronize();
    CHECK(to.to_vector(s) == all(64, 9));
}
