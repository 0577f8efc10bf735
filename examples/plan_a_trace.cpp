// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Plans a trace: computes offsets in one slab for the blocks of a recorded step; the slab is hardly larger than the peak of live bytes.
///
/// Expected output:
///
///     15 blocks, at most 2.3 MiB of them at once
///     one slab of 2.3 MiB serves them all; the pool took 4.0 MiB
///       block  0: 160000 bytes at 0
///       block  1: 120064 bytes at 2280448
///       block  2: 160000 bytes at 0
///       block  3: 240128 bytes at 2040320
///       block  4: 160000 bytes at 0
///       block  5: 360192 bytes at 1680128
///       block  6: 160000 bytes at 0
///       block  7: 480000 bytes at 1200128
///       block  8: 160000 bytes at 600064
///       block  9: 600064 bytes at 0
///       block 10: 600064 bytes at 600064
///       block 11: 480000 bytes at 0
///       block 12: 360192 bytes at 0
///       block 13: 240128 bytes at 0
///       block 14: 120064 bytes at 0
#include <cstdio>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/recorder.hpp>

using namespace cuota::literals;
using floats = cuota::device_buffer<float>;

void train_step(cuota::stream const& stream, cuota::scoped_pool const& pool) {
    std::vector<floats> kept;
    for (std::size_t layer = 1; layer != 6; ++layer) {
        floats const workspace{40'000, stream, pool, "workspace"};
        kept.push_back({30'000 * layer, stream, pool, "activations"});
    }
    while (!kept.empty()) {
        floats const gradient{kept.back().size(), stream, pool, "gradient"};
        kept.pop_back();
    }
}

int main() {
    cuota::budget const budget{"trainer", 64_MiB};
    cuota::scoped_pool const pool{budget};
    cuota::stream const stream;
    cuota::recorder const recorder{budget};
    train_step(stream, pool);

    std::vector<cuota::lifetime> blocks;
    for (cuota::block_lifetime const& one : cuota::lifetimes_of(recorder.read()).blocks)
        blocks.push_back({one.from.value(), one.until.value(), one.size});
    cuota::offset_plan const plan = cuota::plan_offsets(blocks);

    std::printf("%zu blocks, at most %s of them at once\n", blocks.size(),
                cuota::bytes_text(plan.lower_bound).c_str());
    std::printf("one slab of %s serves them all; the pool took %s\n", cuota::bytes_text(plan.peak).c_str(),
                cuota::bytes_text(budget.peak()).c_str());
    for (std::size_t i = 0; i != blocks.size(); ++i)
        std::printf("  block %2zu: %6zu bytes at %zu\n", i, blocks[i].size, plan.offsets[i]);
}
