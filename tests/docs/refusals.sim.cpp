// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippets of docs/refusals.md.
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <cuota/training/batches/with_retry.hpp>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

#include "refusals/facts.inc"

TEST_CASE("refusals: a refusal says who holds what, and what would help", "[docs]") {
    page::check_prints("refusals/step", [] {
#include "refusals/step.inc"
    });
}

TEST_CASE("refusals: the same refusal is data", "[docs]") {  // with the call sites of the page's snippet
    cuota::budget device{"device", 64_MiB};
    cuota::budget trainer{"trainer", 48_MiB, device};
    cuota::scoped_pool pool{trainer, {.name = "network"}};
    cuota::stream stream;
    cuota::device_buffer<float> weights{4'000'000, stream, pool, "weights",
                                        cuota::source_location{"step.cpp", 6}};
    cuota::device_buffer<float> moments{6'000'000, stream, pool, "moments",
                                        cuota::source_location{"step.cpp", 7}};
    page::check_prints("refusals/facts", [&] {
        try {
            cuota::device_buffer<float> activations{5'000'000, stream, pool, "activations"};
        } catch (cuota::budget_exceeded const& refused) { log_refusal(refused); }
    });
}

TEST_CASE("refusals: a cache of one's own gives back before anybody is refused", "[docs]") {
    cuota::budget budget{"trainer", 4_MiB};
    cuota::stream stream;
    cuota::budgeted<cuota::device_memory> const memory{budget};
#include "refusals/cache.inc"
    for (int i = 0; i != 3; ++i) cache.push_back({1_MiB / sizeof(float), stream, memory, "texture"});

    cuota::device_buffer<float> const wanted{2_MiB / sizeof(float), stream, memory, "wanted"};

    CHECK(cache.size() == 2);
    CHECK(budget.held() == 4_MiB);
    CHECK_FALSE(budget.last_refusal());
}

TEST_CASE("refusals: a batch that is refused goes through in smaller parts", "[docs]") {
    cuota::budget budget{"trainer", 16_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream stream;
    constexpr std::size_t batch_size = 100;
    std::size_t added = 0;
    auto const backward = [&](cuota::micro_batch part, cuota::stream const& s, cuota::scoped_pool& from) {
        cuota::device_buffer<float> const activations{part.count * 100'000, s, from, "activations"};
        added += part.count;
    };
    auto const zero_gradients = [&] { added = 0; };
    page::check_prints("refusals/retry", [&] {
#include "refusals/retry.inc"
    });
    CHECK(added == batch_size);
}

TEST_CASE("refusals: a plan says the largest batch before anything runs", "[docs]") {
    cuota::budget budget{"trainer", 64_MiB};
    page::check_prints("refusals/plan", [&] {
#include "refusals/plan.inc"
        CHECK(mine.bytes() == budget.held());
    });
}

TEST_CASE("refusals: an alert calls at each crossing", "[docs]") {
    cuota::budget budget{"trainer", 512_MiB};
    page::check_prints("refusals/alert", [&] {
#include "refusals/alert.inc"
        budget.charge(450_MiB);
        budget.charge(40_MiB);
        budget.refund(490_MiB);
    });
}

}  // namespace
