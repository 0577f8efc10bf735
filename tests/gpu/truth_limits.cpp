// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The part of gpu_truth that compares what the library says about the memory of the machine with CUDA and the kernel.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/host_memory.hpp>

#include "gpu/truth.hpp"

namespace truth {
namespace {

using namespace cuota::literals;

[[nodiscard]] double gib(std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(std::size_t{1_GiB});
}

[[nodiscard]] std::string soft_limit(cuota::device where) {
    std::optional<cuota::memory_limits> const limits = where.limits();
    if (!limits) return "NVML reports no limits";
    expect(limits->soft <= limits->hard || limits->soft == cuota::unlimited,
           "NVML's soft limit is above its hard limit");
    return text("NVML: soft %.2f GiB, hard %.2f GiB, used %.2f GiB", gib(limits->soft), gib(limits->hard),
                gib(limits->used));
}

}  // namespace

std::string limits_of_the_machine() {
    cuota::device const here = cuota::device::current();
    std::size_t free = 0, total = 0;
    expect(cudaMemGetInfo(&free, &total) == cudaSuccess, "cudaMemGetInfo failed");
    cuota::device::memory_info const memory = here.memory();
    expect_equal("the device's total", memory.total, total);
    if (!here.uses_host_memory()) expect_equal("free bytes", memory.free, memory.driver_free);
    expect(memory.free <= total, "more is free than there is");

    cuota::host_memory_info const host = cuota::host_memory();
    expect(host.total != 0 && host.available <= host.total, "more is available on the host than it has");
    cuota::budget const pinned = cuota::budget::for_host(1.0, host.available / 2);
    {
        cuota::pinned_buffer<std::byte> const some{on_a_gpu<std::size_t>(256_MiB, 1_MiB), pinned};
        expect_equal("bytes held of the host's budget", pinned.held(), some.bytes());
        try {
            cuota::pinned_buffer<std::byte> const large{host.available, pinned};
            throw failed{"all of the host's memory was granted by a budget that keeps half of it free"};
        } catch (cuota::budget_exceeded const&) {}
    }
    expect_equal("bytes held at the end", pinned.held(), 0U);
    return text("device %.2f GiB free of %.2f GiB%s; host %.2f GiB available of %.2f GiB%s%s; ",
                gib(memory.free), gib(memory.total),
                here.uses_host_memory() ? ", which is the host's memory" : "", gib(host.available),
                gib(host.total), host.bounded_by.empty() ? "" : ", bounded by ", host.bounded_by.c_str()) +
           (host.ignored.empty() ? "" : "not used: " + host.ignored + "; ") + soft_limit(here);
}

}  // namespace truth
