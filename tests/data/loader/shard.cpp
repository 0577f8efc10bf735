// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/shard.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::last_batch_policy;
using cuota::shard;
using cuota::detail::batch_partition;
using cuota::detail::batch_slice;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

// Returns the positions of all processes' batches, step by step.
numbers dealt(std::uint64_t positions, std::size_t batch, last_batch_policy last, std::uint64_t world,
              std::uint64_t begin = 0) {
    numbers all;
    batch_partition const first{positions, batch, last, {0, world}};
    std::uint64_t const steps = first.batches(begin);
    std::uint64_t position = begin;
    for (std::uint64_t step = 0; step != steps; ++step) {
        REQUIRE(position != first.end(begin));
        for (std::uint64_t rank = 0; rank != world; ++rank) {
            batch_partition const mine{positions, batch, last, {rank, world}};
            REQUIRE(mine.batches(begin) == steps);
            REQUIRE(mine.end(begin) == first.end(begin));
            auto const [from, count, end] = mine.next(position);
            REQUIRE(end == first.next(position).end);
            REQUIRE(count <= batch);
            REQUIRE(count <= mine.largest());
            if (step + 1 != steps || last == last_batch_policy::pad) REQUIRE(count == batch);
            for (std::uint64_t p = from; p != from + count; ++p) all.push_back(p);
        }
        position = first.next(position).end;
    }
    REQUIRE(position == first.end(begin));
    return all;
}
numbers counted(std::uint64_t from, std::uint64_t to) {
    numbers all;
    for (; from < to; ++from) all.push_back(from);
    return all;
}

}  // namespace

TEST_CASE("all processes together cover the positions in order, for any number of processes",
          "[data][batch_partition]") {
    for (std::uint64_t positions = 0; positions <= 26; ++positions)
        for (std::size_t batch = 1; batch <= 6; ++batch)
            for (std::uint64_t world = 1; world <= 5; ++world)
                for (std::uint64_t begin = 0; begin <= positions; ++begin) {
                    INFO(positions << " positions from " << begin << ", batches of " << batch << " in "
                                   << world);
                    std::uint64_t const step = batch * world;
                    std::uint64_t const steps = (positions - begin) / step;
                    std::uint64_t const rest = (positions - begin) % step;
                    REQUIRE(dealt(positions, batch, last_batch_policy::partial, world, begin) ==
                            counted(begin, positions));
                    REQUIRE(dealt(positions, batch, last_batch_policy::drop, world, begin) ==
                            counted(begin, begin + steps * step));
                    REQUIRE(dealt(positions, batch, last_batch_policy::pad, world, begin) ==
                            counted(begin, begin + (steps + (rest != 0)) * step));
                }
}

TEST_CASE("the parts of a step differ by one position at most", "[data][batch_partition]") {
    for (std::uint64_t positions = 0; positions <= 12; ++positions)
        for (std::uint64_t rank = 0; rank != 3; ++rank) {
            batch_partition const mine{positions, 4, last_batch_policy::partial, {rank, 3}};
            CHECK(mine.largest() == (positions + 2 - rank) / 3);
        }
}

TEST_CASE("the rest of an epoch depends on the position where it is resumed", "[data][batch_partition]") {
    batch_partition const partial{23, 2, last_batch_policy::partial, {1, 3}};
    CHECK(partial.batches(18) == 1);
    CHECK(partial.batches(23) == 0);
    CHECK(partial.end() == 23);
    CHECK(partial.next(18) == batch_slice{20, 2, 23});
    CHECK(partial.next(5) == batch_slice{7, 2, 11});
    batch_partition const drop{23, 2, last_batch_policy::drop, {1, 3}};
    CHECK(drop.end() == 18);
    CHECK(drop.end(5) == 23);
    CHECK(drop.batches(18) == 0);
    batch_partition const pad{23, 2, last_batch_policy::pad, {1, 3}};
    CHECK(pad.next(18) == batch_slice{20, 2, 23});
    CHECK(pad.next(20) == batch_slice{22, 2, 23});
}

TEST_CASE("invalid batch sizes and shards are refused", "[data][batch_partition]") {
    auto const why = [](std::uint64_t positions, std::size_t batch, shard part) {
        return std::string{thrown<cuota::usage_error>([&] {
                               batch_partition{positions, batch, last_batch_policy::partial, part};
                           }).what()};
    };
    CHECK(why(9, 0, {}) == "cuota::usage_error: loader: the batch size must be at least 1");
    CHECK(why(9, 1, {3, 3}) == "cuota::usage_error: loader: rank 3 is out of range for 3 processes");
    CHECK(why(9, 1, {0, 0}) == "cuota::usage_error: loader: rank 0 is out of range for 0 processes");
    CHECK(why(9, ~std::size_t{0}, {0, 2}) ==
          "cuota::usage_error: loader: batches of 18446744073709551615 samples "
          "for each of 2 processes overflow std::uint64_t");
    batch_partition const huge{~std::uint64_t{0}, ~std::size_t{0} / 4, last_batch_policy::partial, {3, 4}};
    CHECK(huge.batches() == 2);
    CHECK(huge.next(huge.next(0).end).end == ~std::uint64_t{0});
}
