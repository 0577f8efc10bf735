// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/batch_deal.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::last_batch;
using cuota::shard;
using cuota::detail::batch_deal;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

// The positions of all processes' batches, step after step.
numbers dealt(std::uint64_t positions, std::size_t batch, last_batch last, std::uint64_t world,
              std::uint64_t begin = 0) {
    numbers all;
    std::uint64_t const steps = batch_deal{positions, batch, last, {0, world}, begin}.batches();
    for (std::uint64_t step = 0; step != steps; ++step)
        for (std::uint64_t rank = 0; rank != world; ++rank) {
            batch_deal const mine{positions, batch, last, {rank, world}, begin};
            REQUIRE(mine.batches() == steps);
            auto const [first, count] = mine.of(step);
            REQUIRE(count <= batch);
            REQUIRE(count <= batch_deal(positions, batch, last, {rank, world}).largest());
            if (step + 1 != steps || last == last_batch::pad) REQUIRE(count == batch);
            for (std::uint64_t p = first; p != first + count; ++p) all.push_back(p);
        }
    return all;
}
numbers counted(std::uint64_t from, std::uint64_t to) {
    numbers all;
    for (; from < to; ++from) all.push_back(from);
    return all;
}

}  // namespace

TEST_CASE("all processes together take the positions in order, whatever their number", "[data][batch_deal]") {
    for (std::uint64_t positions = 0; positions <= 26; ++positions)
        for (std::size_t batch = 1; batch <= 6; ++batch)
            for (std::uint64_t world = 1; world <= 5; ++world)
                for (std::uint64_t begin = 0; begin <= positions; ++begin) {
                    INFO(positions << " positions from " << begin << ", batches of " << batch << " in "
                                   << world);
                    std::uint64_t const step = batch * world;
                    std::uint64_t const steps = (positions - begin) / step;
                    std::uint64_t const rest = (positions - begin) % step;
                    REQUIRE(dealt(positions, batch, last_batch::partial, world, begin) ==
                            counted(begin, positions));
                    REQUIRE(dealt(positions, batch, last_batch::drop, world, begin) ==
                            counted(begin, begin + steps * step));
                    REQUIRE(dealt(positions, batch, last_batch::pad, world, begin) ==
                            counted(begin, begin + (steps + (rest != 0)) * step));
                }
}

TEST_CASE("the parts of a step differ by one position at most", "[data][batch_deal]") {
    for (std::uint64_t positions = 0; positions <= 12; ++positions)
        for (std::uint64_t rank = 0; rank != 3; ++rank) {
            batch_deal const mine{positions, 4, last_batch::partial, {rank, 3}};
            CHECK(mine.largest() == (positions + 2 - rank) / 3);
        }
}

TEST_CASE("where an epoch is after some batches is where it goes on", "[data][batch_deal]") {
    batch_deal const partial{23, 2, last_batch::partial, {1, 3}};
    CHECK(partial.position_after(0) == 0);
    CHECK(partial.position_after(3) == 18);
    CHECK(partial.position_after(4) == 23);
    CHECK(batch_deal{23, 2, last_batch::partial, {1, 3}, 18}.batches() == 1);
    CHECK(batch_deal{23, 2, last_batch::partial, {1, 3}, 23}.batches() == 0);
    batch_deal const late{23, 2, last_batch::partial, {1, 3}, 5};
    CHECK(late.position_after(2) == 17);
    CHECK(late.position_after(late.batches()) == 23);
    batch_deal const drop{23, 2, last_batch::drop, {1, 3}};
    CHECK(drop.position_after(drop.batches()) == 18);
    CHECK(batch_deal{23, 2, last_batch::drop, {1, 3}, 18}.batches() == 0);
    batch_deal const pad{23, 2, last_batch::pad, {1, 3}};
    CHECK(pad.position_after(pad.batches()) == 23);
}

TEST_CASE("what cannot be dealt is refused", "[data][batch_deal]") {
    auto const why = [](std::uint64_t positions, std::size_t batch, shard part, std::uint64_t begin = 0) {
        return std::string{thrown<cuota::misuse>([&] {
                               batch_deal{positions, batch, last_batch::partial, part, begin};
                           }).what()};
    };
    CHECK(why(9, 0, {}) == "cuota::misuse: a loader was given a batch of 0 samples");
    CHECK(why(9, 1, {3, 3}) == "cuota::misuse: a loader was given rank 3 of 3 processes");
    CHECK(why(9, 1, {0, 0}) == "cuota::misuse: a loader was given rank 0 of 0 processes");
    CHECK(why(9, 1, {}, 10) == "cuota::misuse: an epoch was to go on from position 10 of 9");
    CHECK(
        why(9, ~std::size_t{0}, {0, 2}) ==
        "cuota::misuse: batches of 18446744073709551615 samples for each of 2 processes are more than can be "
        "counted");
    batch_deal const huge{~std::uint64_t{0}, ~std::size_t{0} / 4, last_batch::partial, {3, 4}};
    CHECK(huge.batches() == 2);
    CHECK(huge.position_after(2) == ~std::uint64_t{0});
}
