// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource on cudaMallocManaged.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/resource/detail/driver_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0 {

namespace detail {

struct cuda_malloc_managed {
    static constexpr char const* name = "cudaMallocManaged";
    static void* from_driver(std::size_t bytes) { return rt::managed_allocate(bytes); }
};

}  // namespace detail

/// Resource on managed memory, accessible to host and device and migrated by the driver on demand. `managed_memory{}` uses the current
/// device, `managed_memory{device{1}}` that one.
///
/// Units:   bytes, counted in multiples of 512 as if they were resident.
/// Order:   as device_memory.
/// Threads: any.
/// Throws:  out_of_memory with the driver's figures; usage_error for an alignment above 256; cuda_error.
/// Cost:    a driver call each.
/// Example: tests/resource/managed_memory.cpp
class managed_memory final
    : public detail::blocking_memory<memory_kind::managed, detail::cuda_malloc_managed> {
public:
    using blocking_memory::blocking_memory;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<managed_memory> && device_accessible_resource<managed_memory> &&
              host_accessible_resource<managed_memory>);

}  // namespace cuota::inline v0

#endif
