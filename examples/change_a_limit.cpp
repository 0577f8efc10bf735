// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Changes a limit: a server returns memory to other programs while it runs, and gets it back.
///
/// Expected output:
///
///     held 48.0 MiB of 64.0 MiB, 16.0 MiB in use
///     limit 32.0 MiB: held 32.0 MiB, the pool has released the excess
///     cuota::budget_exceeded: cannot lower the limit of server to 8.0 MiB at change_a_limit.cpp:41: 32.0 MiB held
///       budget server         limit 32.0 MiB    held 32.0 MiB    free 0 B         peak 48.0 MiB
///       held by    cached in a pool 16.0 MiB, model 16.0 MiB (change_a_limit.cpp:33)
///       reclaimed  nothing: a pool could release only 16.0 MiB; largest free block 16.0 MiB
///       help       set it to at least 16.0 MiB, or lower it now with when_held::keep
///       or         free 16.0 MiB: model (change_a_limit.cpp:33)
///     limit 8.0 MiB, held 16.0 MiB: a new request is refused
///     limit 64.0 MiB: it succeeds
#include <cstddef>
#include <cstdio>

#include <cuota/cuota.hpp>

using namespace cuota::literals;

void serve(cuota::stream const& stream, cuota::scoped_pool const& pool) {
    cuota::device_buffer<float> const request{8 << 20, stream, pool, "request"};
}

int main() {
    cuota::budget server{"server", 64_MiB};
    cuota::scoped_pool const pool{server};
    cuota::stream const stream;
    cuota::device_buffer<float> const model{4 << 20, stream, pool, "model"};
    serve(stream, pool);  // the pool keeps its memory for the next request
    auto const text = [](std::size_t bytes) { return cuota::bytes_text(bytes); };
    std::printf("held %s of %s, %s in use\n", text(server.held()).c_str(), text(server.limit()).c_str(),
                text(pool.stats().requested).c_str());
    server.set_limit(32_MiB);
    std::printf("limit 32.0 MiB: held %s, the pool has released the excess\n", text(server.held()).c_str());
    try {
        server.set_limit(8_MiB);  // the model does not fit: the limit stays
    } catch (cuota::budget_exceeded const& refused) { std::puts(refused.what()); }
    server.set_limit(8_MiB, cuota::when_held::keep);  // lowered at once
    try {
        serve(stream, pool);
    } catch (cuota::budget_exceeded const&) {
        std::printf("limit 8.0 MiB, held %s: a new request is refused\n", text(server.held()).c_str());
    }
    server.set_limit(64_MiB);
    serve(stream, pool);
    std::puts("limit 64.0 MiB: it succeeds");
}
