// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Grows a pool: it allocates segments on demand up to its cap, caches freed memory, and releases that memory when it is trimmed.
///
/// Expected output:
///
///     at the begin           holds 4.0 MiB, 0 blocks have 0 B of it
///     full                   holds 32.0 MiB, 8 blocks have 30.5 MiB of it
///     the layers are gone    holds 32.0 MiB, 0 blocks have 0 B of it
///     trimmed                holds 4.0 MiB, 0 blocks have 0 B of it
#include <cstdio>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

using namespace cuota::literals;

void show(char const* when, cuota::scoped_pool const& pool) {
    cuota::pool_stats const now = pool.stats();
    std::printf("%-22s holds %s, %zu blocks have %s of it\n", when, cuota::bytes_text(now.reserved).c_str(),
                now.live_blocks, cuota::bytes_text(now.requested).c_str());
}

int main() {
    cuota::budget const budget{"program", 64_MiB};
    cuota::scoped_pool pool{budget, {.initial_size = 4_MiB, .max_size = 32_MiB}};
    cuota::stream const stream;
    show("at the begin", pool);

    std::vector<cuota::device_buffer<float>> layers;
    try {
        for (;;) layers.push_back({1'000'000, stream, pool, "layer"});
    } catch (cuota::budget_exceeded const&) { show("full", pool); }

    layers.clear();
    show("the layers are gone", pool);
    pool.trim(4_MiB);  // waits for work that may still use the released memory
    show("trimmed", pool);
}
