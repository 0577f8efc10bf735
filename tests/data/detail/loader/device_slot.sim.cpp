// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A batch cannot be part of a graph, and one that ends in a capture does not invalidate it.
#include <cuota/data/detail/loader/device_slot.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"

namespace sim = cuota::simulator;

TEST_CASE("a graph reads copies of batches, because a capture refuses their views", "[data][device_slot]") {
    support::machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{support::numbered_source{12, 1}, {.batch_size = 4, .device_slots = 2}};
    cuota::device_buffer<std::uint32_t> input{4, s, cuota::device_memory{}};
    cuota::device_buffer<std::uint32_t> output{4, s, cuota::device_memory{}};
    auto graph = cuota::capture(s, [&] {
        cuota::for_each_index(s, 4, support::copy_numbers{input.read(s), output.write(s)});
    });
    std::size_t seen = 0;
    for (cuota::batch b : loader.epoch(0)) {
        CHECK_THROWS_AS((void)cuota::capture(s, [&] { (void)b.view<std::uint32_t>(s); }), cuota::usage_error);
        cuota::for_each_index(s, 4, support::copy_numbers{b.view<std::uint32_t>(s), input.write(s)});
        graph.launch(s);
        auto const values = output.to_vector(s);
        for (std::size_t i = 0; i != 4; ++i) CHECK(values[i] == b.samples()[i]);
        ++seen;
    }
    CHECK(seen == 3);
    CHECK(sim::misuse_reports().empty());
    CHECK(sim::race_reports().empty());
}

TEST_CASE("a batch may be destroyed while a stream that used it is captured, and its slot is reused",
          "[data][device_slot]") {
    support::machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{support::numbered_source{40, 1}, {.batch_size = 4, .device_slots = 2}};
    auto epoch = loader.epoch(0);
    for (int round = 0; round != 5; ++round) {
        std::optional<cuota::batch> in_capture = epoch.next();
        (void)support::seen_by(s, *in_capture);
        auto const graph = cuota::capture(s, [&] { in_capture.reset(); });
        std::optional<cuota::batch> const after = epoch.next();
        auto const values = support::seen_by(s, *after);
        CHECK(std::vector<std::uint64_t>(values.begin(), values.end()) ==
              std::vector<std::uint64_t>(after->samples().begin(), after->samples().end()));
    }
    CHECK(sim::misuse_reports().empty());
    CHECK(sim::race_reports().empty());
}

TEST_CASE("a loader runs while another thread captures a stream, and does not invalidate the capture",
          "[data][device_slot][foreign_capture]") {
    support::machine const on;
    cuota::stream const s;
    support::native_stream const captured;
    sim::set_capture_checks(sim::capture_checks::every_slow_call);
    support::foreign_capture capture{captured};
    std::thread{[&] {
        cuota::batch_loader loader{support::numbered_source{40, 1}, {.batch_size = 4, .device_slots = 2}};
        for (cuota::batch b : loader.epoch(0)) {
            auto const values = support::seen_by(s, b);
            for (std::size_t i = 0; i != 4; ++i) CHECK(values[i] == b.samples()[i]);
        }
    }}.join();
    CHECK(capture.is_intact());
    sim::set_capture_checks(sim::capture_checks::named);
    (void)capture.end();
    CHECK(sim::misuse_reports().empty());
    CHECK(sim::race_reports().empty());
}

TEST_CASE("a batch destroyed in a foreign capture of its stream fails its epoch but not the next epoch",
          "[data][device_slot][foreign_capture]") {
    support::machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{support::numbered_source{40, 1}, {.batch_size = 4, .device_slots = 1}};
    {
        auto epoch = loader.epoch(0);
        std::optional<cuota::batch> before = epoch.next();
        (void)support::seen_by(s, *before);
        support::foreign_capture capture{s.get()};
        CHECK_THROWS_AS((void)before->view<std::uint32_t>(s), cuota::usage_error);
        before.reset();
        CHECK_THROWS_AS((void)epoch.next(), cuota::usage_error);
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    std::size_t seen = 0;
    for (cuota::batch b : loader.epoch(0)) {
        auto const values = support::seen_by(s, b);
        for (std::size_t i = 0; i != 4; ++i) CHECK(values[i] == b.samples()[i]);
        ++seen;
    }
    CHECK(seen == 10);
    CHECK(sim::misuse_reports().empty());
    CHECK(sim::race_reports().empty());
}

TEST_CASE("a loader's threads sleep while they wait for copies, and use only the loader's device",
          "[data][device_slot]") {
    support::machine const on{{.devices = 2}};
    std::thread{[] {
        REQUIRE(cudaSetDevice(1) == cudaSuccess);
        cuota::stream const s;
        cuota::scoped_pool pool{cuota::budget{"test", std::size_t{64} << 20}};
        {
            cuota::batch_loader loader{support::numbered_source{80, 1},
                                       {.batch_size = 4, .workers = 2, .device_slots = 2, .host_slots = 2}};
            for (cuota::batch b : loader.epoch(0)) {
                cuota::device_buffer<std::uint32_t> sum{4, s, pool};
                cuota::for_each_index(s, 4, support::copy_numbers{b.view<std::uint32_t>(s), sum.write(s)});
                auto const values = sum.to_vector(s);
                for (std::size_t i = 0; i != 4; ++i) CHECK(values[i] == b.samples()[i]);
            }
        }
        CHECK(sim::event_waits().blocking > 0);
        CHECK(sim::event_waits().active == 0);
    }}.join();
    CHECK(sim::contexts_made(0) == 0);
    CHECK(sim::contexts_made(1) == 1);
}

TEST_CASE("the end of a batch used by another thread's default stream is reported, and nothing races with it",
          "[data][device_slot][default_stream]") {
    support::machine on;
    sim::set_race_checks(sim::race_checks::report);
    cuota::batch_loader loader{support::numbered_source{40, 1}, {.batch_size = 4, .device_slots = 2}};
    cuota::device_buffer<std::uint32_t> output{4, cuota::stream{}, cuota::device_memory{}};
    std::size_t batches = 0;
    for (cuota::batch const& b : loader.epoch(0)) {
        std::vector<std::uint32_t> values;
        std::thread{[&] {
            cuota::stream_ref const mine = cudaStreamPerThread;
            cuota::for_each_index(mine, 4,
                                  support::copy_numbers{b.view<std::uint32_t>(mine), output.write(mine)});
            values = output.to_vector(mine);
            // The copy may still be running when the thread and the batch end.
            cuota::for_each_index(mine, 4,
                                  support::copy_numbers{b.view<std::uint32_t>(mine), output.write(mine)});
        }}.join();
        CHECK(std::vector<std::uint64_t>(values.begin(), values.end()) ==
              std::vector<std::uint64_t>(b.samples().begin(), b.samples().end()));
        ++batches;
    }
    auto const reported = on.errors.take();
    CHECK(batches == 10);
    CHECK(reported.size() == batches);
    for (std::string const& text : reported)
        CHECK(text.find("cudaStreamPerThread of thread ") != std::string::npos);
    CHECK(sim::misuse_reports().empty());
    CHECK(sim::race_reports().empty());
}
