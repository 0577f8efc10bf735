// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/sample_too_long_error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/loader_config.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/samplers/sampler.hpp>

#include "support/catch.hpp"
#include "support/ragged_texts.hpp"
#include "support/rounds.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::last_batch_policy;
using cuota::loader_options;
using cuota::detail::any_dataset;
using cuota::detail::batch_slice;
using cuota::detail::loader_config;
using cuota::detail::row_batcher;
using cuota::detail::sample_list;
using support::mentions;
using support::ragged_texts;
using numbers = std::vector<std::uint64_t>;

namespace {

// The batches of one process in an epoch.
struct batched_epoch {
    std::vector<sample_list> batches;
    std::vector<batch_slice> at;
};

template <class S>
batched_epoch deal(S const& dataset, loader_options const& how, std::uint64_t begin = 0,
                   std::uint64_t epoch = 0) {
    any_dataset const from{dataset};
    loader_config const shape{from, how};
    row_batcher const by_rows{shape, from};
    sample_list mine = shape.list_with_room();
    sample_list others = shape.list_with_room();
    batched_epoch made;
    for (std::uint64_t position = begin; position != shape.positions; position = made.at.back().end) {
        auto const next = by_rows.next(epoch, position, mine, others);
        if (!next) break;
        REQUIRE(next->count == mine.size());
        REQUIRE((next->end > position));
        made.batches.push_back(mine);
        made.at.push_back(*next);
    }
    return made;
}

// Returns the samples of the batch that begins at a position, found one at a time.
numbers fitting(ragged_texts const& texts, numbers const& order, std::uint64_t position,
                loader_options const& how) {
    numbers batch;
    std::uint64_t rows = 0;
    for (std::uint64_t p = position; batch.size() != how.batch_size; ++p) {
        if (p >= order.size() && how.last_batch != last_batch_policy::pad) break;
        std::uint64_t const sample = order[p % order.size()];
        rows += texts.lengths[sample];
        if (rows > how.max_rows) break;
        batch.push_back(sample);
    }
    return batch;
}

}  // namespace

TEST_CASE("a batch has as many samples as its limits of rows and samples allow", "[data][row_batcher]") {
    for (std::uint64_t seed = 0; seed < 40; seed += 40 / support::rounds(40U)) {
        ragged_texts const texts = ragged_texts::any(1 + seed * 5, 12, seed);
        for (std::size_t const batch : {1U, 3U, 70U, 300U})
            for (std::size_t const rows : {12U, 13U, 40U, 900U})
                for (last_batch_policy const last :
                     {last_batch_policy::partial, last_batch_policy::drop, last_batch_policy::pad}) {
                    loader_options const how{
                        .batch_size = batch, .max_rows = rows, .seed = seed, .last_batch = last};
                    batched_epoch const epoch = deal(texts.classed(), how, 0, 3);
                    numbers order(texts.lengths.size());
                    cuota::shuffle_sampler{seed}.draw(order.size(), 3, 0, order);
                    std::uint64_t position = 0;
                    for (std::size_t i = 0; i != epoch.batches.size(); ++i) {
                        REQUIRE(epoch.at[i].first == position);
                        numbers const expected = fitting(texts, order, position, how);
                        REQUIRE(epoch.batches[i].numbers == expected);
                        REQUIRE(epoch.batches[i].row_offsets ==
                                std::vector<numbers>{texts.offsets_of(expected)});
                        position = std::min<std::uint64_t>(position + expected.size(), order.size());
                        REQUIRE(epoch.at[i].end == position);
                    }
                    if (last != last_batch_policy::drop) REQUIRE(position == order.size());
                    else {  // the rest fits a batch that is not full
                        loader_options partial = how;
                        partial.last_batch = last_batch_policy::partial;
                        numbers const rest =
                            position == order.size() ? numbers{} : fitting(texts, order, position, partial);
                        REQUIRE(position + rest.size() == order.size());
                        REQUIRE(rest.size() < batch);
                    }
                }
    }
}

TEST_CASE("the end of a batch depends only on its beginning", "[data][row_batcher]") {
    ragged_texts const texts = ragged_texts::any(60, 9);
    loader_options const how{.batch_size = 8, .max_rows = 20, .seed = 5};
    batched_epoch const whole = deal(texts.words(), how);
    for (std::size_t i = 0; i != whole.at.size(); ++i) {
        batched_epoch const rest = deal(texts.words(), how, whole.at[i].end);
        REQUIRE(rest.at == std::vector<batch_slice>(whole.at.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                                    whole.at.end()));
    }
}

TEST_CASE("each of several processes has its own batch of a step, and all have equally many batches",
          "[data][row_batcher]") {
    for (std::uint64_t samples = 0; samples <= 30; ++samples) {
        ragged_texts const texts = ragged_texts::any(samples, 6, samples);
        for (std::uint64_t world = 1; world <= 4; ++world)
            for (last_batch_policy const last :
                 {last_batch_policy::partial, last_batch_policy::drop, last_batch_policy::pad}) {
                std::vector<batched_epoch> ranks;
                for (std::uint64_t rank = 0; rank != world; ++rank)
                    ranks.push_back(
                        deal(texts.words(),
                             {.batch_size = 4, .max_rows = 10, .last_batch = last, .shard = {rank, world}}));
                numbers all;
                for (std::size_t step = 0; step != ranks[0].at.size(); ++step)
                    for (batched_epoch const& mine : ranks) {
                        REQUIRE(mine.at.size() == ranks[0].at.size());
                        REQUIRE(mine.at[step].end == ranks[0].at[step].end);
                        REQUIRE(mine.at[step].first == all.size());
                        numbers const& now = mine.batches[step].numbers;
                        all.insert(all.end(), now.begin(), now.end());
                        if (last != last_batch_policy::partial || step + 1 != ranks[0].at.size())
                            REQUIRE(!now.empty());
                    }
                if (last == last_batch_policy::partial) REQUIRE(all.size() == samples);
                if (last == last_batch_policy::drop) REQUIRE(all.size() <= samples);
                if (last == last_batch_policy::pad) REQUIRE(all.size() >= samples);
                for (std::size_t i = 0; i != all.size(); ++i) REQUIRE(all[i] == i % samples);
            }
    }
}

TEST_CASE("each of several ragged fields has its own limit of rows", "[data][row_batcher]") {
    ragged_texts const texts{{5, 1, 1, 1, 6}};
    ragged_texts const answers{{1, 3, 4, 3, 1}};
    cuota::zip_dataset const both{texts.words(), answers.words()};
    batched_epoch const epoch = deal(both, {.batch_size = 9, .max_rows = 7});
    std::vector<numbers> found;
    for (sample_list const& batch : epoch.batches) {
        found.push_back(batch.numbers);
        CHECK(batch.row_offsets ==
              std::vector<numbers>{texts.offsets_of(batch.numbers), answers.offsets_of(batch.numbers)});
    }
    CHECK(found == std::vector<numbers>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("a batch can have samples without rows", "[data][row_batcher]") {
    batched_epoch const none = deal(ragged_texts{numbers(7, 0)}.words(), {.batch_size = 3, .max_rows = 1});
    CHECK(none.at == std::vector<batch_slice>{{0, 3, 3}, {3, 3, 6}, {6, 1, 7}});
    batched_epoch const full = deal(ragged_texts{{4, 0, 0, 1}}.words(), {.batch_size = 9, .max_rows = 4});
    CHECK(full.at == std::vector<batch_slice>{{0, 3, 3}, {3, 1, 4}});  // empty samples fit a full batch
}

TEST_CASE("a sample with more rows than a batch may have is refused by its number", "[data][row_batcher]") {
    ragged_texts const texts{{5, 1, 8, 1}};
    auto const error = support::thrown<cuota::sample_too_long_error>(
        [&] { (void)deal(texts.classed(), {.batch_size = 4, .max_rows = 7}); });
    CHECK(error.sample() == 2);
    CHECK(error.rows() == 8);
    CHECK(error.most() == 7);
    CHECK(std::string{error.what()} ==
          "cuota::sample_too_long_error: words + class: sample 2 has 8 rows of words "
          "u32[*]; loader_options::max_rows limits a batch to 7");
    CHECK(deal(texts.classed(), {.batch_size = 4, .max_rows = 8}).at.size() == 3);
    ragged_texts const endless{{1, ~std::uint64_t{0} - 1}};  // the sum would overflow
    any_dataset const from{cuota::ragged_dataset{
        cuota::callable_dataset{"rows", ~std::uint64_t{0}, {{"x"}}, [](auto, auto) {}}, endless.offsets}};
    loader_config const shape{from, {.batch_size = 4, .max_rows = 7}};
    sample_list mine = shape.list_with_room(), others;
    CHECK(row_batcher{shape, from}.next(0, 0, mine, others) == batch_slice{0, 1, 1});
    CHECK_THROWS_AS((row_batcher{shape, from}.next(0, 1, mine, others)), cuota::sample_too_long_error);
}
