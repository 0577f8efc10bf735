// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/budgets.md.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <vector>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

TEST_CASE("budgets: below a pool pages are charged, and trimmed", "[docs]") {
    cuota::stream const stream;
    page::check_prints("budgets/below", [&] {
#include "budgets/below.inc"
    });
}

TEST_CASE("budgets: above a pool each user has a limit", "[docs]") {
    cuota::stream const stream;
    cuota::budget const device{"device", 64_MiB};
    page::check_prints("budgets/above", [&] {
#include "budgets/above.inc"
    });
}

TEST_CASE("budgets: parts share one limit, and a reservation is paid for", "[docs]") {
    page::check_prints("budgets/tree", [&] {
#include "budgets/tree.inc"
        CHECK(trainer.held() == 384_MiB);
#include "budgets/reserve.inc"
        CHECK(trainer.held() == 384_MiB + 64_MiB);
        CHECK(pool.account().limit() == 64_MiB);
        model.refund(384_MiB);
#include "budgets/split.inc"
        CHECK(training.bytes() == 96_MiB);
        CHECK(trainer.held() == 96_MiB + 64_MiB);
    });
}

TEST_CASE("budgets: a limit is lowered", "[docs]") {
    page::check_prints("budgets/set_limit", [&] {
#include "budgets/set_limit.inc"
        CHECK(server.limit() == 8_MiB);
        server.refund(16_MiB);
    });
}

TEST_CASE("budgets: a second resource serves refused requests", "[docs]") {
    cuota::stream const stream;
    page::check_prints("budgets/fallback", [&] {
#include "budgets/fallback.inc"
    });
}

TEST_CASE("budgets: an alert at the soft limit", "[docs]") {
    using namespace std::chrono_literals;
    cuota::simulator::reset({.devices = 1, .capacity = 64_MiB});
    cuota::simulator::set_memory_limits(0, {32_MiB, 48_MiB, 8_MiB});
    page::check_prints("budgets/soft_limit", [&] {
#include "budgets/soft_limit.inc"
        REQUIRE(alert);
        CHECK(gpu.limit() == 40_MiB);
        gpu.charge(23_MiB);
        CHECK(gpu.held() < limits->left());
        gpu.charge(1_MiB);
        gpu.refund(24_MiB);
    });
    cuota::simulator::reset({});
}

TEST_CASE("budgets: memory of graphs", "[docs]") {
    cuota::stream const stream;
    cuota::budget const gpu{"gpu", 64_MiB};
    auto const library_call = [](cuota::stream const& s, std::size_t bytes) {
        void* scratch = nullptr;
        REQUIRE(cudaMallocAsync(&scratch, bytes, s.get()) == cudaSuccess);
        REQUIRE(cudaFreeAsync(scratch, s.get()) == cudaSuccess);
    };
    page::check_prints("budgets/graphs", [&] {
#include "budgets/graphs.inc"
        stream.synchronize();
    });
}

TEST_CASE("budgets: of the host", "[docs]") {
#include "budgets/for_host.inc"
    CHECK(host.held() == staging.bytes());
}

TEST_CASE("budgets: of a device, and of pinned memory", "[docs]") {
    {
#include "budgets/for_device.inc"
        CHECK(device.limit() > 1_GiB);
    }
#include "budgets/pinned.inc"
    CHECK(pinned.held() == staging.bytes());
}

}  // namespace
