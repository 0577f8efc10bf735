// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A loader on a device that uses the host's memory, most of which is page cache.
#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/temp_folder.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;
namespace sim = cuota::simulator;

namespace {

constexpr std::size_t memory = 64_MiB;
constexpr std::size_t sample = 1_MiB;

// Reads all samples of the file in batches of 8 MiB, five of which are on the device. Reading fills the page cache.
std::size_t samples_read(std::string const& file, cuota::budget const& budget) {
    cuota::batch_loader loader{
        cuota::raw_dataset{file, {.fields = {{"bytes", cuota::element_type::u8, {sample}}}}},
        {.batch_size = 8, .device_budget = budget, .device_slots = 5}};
    std::size_t read = 0;
    for (cuota::batch const& b : loader.epoch(0)) {
        read += b.size();
        sim::set_page_cache(0, std::min(memory, memory * 6 / 10 + read * sample));
    }
    return read;
}

}  // namespace

TEST_CASE("a loader on a device that is full of page cache reads a file of twice its memory",
          "[data][batch_loader]") {
    support::machine const machine{{.capacity = memory, .is_integrated = true}};
    support::temp_folder const folder;
    std::string const file = folder.write("large", "");
    std::filesystem::resize_file(file, 2 * memory);
    sim::set_page_cache(0, memory * 6 / 10);

    cuota::device const here{0};
    // The bytes that the driver reports as free do not suffice.
    std::size_t const reported = here.memory().driver_free;
    cuota::budget const by_driver{"by driver", std::min(memory * 8 / 10, reported)};
    CHECK_THROWS_AS(samples_read(file, by_driver), cuota::budget_exceeded);

    cuota::budget const budget = cuota::budget::for_device(here, 0.8, 0, 0ns);
    CHECK(samples_read(file, budget) == 2 * memory / sample);
    CHECK(here.memory().driver_free < 8_MiB);
    CHECK(budget.limit() == memory * 8 / 10);
    CHECK(budget.held() == 0);
}
