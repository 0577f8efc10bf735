// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/batch_journey.md.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

struct add_up {
    cuota::device_span<float const> images;
    cuota::device_span<float> sums;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        for (std::size_t at = i; at < images.size(); at += sums.size()) sums[i] += images[at] + 1;
    }
};

TEST_CASE("a batch's journey: what a loader takes, and what it refuses", "[docs]") {
    page::inside const here;
    here.write_npy("images.npy", 3000, "32, 32", 32 * 32);
    cuota::budget const budget{"device", 8_MiB};
    cuota::budget const pinned{"pinned", 16_MiB};
    cuota::stream const stream;
    page::check_prints("batch_journey/loader", [&] {
        cuota::device_buffer<float> sums{1024, stream, cuota::device_memory{}, "sums"};
#include "batch_journey/loader.inc"
        CHECK(sums.to_vector(stream)[0] == 3000.0f);
    });
    page::check_prints("batch_journey/too_large", [&] {
#include "batch_journey/too_large.inc"
    });
}

TEST_CASE("a batch's journey: errors in their place, and an epoch that goes on", "[docs]") {
    page::check_prints("batch_journey/broken", [] {
#include "batch_journey/broken.inc"
    });
    cuota::memory_dataset const dataset{"numbers", std::vector<float>(1000, 1.0f)};
    page::check_prints("batch_journey/resume", [&] {
#include "batch_journey/resume.inc"
    });
    auto const show = [](cuota::batch const& batch, std::uint64_t epoch) {
        cuota::stream const stream;
        std::vector<std::int32_t> angles(batch.size());
        auto const on_device = batch.view<std::int32_t>(stream);
        cuota::rt::copy_to_host(angles.data(), on_device.data(), on_device.bytes(), stream);
        stream.synchronize();
        std::printf("epoch %d:", static_cast<int>(epoch));
        for (std::uint64_t sample = 0; sample != 4; ++sample) {
            auto const at = std::find(batch.samples().begin(), batch.samples().end(), sample);
            std::printf(" %d", angles[static_cast<std::size_t>(at - batch.samples().begin())]);
        }
        std::printf("\n");
    };
    page::check_prints("batch_journey/augment", [&] {
#include "batch_journey/augment.inc"
    });
}

}  // namespace
