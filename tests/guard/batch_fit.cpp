// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The text of a result: of a plan in tests/guard/footprint.cpp, of dry runs here.
#include <cuota/guard/batch_fit.hpp>

#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/footprint.hpp>

#include "support/catch.hpp"

using cuota::batch_fit;
using cuota::unlimited;

using namespace cuota::literals;

TEST_CASE("the text of a measured batch has its peak and that of the next size", "[guard][batch_fit]") {
    CHECK(batch_fit{.batch = 8, .bytes = 4096, .next = 9, .next_bytes = 4608, .available = 4200, .runs = 5}
              .text() == "a batch of 8 fits: 4.0 KiB of 4.1 KiB, and 9 would take 4.5 KiB");
    CHECK(batch_fit{.batch = 8, .bytes = 4096, .available = unlimited, .runs = 2}.text() ==
          "a batch of 8 fits: 4.0 KiB, no limit");
}

TEST_CASE("the text of a size whose run was refused has no bytes", "[guard][batch_fit]") {
    CHECK(
        batch_fit{.batch = 8, .bytes = 4096, .next = 9, .next_bytes = unlimited, .available = 4200, .runs = 5}
            .text() == "a batch of 8 fits: 4.0 KiB of 4.1 KiB, and 9 was refused");
    CHECK(batch_fit{.next = 4, .next_bytes = 4096, .available = 100, .runs = 1}.text() ==
          "a batch of 4 does not fit: 4.0 KiB of 100 B");
    CHECK(batch_fit{.next = 4, .next_bytes = unlimited, .available = 100, .runs = 1}.text() ==
          "a batch of 4 does not fit: it was refused with 100 B available");
}

TEST_CASE("dry runs and a plan of the same step return the same batch", "[guard][batch_fit]") {
    cuota::budget const b{"gpu", 1_MiB};
    auto const plan = cuota::footprint{}.add<float>("weights", 1000).per_sample<float>("activations", 700);
    batch_fit const planned = plan.largest_batch(b);
    batch_fit const measured =
        cuota::largest_batch_that_fits(b, 1, 4096, [](std::size_t batch, auto& memory) {
            cuota::stream const s;
            void* const weights = memory.allocate(s, 4000, 256, {"weights", {}});
            void* const activations = memory.allocate(s, batch * 2800, 256, {"activations", {}});
            memory.deallocate(s, activations, batch * 2800, 256);
            memory.deallocate(s, weights, 4000, 256);
        });
    CHECK(measured.batch == planned.batch);
    CHECK(measured.bytes == planned.bytes);
    CHECK(measured.next == planned.next);
    CHECK(measured.next_bytes == planned.next_bytes);
    CHECK(measured.text() == planned.text());
    CHECK(planned.runs == 0);
    CHECK(measured.runs > 2);
}
