// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Calls to a loader from its own transform, dataset, sampler and error sink.

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/error_sink.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/simulator.hpp>

#include "support/asking_sink.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"

namespace sim = cuota::simulator;
using cuota::batch;
using cuota::batch_loader;
using support::machine;
using support::numbered_source;

namespace {

struct copy_number {
    cuota::device_span<std::uint32_t const> from;
    cuota::device_span<std::uint32_t> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i * from.size() / to.size()]; }
};

// Outputs the first number of each sample and calls `also` with each job before that.
cuota::device_transform numbers(std::function<void(cuota::transform_context const&)> also) {
    return {{{"number", cuota::element_type::u32, {}}},
            [also = std::move(also)](cuota::transform_context const& job) {
                also(job);
                cuota::for_each_index(job.stream(), job.size(),
                                      copy_number{job.in<std::uint32_t>(0), job.out<std::uint32_t>(0)});
            }};
}

auto questions(batch_loader const& loader) {
    return [&loader] { (void)loader.state(), (void)loader.stats(); };
}

}  // namespace

TEST_CASE("a transform may destroy batches of its own loader", "[data][callbacks]") {
    machine const on;
    std::size_t const workers = GENERATE(1, 3);
    bool const poison = GENERATE(false, true);
    std::mutex guard;
    std::deque<batch> kept;  // the transform destroys the oldest
    std::size_t ended = 0;
    cuota::stream const s;
    {
        batch_loader loader{numbered_source{400},
                            {.batch_size = 4,
                             .workers = workers,
                             .device_slots = 4,
                             .transform = numbers([&](cuota::transform_context const&) {
                                 std::optional<batch> oldest;
                                 {
                                     std::scoped_lock const lock{guard};
                                     if (kept.size() < 2) return;
                                     oldest.emplace(std::move(kept.front()));
                                     kept.pop_front();
                                 }
                                 ++ended;
                             }),
                             .poison = poison}};
        for (std::uint64_t const epoch : {0u, 1u}) {
            auto range = loader.epoch(epoch);
            std::uint64_t expected = 0;
            while (auto b = range.next()) {
                for (std::uint32_t const seen : support::seen_by(s, *b)) CHECK(seen == expected++);
                std::optional<batch> unmixed;  // ends a batch that the transform has not taken
                std::scoped_lock const lock{guard};
                kept.push_back(std::move(*b));
                if (kept.size() < 3) continue;
                unmixed.emplace(std::move(kept.front()));
                kept.pop_front();
            }
            CHECK(expected == 400);
            std::deque<batch> rest;
            std::scoped_lock const lock{guard};
            rest.swap(kept);
        }
    }
    CHECK(ended != 0);
}

TEST_CASE("a transform may end its loader's epoch, and the next epoch runs normally", "[data][callbacks]") {
    machine const on;
    std::optional<cuota::epoch_range> epoch;
    std::atomic<bool> is_handed_over = false, is_ended = false;
    std::atomic<int> calls = 0;
    cuota::stream const s;
    batch_loader loader{numbered_source{400},
                        {.batch_size = 4, .workers = 2, .transform = numbers([&](auto const&) {
                                                            if (++calls != 3) return;
                                                            is_handed_over.wait(false);
                                                            epoch.reset();
                                                            is_ended = true;
                                                            is_ended.notify_all();
                                                        })}};
    {
        cuota::epoch_range begun = loader.epoch(0);
        std::optional<batch> first = begun.next();
        epoch.emplace(std::move(begun));
        is_handed_over = true;
        is_handed_over.notify_all();
        first.reset();  // frees a slot for the third batch
    }
    is_ended.wait(false);
    std::uint64_t expected = 0;
    for (;;) {
        try {
            for (batch const& b : loader.epoch(1))
                for (std::uint32_t const seen : support::seen_by(s, b)) CHECK(seen == expected++);
            break;
        } catch (cuota::usage_error const&) {  // the transform has not returned yet
            REQUIRE(expected == 0);
        }
    }
    CHECK(expected == 400);
}

TEST_CASE("an error sink may query the loader after any of its CUDA calls has failed", "[data][callbacks]") {
    machine on;
    bool const transforms = GENERATE(false, true);
    auto const seen = support::survives_every_failure(on, [&] {
        batch_loader::options how{
            .batch_size = 4, .workers = 1, .device_slots = 2, .time_copies = true, .poison = true};
        if (transforms) how.transform = numbers([](auto const&) {});
        batch_loader loader{numbered_source{24}, how};
        support::asking_sink const sink{questions(loader)};
        cuota::stream const s;
        auto epoch = loader.epoch(0);
        while (auto b = epoch.next()) b->used_on(s);
    });
    CHECK(seen.reported != 0);
}

TEST_CASE("an error sink may query the loader when a batch is destroyed on a lost device",
          "[data][callbacks]") {
    machine on;
    {
        batch_loader loader{numbered_source{64}, {.batch_size = 4, .poison = true}};
        support::asking_sink const sink{questions(loader)};
        auto epoch = loader.epoch(0);
        auto b = epoch.next();
        sim::lose_device(0);
        b.reset();
        CHECK(!on.errors.take().empty());
    }
    (void)on.errors.take();
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("a sampler and a dataset may query the loader that calls them", "[data][callbacks]") {
    machine const on;
    static std::atomic<batch_loader const*> asked = nullptr;
    struct asking_sampler {
        static void ask() {
            if (batch_loader const* const loader = asked) (void)loader->state(), (void)loader->stats();
        }
        [[nodiscard]] std::uint64_t size(std::uint64_t n) const { return n; }
        void draw(std::uint64_t, std::uint64_t, std::uint64_t first, std::span<std::uint64_t> out) const {
            ask();
            for (std::uint64_t& sample : out) sample = first++;
        }
        [[nodiscard]] std::uint64_t fingerprint() const { return 17; }
    };
    numbered_source from{100};
    from.before_each([](auto const&) { asking_sampler::ask(); });
    batch_loader loader{from, {.batch_size = 4, .sampler = asking_sampler{}, .workers = 2}};
    asked = &loader;
    CHECK(support::order_of(loader.epoch(0)).size() == 100);
    asked = nullptr;
}
