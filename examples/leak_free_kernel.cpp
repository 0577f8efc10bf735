// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A leak-free kernel: its threads allocate scratch memory from an arena, which is reset as a whole before the next kernel.
///
/// If the arena is too small, the kernel writes nothing out of bounds, and the host receives the size that was required.
///
/// Expected output:
///
///     cuota::kernel_overflow_error: scratch_arena "tables": a kernel requested 3.6 KiB, capacity is 1.0 KiB (leak_free_kernel.cpp:45)
///     with 3.6 KiB the last of 40 is 63245986
#include <cstddef>
#include <cstdio>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/scratch_arena.hpp>
#include <cuota/pool/scoped_pool.hpp>

using namespace cuota::literals;

/// Computes the i-th Fibonacci number with a table in scratch memory.
struct fibonacci {
    cuota::device_scratch scratch;
    cuota::device_span<unsigned> results;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        cuota::device_span<unsigned> const table = scratch.take<unsigned>(i + 2);
        if (table.is_empty()) return;  // arena exhausted: the host is notified
        table[0] = 0;
        table[1] = 1;
        for (std::size_t k = 2; k <= i; ++k) table[k] = table[k - 1] + table[k - 2];
        results[i] = table[i];
    }
};

int main() {
    cuota::scoped_pool const pool{cuota::budget{"program", 64_MiB}};
    cuota::stream const stream;
    cuota::device_buffer<unsigned> results{40, stream, pool, "results"};
    std::size_t bytes = 1_KiB;

    for (bool is_done = false; !is_done;) try {
            cuota::scratch_arena arena{bytes, stream, pool, "tables"};
            cuota::for_each_index(stream, results.size(),
                                  fibonacci{arena.open(stream), results.write(stream)});
            arena.check(stream);
            is_done = true;
        } catch (cuota::kernel_overflow_error const& overflow) {
            std::puts(overflow.what());
            bytes = overflow.needed();
        }
    std::printf("with %s the last of %zu is %u\n", cuota::bytes_text(bytes).c_str(), results.size(),
                results.to_vector(stream).back());
}
