// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippet of docs/reports.md.
#include <filesystem>
#include <string>

#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/export/timeline.hpp>
#include <cuota/report/recording/recorder.hpp>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

TEST_CASE("a recording is shown and judged", "[docs]") {
    page::inside const here;
    cuota::budget const budget{"trainer", 16_MiB};
    cuota::stream const stream;
    auto const train = [&](cuota::budget const& account) {
        cuota::scoped_pool pool{account, {.name = "network"}};
        cuota::device_buffer<float> const weights{1000, stream, pool, "weights"};
    };
    std::string const seen_on_screen = page::printed([&] {
#include "reports/look.inc"
    });
    CHECK(seen_on_screen.find("trainer") != std::string::npos);
    CHECK(std::filesystem::file_size("train.html") > 1000);
}

}  // namespace
