// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Caps a step: its budget limits how much the step may hold, and a request over the limit is refused before it is allocated.
///
/// Expected output; ... stands for text that depends on the machine:
///
///     1000 samples: held at most 8.0 MiB
///     2000 samples: held at most 16.0 MiB
///     4000 samples: cuota::budget_exceeded: cannot allocate 15.3 MiB for gradients at cap_a_step.cpp:34: 0 B free in budget step
///       budget step           limit 16.0 MiB    held 16.0 MiB    free 0 B         peak 16.0 MiB   <- refused
///       budget program        limit 64.0 MiB    held 16.0 MiB    free 48.0 MiB    peak 16.0 MiB
///       device 0 ...
///       held by    activations 15.3 MiB (cap_a_step.cpp:33), cached in a pool 759.0 KiB
///       reclaimed  nothing: 759.0 KiB cached in pools share pages with live blocks; largest free block 759.0 KiB
///       help       request at most 194'304 floats (759.0 KiB)
///       or         free 15.3 MiB: activations (cap_a_step.cpp:33)
///       or         raise the limit of step to 31.3 MiB
#include <cstddef>
#include <cstdio>

#include <cuota/cuota.hpp>

using namespace cuota::literals;

struct derive {
    cuota::device_span<float const> activations;
    cuota::device_span<float> gradients;
    CUOTA_KERNEL void operator()(std::size_t i) const { gradients[i] = 2 * activations[i]; }
};

void train_step(std::size_t samples, cuota::stream const& stream, cuota::scoped_pool const& pool) {
    cuota::device_buffer<float> activations{1000 * samples, stream, pool, "activations"};
    cuota::device_buffer<float> gradients{1000 * samples, stream, pool, "gradients"};
    cuota::for_each_index(stream, gradients.size(),
                          derive{activations.read(stream), gradients.write(stream)});
}  // both are freed in stream order, without a wait on the host

int main() {
    cuota::budget const program{"program", 64_MiB};
    cuota::budget const share{"step", 16_MiB, program};  // a child: its charges count in `program`, too
    cuota::scoped_pool const pool{share};
    cuota::stream const stream;

    for (std::size_t samples = 1000; samples <= 4000; samples *= 2) try {
            train_step(samples, stream, pool);
            std::printf("%zu samples: held at most %s\n", samples, cuota::bytes_text(share.peak()).c_str());
        } catch (cuota::budget_exceeded const& refused) {
            std::printf("%zu samples: %s\n", samples, refused.what());
        }
}
