// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Hazards H7, H8, H9, H16, H18, H19 and H24 of loading data: errors that are lost, late or out of order, and data that exceeds its buffer.
// tests/README.md lists the guard against each.
#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/loader/sample_too_long_error.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/ragged_texts.hpp"
#include "support/samples.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thread_waits.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::batch_loader;
using support::has;
using support::machine;
using support::numbered_source;
using support::thrown;

namespace {

std::uint64_t batches_of(cuota::epoch_range epoch) {
    std::uint64_t n = 0;
    while (epoch.next()) ++n;
    return n;
}

bool has_sample(std::span<std::uint64_t const> samples, std::uint64_t sample) {
    return std::ranges::find(samples, sample) != samples.end();
}

}  // namespace

TEST_CASE("H7: waiting for a batch that cannot be delivered throws", "[data][hazard]") {
    machine const on;
    SECTION("when its worker throws while the consumer waits") {
        std::atomic<bool> go_on = false;
        numbered_source from{8};
        from.before_each([&](auto) {
            go_on.wait(false);
            throw std::runtime_error{"no data"};
        });
        batch_loader loader{from, {.batch_size = 4}};
        auto epoch = loader.epoch(0);
        support::forget_waits();
        std::thread waiting{[&] {
            support::mark_this_thread();
            CHECK(has(thrown<std::runtime_error>([&] { (void)epoch.next(); }).what(), "no data"));
        }};
        while (support::are_waits_counted() && support::waits_of_marked_threads().until_told == 0)
            std::this_thread::yield();
        go_on = true;
        go_on.notify_all();
        waiting.join();
    }
    SECTION("when its copy cannot be enqueued") {
        batch_loader loader{numbered_source{8}, {.batch_size = 4}};
        sim::fail_call("cudaMemcpyAsync", 1, cudaErrorUnknown);
        auto epoch = loader.epoch(0);
        CHECK_THROWS_AS(epoch.next(), cuota::cuda_error);
    }
    SECTION("when its loader and its workers have been destroyed") {
        std::optional<batch_loader> loader{std::in_place, numbered_source{40},
                                           cuota::loader_options{.batch_size = 4, .workers = 2}};
        auto epoch = loader->epoch(0);
        CHECK(epoch.next());
        loader.reset();
        std::uint64_t more = 0;
        auto const told = thrown<cuota::usage_error>([&] {
            while (epoch.next()) ++more;
        });
        CHECK(has(told.what(), "the loader was destroyed during the epoch"));
        CHECK(more < 9);
        CHECK(epoch.wait_for({}));
        CHECK_THROWS_AS(epoch.next(), cuota::usage_error);
    }
}

TEST_CASE("H8: no exception in a worker terminates the program", "[data][hazard]") {
    machine const on;
    SECTION("for an exception of any type from the dataset") {
        numbered_source from{8};
        from.before_each([](auto) { throw 42; });
        batch_loader loader{from, {.batch_size = 4, .workers = 2}};
        auto epoch = loader.epoch(0);
        CHECK_THROWS_AS(epoch.next(), int);
        CHECK_THROWS_AS(epoch.next(), int);
    }
    SECTION("when a worker's wait for a pinned slot fails") {
        batch_loader loader{numbered_source{20}, {.batch_size = 4, .host_slots = 1}};
        sim::fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
        CHECK_THROWS_AS(batches_of(loader.epoch(0)), cuota::cuda_error);
        CHECK(batches_of(loader.epoch(1)) == 5);
    }
}

TEST_CASE("H9: an error is thrown in place of its batch, neither earlier nor later, and at every call",
          "[data][hazard]") {
    machine const on;
    std::uint64_t const bad = GENERATE(0, 9, 17, 29);  // samples of batches 0, 2, 4 and 7
    std::size_t const workers = GENERATE(std::size_t{1}, std::size_t{3});
    std::atomic<bool> broken = true;
    std::atomic<bool> thrown_already = false;
    numbered_source from{30};
    from.before_each([&](std::span<std::uint64_t const> samples) {
        bool const is_bad = broken && has_sample(samples, bad);
        if (is_bad) {
            thrown_already = true;
            throw cuota::data_error{"numbers", bad * 20, "sample " + std::to_string(bad) + " is bad"};
        }
        // With several workers, the previous batch usually arrives after the failure.
        if (broken && workers > 1 && has_sample(samples, bad / 4 * 4 - 1)) {
            while (!thrown_already) std::this_thread::yield();
            for (int i = 0; i != 100; ++i) std::this_thread::yield();
        }
    });
    batch_loader loader{from, {.batch_size = 4, .workers = workers}};
    for (int round = 0; round != 20; ++round) {
        thrown_already = false;
        auto epoch = loader.epoch(0);
        for (std::uint64_t batch = 0; batch != bad / 4; ++batch) {
            auto const b = epoch.next();
            REQUIRE(b);
            REQUIRE(b->index() == batch);
        }
        for (int again = 0; again != 3; ++again)
            REQUIRE(has(thrown<cuota::data_error>([&] { (void)epoch.next(); }).what(),
                        "sample " + std::to_string(bad) + " is bad"));
    }
    broken = false;
    CHECK(batches_of(loader.epoch(0)) == 8);
}

TEST_CASE("H16: a truncated file throws an error with the sample and the byte, and delivers no batch",
          "[data][hazard]") {
    machine const on;
    support::temp_folder const folder;
    constexpr std::size_t record = 6;
    std::size_t const left = GENERATE(std::size_t{27}, std::size_t{24}, std::size_t{0});  // of 48 bytes
    cuota::raw_dataset const from{folder.write("x.raw", support::pattern(8 * record)),
                                  {.fields = {{"image", cuota::element_type::u8, {record}}}}};
    REQUIRE(::truncate(from.name().c_str(), static_cast<off_t>(left)) == 0);
    batch_loader loader{from, {.batch_size = 3}};
    auto epoch = loader.epoch(0);
    std::uint64_t const whole = left / (3 * record);
    for (std::uint64_t i = 0; i != whole; ++i) CHECK(epoch.next());
    auto const error = thrown<cuota::data_error>([&] { (void)epoch.next(); });
    CHECK(error.file() == from.name());
    CHECK(error.offset() == left);
    CHECK(has(error.why(), "sample " + std::to_string(left / record) + " cannot be read"));
    CHECK_THROWS_AS(epoch.next(), cuota::data_error);
}

TEST_CASE("H18: failures in destructors are reported to the error sink", "[data][hazard]") {
    machine on;
    SECTION("of a loader") {
        char const* const call = GENERATE("cudaFree", "cudaFreeHost", "cudaStreamDestroy", "cudaEventDestroy",
                                          "cudaStreamSynchronize");
        std::optional<batch_loader> loader{std::in_place, numbered_source{8},
                                           cuota::loader_options{.batch_size = 4}};
        CHECK(batches_of(loader->epoch(0)) == 2);
        sim::fail_call(call, 1, cudaErrorUnknown);
        loader.reset();
        auto const reported = on.errors.take();
        REQUIRE(reported.size() == 1);
        CHECK(has(reported[0], call));
    }
    SECTION("of a batch") {
        cuota::stream const s;
        batch_loader loader{numbered_source{8}, {.batch_size = 4}};
        auto epoch = loader.epoch(0);
        auto b = epoch.next();
        (void)b->view<std::uint32_t>(s);
        CHECK(epoch.wait_for(std::chrono::hours{1}));  // the workers' calls have finished
        sim::fail_call("cudaEventRecord", 1, cudaErrorUnknown);
        b.reset();
        auto const reported = on.errors.take();
        REQUIRE(reported.size() == 1);
        CHECK(has(reported[0], "cudaEventRecord"));
        CHECK(epoch.next());
    }
}

TEST_CASE("H19: after a permanent device failure, every batch is an error and nothing hangs",
          "[data][hazard]") {
    machine on;
    std::uint64_t const lost_after = GENERATE(0, 1, 3);
    std::size_t const host_slots = GENERATE(std::size_t{1}, std::size_t{3});
    bool const others_wait = GENERATE(false, true);
    std::atomic<bool> is_lost = false;
    numbered_source from{80};
    from.before_each([&](std::span<std::uint64_t const> samples) {
        if (samples[0] >= 40) is_lost.wait(false);  // so that some batches remain
    });
    auto const lose = [&] {
        sim::lose_device(0);
        is_lost = true;
        is_lost.notify_all();
    };
    {
        batch_loader loader{from, {.batch_size = 4, .workers = 2, .host_slots = host_slots}};
        auto epoch = loader.epoch(0);
        for (std::uint64_t i = 0; i != lost_after; ++i) CHECK(epoch.next());
        auto const use_up = [&] {
            while (epoch.next()) {}  // delivers batches that were copied before
        };
        if (others_wait) {
            std::thread waiting{[&] { CHECK_THROWS_AS(use_up(), cuota::cuda_error); }};
            lose();
            waiting.join();
        } else {
            lose();
            CHECK_THROWS_AS(use_up(), cuota::cuda_error);
        }
        auto const copies = sim::calls("cudaMemcpyAsync");
        for (int again = 0; again != 3; ++again) {
            CHECK(epoch.wait_for({}));
            CHECK_THROWS_AS(epoch.next(), cuota::cuda_error);
        }
        CHECK(sim::calls("cudaMemcpyAsync") == copies);  // no slot is reused
        { auto const left = std::move(epoch); }
        CHECK_THROWS_AS(batches_of(loader.epoch(1)), cuota::cuda_error);
    }
    CHECK(sim::live().total() == 0);
    CHECK(!on.errors.take().empty());  // objects that end on a lost device report errors
    sim::reset();
}

namespace {

// Records the memory that its samples are written to.
struct noting_source {
    struct note {
        std::mutex guard;
        std::map<std::byte const*, std::size_t> rooms;  // by address of the first byte
        std::uint64_t wrong_sizes = 0;
    };
    numbered_source from;
    std::shared_ptr<note> noted = std::make_shared<note>();

    [[nodiscard]] std::uint64_t size() const noexcept { return from.size(); }
    [[nodiscard]] std::span<cuota::field const> fields() const noexcept { return from.fields(); }
    [[nodiscard]] std::string name() const { return from.name(); }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        {
            std::scoped_lock const lock{noted->guard};
            for (std::size_t k = 0; k != out.size(); ++k) {
                noted->wrong_sizes += out[k].size() != samples.size() * fields()[k].bytes();
                std::size_t& most = noted->rooms[out[k].data()];
                most = std::max(most, out[k].size());
            }
        }
        from.gather(samples, out);
    }
};
static_assert(cuota::dataset<noting_source>);

}  // namespace

TEST_CASE("H24: requests that do not fit are refused, and nothing is written out of bounds",
          "[data][hazard]") {
    machine const on;
    SECTION("a gather into an output that is too small writes nothing") {
        support::temp_folder const folder;
        cuota::raw_dataset const from{folder.write("x.raw", support::pattern(48)),
                                      {.fields = {{"image", cuota::element_type::u8, {6}}}}};
        std::vector<std::byte> room(18, std::byte{0});
        std::span<std::byte> const one_less[] = {std::span{room}.first(17)};
        std::span<std::byte> const enough[] = {std::span{room}};
        std::vector<std::uint64_t> const samples{1, 2, 3};
        CHECK(has(thrown<cuota::usage_error>([&] { from.gather(samples, one_less); }).what(),
                  "gather: 3 samples of image u8[6] take 18 bytes, the output has 17"));
        CHECK(room == std::vector<std::byte>(18, std::byte{0}));
        from.gather(samples, enough);
        CHECK(room != std::vector<std::byte>(18, std::byte{0}));
    }
    SECTION("a copy of more bytes than its slot or its target has is refused") {
        cuota::stream const s;
        cuota::device_buffer<std::byte> there{64, s, cuota::device_memory{}};
        s.synchronize();
        auto const copies = sim::calls("cudaMemcpyAsync");
        {
            auto const to = there.write(s);
            cuota::staging_ring small{1, 32};
            CHECK(has(
                thrown<cuota::usage_error>([&] { (void)small.acquire().submit(s, to.span(), 33); }).what(),
                "cannot copy 33 B from a slot of 32 B to a target of 64 B"));
            cuota::staging_ring large{1, 128};
            CHECK_THROWS_AS(large.acquire().submit(s, to.span(), 65), cuota::usage_error);
            CHECK(large.try_acquire());  // the slot is free again
        }
        CHECK(sim::calls("cudaMemcpyAsync") == copies);
    }
    SECTION(
        "a batch has the samples whose rows fit; a sample that is too long is an error and is never cut") {
        support::ragged_texts const texts{{4, 4, 4, 11, 1, 1}};
        for (std::size_t const workers : {1U, 3U}) {
            batch_loader loader{texts.words(), {.batch_size = 3, .max_rows = 10, .workers = workers}};
            for (std::uint64_t number = 0; number != 5; ++number) {
                auto epoch = loader.epoch(number);
                for (std::size_t const samples : {2U, 1U}) {
                    auto const b = epoch.next();
                    REQUIRE(b);
                    CHECK(b->size() == samples);
                    CHECK(b->row_offsets().back() == 4 * samples);
                }
                auto const error = thrown<cuota::sample_too_long_error>([&] { (void)epoch.next(); });
                CHECK(error.sample() == 3);
                CHECK(error.rows() == 11);
                CHECK(error.most() == 10);
                CHECK_THROWS_AS(epoch.next(), cuota::sample_too_long_error);  // and for every later call
            }
        }
    }
    SECTION("each field of each slot has memory of its own, exactly for the samples of the batch") {
        noting_source const from{numbered_source{std::uint64_t{19} * 53, 7}};  // all batches are full
        auto const noted = from.noted;
        batch_loader loader{from, {.batch_size = 19, .workers = 3, .host_slots = 5}};
        // Slow workers use fewer than all slots in an epoch.
        for (std::uint64_t number = 0; noted->rooms.size() < 2 * 5; ++number)
            CHECK(batches_of(loader.epoch(number)) == 53);
        CHECK(noted->wrong_sizes == 0);
        CHECK(noted->rooms.size() == 2 * 5);
        std::byte const* end = nullptr;
        for (auto const& [first, bytes] : noted->rooms) {
            CHECK(end <= first);
            end = first + bytes;
        }
        CHECK(static_cast<std::size_t>(end - noted->rooms.begin()->first) <= loader.plan().pinned_bytes);
    }
}
