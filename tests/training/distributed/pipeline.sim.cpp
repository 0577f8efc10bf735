// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/pipeline.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/pipeline_numbers.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using cuota::pipeline;
using support::peaks_of;
using support::pipeline_case;
using support::sums_of_one_device;
using support::word;

TEST_CASE("the gradients of a pipeline equal those of one device bit for bit, and its peaks are as predicted",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 4}};
    for (std::size_t devices = 1; devices != 5; ++devices)
        for (std::size_t const parts : {1u, 2u, 5u}) {
            INFO(devices << " devices, " << parts << " micro-batches");
            pipeline_case c{devices, parts, static_cast<unsigned>(10 * devices + parts)};
            pipeline net{c.net->stages(), c.first, parts, c.devices()};
            auto const waits = cuota::simulator::calls("cudaStreamSynchronize");
            auto const frees = cuota::simulator::calls("cudaFree");
            net.run(c.net->inputs(), 3);
            // The host waits once per freed block, and for nothing else.
            CHECK(cuota::simulator::calls("cudaStreamSynchronize") - waits ==
                  cuota::simulator::calls("cudaFree") - frees);
            CHECK(c.net->sums() == sums_of_one_device(c.shape, parts, 3));
            CHECK(peaks_of(c.budgets) == net.peaks());
            CHECK(net.peaks() ==
                  pipeline_peaks(cuota::chain_of(c.net->stages(), cuota::device_memory::granularity()),
                                 c.first, parts));
            CHECK(c.net->calls == 2 * parts * c.shape.size());
            CHECK(!c.net->was_elsewhere);
            for (budget const& b : c.budgets) CHECK(b.held() == 0);
            for (cuota::stream const& s : c.streams) s.synchronize();
        }
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("pipelines over pools run many steps, and allocate no more than the peak of one step",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 4, 77};
    std::vector<std::unique_ptr<cuota::scoped_pool>> pools;
    std::vector<cuota::pipeline_device> devices;
    for (std::size_t d = 0; d != 3; ++d) {
        cuota::device_scope const here{c.streams[d].device()};
        pools.push_back(std::make_unique<cuota::scoped_pool>(c.budgets[d]));
        devices.push_back({c.streams[d], pools[d]->resource()});
    }
    {
        pipeline net{c.net->stages(), c.first, 4, devices};
        for (std::uint64_t step = 0; step != 5; ++step) {
            c.net->clear();
            net.run(c.net->inputs(), step);
            CHECK(c.net->sums() == sums_of_one_device(c.shape, 4, step));
        }
        for (std::size_t d = 0; d != 3; ++d) CHECK(pools[d]->stats().peak_allocated == net.peaks()[d]);
        // No waits between steps, so that they overlap.
        c.net->clear();
        for (std::uint64_t step = 0; step != 3; ++step) net.run(c.net->inputs(), 1);
        for (std::size_t d = 0; d != 3; ++d) CHECK(pools[d]->stats().peak_allocated == net.peaks()[d]);
    }
    for (cuota::stream const& s : c.streams) s.synchronize();
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("the host waits for nothing while a pipeline's step is enqueued", "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 4, 78};
    std::vector<std::unique_ptr<cuota::scoped_pool>> pools;
    std::vector<cuota::pipeline_device> devices;
    for (std::size_t d = 0; d != 3; ++d) {
        cuota::device_scope const here{c.streams[d].device()};
        pools.push_back(
            std::make_unique<cuota::scoped_pool>(c.budgets[d], cuota::pool_options{.initial_size = 4 << 20}));
        devices.push_back({c.streams[d], pools[d]->resource()});
    }
    pipeline net{c.net->stages(), c.first, 4, devices};
    {
        support::gate const closed{c.streams[0]};  // a wait would not return
        net.run(c.net->inputs(), 3);
        CHECK(!c.streams[2].is_idle());
    }
    CHECK(c.net->sums() == sums_of_one_device(c.shape, 4, 3));
}

TEST_CASE("a pipeline is refused at every limit below a device's peak, leaks nothing, and can run again",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 3, 5};
    std::vector<word> const right = sums_of_one_device(c.shape, 3, 9);
    std::vector<std::size_t> const peaks = pipeline{c.net->stages(), c.first, 3, c.devices()}.peaks();
    std::size_t refused = 0;
    for (std::size_t d = 0; d != 3; ++d)
        for (std::size_t limit = 0; limit < peaks[d]; limit += 512) {
            std::vector<budget> tight;
            for (std::size_t i = 0; i != 3; ++i) tight.emplace_back("tight", i == d ? limit : peaks[i]);
            auto const before = cuota::simulator::live();
            {
                pipeline net{c.net->stages(), c.first, 3, c.devices(tight)};
                CHECK_THROWS_AS(net.run(c.net->inputs(), 9), cuota::budget_exceeded);
                ++refused;
                for (budget const& b : tight) CHECK(b.held() == 0);
            }
            CHECK(cuota::simulator::live().device_bytes == before.device_bytes);
            CHECK(cuota::simulator::live().total() == before.total());
        }
    CHECK(refused > 30);
    std::vector<budget> exact;
    for (std::size_t const peak : peaks) exact.emplace_back("exact", peak);
    pipeline net{c.net->stages(), c.first, 3, c.devices(exact)};
    {
        cuota::reservation const others = exact[1].reserve(512);
        CHECK_THROWS_AS(net.run(c.net->inputs(), 9), cuota::budget_exceeded);
    }
    c.net->clear();
    net.run(c.net->inputs(), 9);
    CHECK(c.net->sums() == right);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("a stage that throws at any call in a pipeline leaves nothing held", "[training][pipeline]") {
    support::machine const machine{{.devices = 2}};
    pipeline_case c{2, 3, 6};
    std::vector<word> const right = sums_of_one_device(c.shape, 3, 1);
    pipeline net{c.net->stages(), c.first, 3, c.devices()};
    auto const before = cuota::simulator::live();
    std::size_t const calls = 2 * 3 * c.shape.size();
    for (std::size_t nth = 1; nth <= calls; ++nth) {
        c.net->fail_at = nth;
        CHECK_THROWS_AS(net.run(c.net->inputs(), 1), std::runtime_error);
        for (budget const& b : c.budgets) CHECK(b.held() == 0);
        for (cuota::stream const& s : c.streams) CHECK(s.is_idle());
        CHECK(cuota::simulator::live().device_bytes == before.device_bytes);
    }
    c.net->clear();
    net.run(c.net->inputs(), 1);
    CHECK(c.net->sums() == right);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("when any CUDA call fails, a pipeline leaks nothing", "[training][pipeline]") {
    support::machine machine{{.devices = 2}};
    pipeline_case c{2, 2, 1};
    auto const inputs = c.net->inputs();
    auto const seen = support::survives_every_failure(machine, [&] {
        pipeline net{c.net->stages(), c.first, 2, c.devices()};
        net.run(inputs, 1);
        for (cuota::stream const& s : c.streams) s.synchronize();
    });
    CHECK(seen.thrown > 20);
    CHECK(seen.silent == 0);
    for (budget const& b : c.budgets) CHECK(b.held() == 0);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("an invalid pipeline is refused and leaks nothing", "[training][pipeline]") {
    support::machine const machine{{.devices = 2}};
    pipeline_case c{2, 2, 2};
    auto const devices = c.devices();
    auto const stages = c.net->stages();
    auto const before = cuota::simulator::live().total();
    using cuota::usage_error;
    CHECK_THROWS_AS((pipeline{stages, {0}, 2, devices}), usage_error);
    CHECK_THROWS_AS((pipeline{stages, {0, 0}, 2, devices}), usage_error);
    CHECK_THROWS_AS((pipeline{stages, c.first, 0, devices}), usage_error);
    auto broken = stages;
    broken.back().backward = nullptr;
    auto const told = support::thrown<usage_error>([&] { pipeline const net{broken, c.first, 2, devices}; });
    CHECK(std::string{told.what()}.find("of a pipeline has no backward function") != std::string::npos);
    pipeline net{stages, c.first, 2, devices};
    auto inputs = c.net->inputs();
    inputs.pop_back();
    CHECK_THROWS_AS(net.run(inputs, 1), usage_error);
    CHECK(c.net->calls == 0);
    CHECK(cuota::simulator::live().total() > before);
}
