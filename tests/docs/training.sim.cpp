// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The snippet of docs/training.md.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/measure_stages.hpp>

#include "docs/page.hpp"

namespace {

using namespace cuota::literals;

struct twice {
    cuota::device_span<float> x;
    CUOTA_KERNEL void operator()(std::size_t i) const { x[i] *= 2; }
};

TEST_CASE("a chain runs in the room that there is", "[docs]") {
    cuota::budget const budget{"device", 8_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    constexpr std::size_t n = 100'000;
    std::vector<cuota::checkpoint_stage> stages(8);
    for (auto& s : stages) {
        s.output_bytes = n * sizeof(float);
        s.forward = [](cuota::stage_context const& run) {
            cuota::for_each_index(run.stream(), n, twice{run.output<float>()});
        };
        s.backward = [](cuota::stage_context const& run) {
            auto const to = run.input_gradient<float>();
            cuota::for_each_index(run.stream(), to.size(), twice{to});
        };
    }
    cuota::device_buffer<float> const values{n, stream, cuota::device_memory{}, "input"};
    auto const lease = values.read(stream);
    cuota::device_span<float const> const input = lease;
    std::uint64_t const step = 1;
    using namespace cuota;
#include "training/chain.inc"
    CHECK(net.peak() <= 4_MiB);
}

}  // namespace
