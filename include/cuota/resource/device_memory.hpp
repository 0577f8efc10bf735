// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on cudaMalloc and cudaFree.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/detail/driver_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0 {

namespace detail {

struct cuda_malloc {
    static constexpr char const* name = "cudaMalloc";
    static void* from_driver(std::size_t bytes) { return rt::device_allocate(bytes); }
};

}  // namespace detail

/// Resource on a device's memory directly from the driver, for few and long-lived allocations and as upstream of a pool. `device_memory{}`
/// uses the current device, `device_memory{device{1}}` that one.
///
/// Units:   bytes, counted in multiples of 512.
/// Order:   valid on every stream when allocated. `deallocate` waits for the stream; `deallocate_sync` requires that all work on the memory
///          has finished. cudaFree may wait for the whole device.
/// Threads: any.
/// Throws:  out_of_memory with the driver's figures, after pools and caches of the device released memory (docs/refusals.md); usage_error
///          for an alignment above 256, and if kernels of the device of a `stream` cannot access the memory (native handles are not
///          checked); cuda_error.
/// Cost:    about 10 to 1000 us on a GPU.
/// Example: tests/resource/device_memory.cpp
class device_memory final : public detail::blocking_memory<memory_kind::device, detail::cuda_malloc> {
public:
    using blocking_memory::blocking_memory;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<device_memory> && device_accessible_resource<device_memory> &&
              !host_accessible_resource<device_memory>);

}  // namespace cuota::inline v0

#endif
