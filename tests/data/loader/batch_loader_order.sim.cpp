// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_loader.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::last_batch_policy;
using cuota::loader_options;
using cuota::loader_state;
using support::has;
using support::machine;
using support::numbered_source;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

// Returns the samples of the remaining batches; checks their values on the device.
numbers rest_of(cuota::epoch_range epoch) {
    cuota::stream const s;
    numbers all;
    while (std::optional<cuota::batch> const b = epoch.next()) {
        numbers const now(b->samples().begin(), b->samples().end());
        auto const values = support::seen_by(s, *b);
        REQUIRE(numbers(values.begin(), values.end()) == now);
        all.insert(all.end(), now.begin(), now.end());
    }
    return all;
}

// Returns the samples of all processes, step by step.
numbers of_all_processes(std::uint64_t samples, loader_options how, std::uint64_t world,
                         loader_state const& from) {
    std::vector<std::vector<numbers>> batches;
    for (std::uint64_t rank = 0; rank != world; ++rank) {
        how.shard = {rank, world};
        cuota::batch_loader loader{numbered_source{samples, 1}, how};
        std::vector<numbers>& mine = batches.emplace_back();
        for (cuota::batch const b : loader.epoch(from))
            mine.emplace_back(b.samples().begin(), b.samples().end());
        REQUIRE(mine.size() == batches.front().size());  // otherwise collectives hang
    }
    numbers all;
    for (std::size_t step = 0; step != batches.front().size(); ++step)
        for (auto const& mine : batches) all.insert(all.end(), mine[step].begin(), mine[step].end());
    return all;
}

}  // namespace

TEST_CASE("batch_loader delivers the samples that its sampler draws", "[data][batch_loader]") {
    machine const on;
    auto const order = [](cuota::any_sampler const& by, std::uint64_t epoch) {
        cuota::batch_loader loader{numbered_source{20}, {.batch_size = 3, .sampler = by, .workers = 2}};
        CHECK(loader.plan().batches == (by.size(20) + 2) / 3);
        return rest_of(loader.epoch(epoch));
    };
    CHECK(order(cuota::subset_sampler{{9, 9, 4, 19}}, 5) == numbers{9, 9, 4, 19});
    for (cuota::any_sampler const& by : {cuota::any_sampler{cuota::shuffle_sampler{4}},
                                         cuota::any_sampler{cuota::block_shuffle_sampler{4, 6}}}) {
        numbers expected(20);
        by.draw(20, 5, 0, expected);
        CHECK(order(by, 5) == expected);
    }
    cuota::batch_loader by_seed{numbered_source{20}, {.batch_size = 3, .seed = 4}};
    CHECK(rest_of(by_seed.epoch(5)) == order(cuota::shuffle_sampler{4}, 5));
}

TEST_CASE("a loader resumes where another stopped, after any read-ahead, with any number of workers",
          "[data][batch_loader]") {
    machine const on;
    constexpr std::uint64_t samples = 23;
    for (last_batch_policy const last :
         {last_batch_policy::partial, last_batch_policy::drop, last_batch_policy::pad}) {
        loader_options how{.batch_size = 3, .seed = 7, .last_batch = last};
        cuota::batch_loader reference{numbered_source{samples}, how};
        numbers const whole = rest_of(reference.epoch(2));
        for (std::size_t delivered = 0; delivered <= reference.plan().batches; ++delivered) {
            how.workers = 1 + delivered % 3;
            std::string saved;
            numbers before;
            {
                cuota::batch_loader loader{numbered_source{samples}, how};
                auto epoch = loader.epoch(2);
                for (std::size_t i = 0; i != delivered; ++i) {
                    auto const b = epoch.next();
                    before.insert(before.end(), b->samples().begin(), b->samples().end());
                }
                saved = loader.state().text();
            }
            how.workers = 1 + (delivered + 1) % 3;
            cuota::batch_loader loader{numbered_source{samples}, how};
            numbers const after = rest_of(loader.epoch(loader_state::parse(saved)));
            before.insert(before.end(), after.begin(), after.end());
            REQUIRE(before == whole);
            REQUIRE(rest_of(loader.epoch(2)) == whole);  // the next epoch is complete
        }
    }
}

TEST_CASE("the order is the same for any number of processes, also if another number resumes it",
          "[data][batch_loader]") {
    machine const on;
    constexpr std::uint64_t samples = 17;
    loader_options how{.seed = 3};
    numbers whole;
    loader_state start;
    {
        how.batch_size = samples;
        cuota::batch_loader loader{numbered_source{samples}, how};
        start = loader.state();
        whole = rest_of(loader.epoch(start));
    }
    CHECK(start == loader_state{0, 0, start.order});
    for (std::uint64_t world = 1; world <= 4; ++world)
        for (std::size_t batch = 1; batch <= 3; ++batch)
            for (std::uint64_t position = 0; position <= samples; position += world * batch) {
                how.batch_size = batch;
                loader_state from = start;
                from.position = position;
                numbers expected(whole.begin() + static_cast<std::ptrdiff_t>(position), whole.end());
                how.last_batch = last_batch_policy::partial;
                REQUIRE(of_all_processes(samples, how, world, from) == expected);
                std::uint64_t const step = world * batch;
                numbers padded = expected;
                for (std::uint64_t more = 0; padded.size() % step != 0; ++more)
                    padded.push_back(whole[more % samples]);
                how.last_batch = last_batch_policy::pad;
                REQUIRE(of_all_processes(samples, how, world, from) == padded);
                expected.resize(expected.size() / step * step);
                how.last_batch = last_batch_policy::drop;
                REQUIRE(of_all_processes(samples, how, world, from) == expected);
            }
}

TEST_CASE("a dataset smaller than a step is padded by repeating it", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{3}, {.batch_size = 8, .last_batch = last_batch_policy::pad}};
    CHECK(loader.plan().batch_size == 8);
    CHECK(rest_of(loader.epoch(0)) == numbers{0, 1, 2, 0, 1, 2, 0, 1});
    cuota::batch_loader none{numbered_source{0}, {.batch_size = 8, .last_batch = last_batch_policy::pad}};
    CHECK(rest_of(none.epoch(0)).empty());
}

TEST_CASE("a process without samples in the last step has an empty batch", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{5}, {.batch_size = 2, .shard = {1, 2}}};
    auto epoch = loader.epoch(0);
    CHECK(epoch.next()->size() == 2);
    std::optional<cuota::batch> const last = epoch.next();
    REQUIRE(last);
    CHECK(last->size() == 0);
    CHECK(last->view<std::uint32_t>(s).is_empty());
    CHECK_FALSE(epoch.next());
}

TEST_CASE("a state of another order or other samples is refused and leaves the loader unchanged",
          "[data][batch_loader]") {
    machine const on;
    loader_options const how{.batch_size = 4, .seed = 1};
    cuota::batch_loader loader{numbered_source{10}, how};
    cuota::batch_loader of_more{numbered_source{11}, how};
    cuota::batch_loader by_another{numbered_source{10}, {.batch_size = 4, .seed = 2}};
    for (loader_state const& other : {of_more.state(), by_another.state()}) {
        auto const error = thrown<cuota::usage_error>([&] {
            (void)loader.epoch(other, {}, {"train.cpp", 12});
        });
        CHECK(has(error.what(), "loader of numbers: cannot resume"));
        CHECK(has(error.what(), "(train.cpp:12)"));
    }
    loader_state beyond = loader.state();
    beyond.position = 11;
    CHECK(has(thrown<cuota::usage_error>([&] { (void)loader.epoch(beyond); }).what(), "position 11 of 10"));
    CHECK(rest_of(loader.epoch(0)).size() == 10);
}

TEST_CASE("a loader refuses a seed beside a sampler, invalid shards and samples that are out of range",
          "[data][batch_loader]") {
    machine const on;
    numbered_source const from{10};
    CHECK(has(
        thrown<cuota::usage_error>([&] {
            cuota::batch_loader{from, {.batch_size = 1, .seed = 1, .sampler = cuota::sequential_sampler{}}};
        }).what(),
        "loader of numbers: seed and sampler cannot be combined"));
    CHECK_THROWS_AS((cuota::batch_loader{from, {.batch_size = 1, .shard = {2, 2}}}), cuota::usage_error);
    CHECK_THROWS_AS((cuota::batch_loader{from, {.batch_size = 1, .sampler = cuota::subset_sampler{{10}}}}),
                    cuota::usage_error);
    CHECK_THROWS_AS((void)cuota::plan_loader(from, {.batch_size = 1, .shard = {2, 2}}), cuota::usage_error);
}

TEST_CASE("an exception of a sampler is thrown in place of its batch", "[data][batch_loader]") {
    struct failing {
        [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return n; }
        void draw(std::uint64_t, std::uint64_t, std::uint64_t first, std::span<std::uint64_t> out) const {
            if (first == 4) throw std::runtime_error{"no order"};
            for (std::uint64_t& sample : out) sample = first++;
        }
        [[nodiscard]] std::uint64_t fingerprint() const { return 0; }
    };
    machine const on;
    cuota::batch_loader loader{numbered_source{10}, {.batch_size = 2, .sampler = failing{}, .workers = 2}};
    auto epoch = loader.epoch(0);
    CHECK(epoch.next());
    CHECK(epoch.next());
    CHECK_THROWS_AS(epoch.next(), std::runtime_error);
    CHECK(loader.state().position == 4);
}
