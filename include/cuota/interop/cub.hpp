// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs two-phase calls, such as CUB's device-wide algorithms, with scratch memory from a resource. Includes no CUB header.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/resource_ref.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// A call as CUB's: with null scratch it only returns the required bytes; with scratch it enqueues its work.
template <class Call>
concept two_phase_call = requires(Call& call, void* scratch, std::size_t& bytes) {
    { call(scratch, bytes) } -> std::same_as<cudaError_t>;
};

/// Returns the bytes of scratch that run_cub allocates on the device of s, for a plan:
/// `plan.add<std::byte>("cub", cub_temp_storage_bytes(s, call))`. At least 1: null scratch would request the size again.
/// Throws: cuda_error if the call returns an error; exceptions of the call.
template <two_phase_call Call>
[[nodiscard]] std::size_t cub_temp_storage_bytes(stream_ref s, Call&& call,
                                                 source_location where = source_location::current()) {
    device_scope const here{s.device()};
    std::size_t bytes = 0;
    rt::check(call(nullptr, bytes), "CUB (query of the temporary storage size)", where);
    return std::max(bytes, std::size_t{1});
}

/// Runs a two-phase call with scratch of the required size.
///
///     run_cub(stream, pool, [&](void* scratch, std::size_t& bytes) {
///         return cub::DeviceScan::InclusiveSum(scratch, bytes, from, to, n, stream.get());
///     });
///
/// The call must enqueue on s only: the scratch is freed in the order of s on return. The caller keeps its own leases on s open during the
/// call.
/// Order:   on s. Does not wait, unless the resource does.
/// Threads: any, if the resource allows it.
/// Throws:  budget_exceeded, out_of_memory for the scratch, with nothing enqueued; usage_error for scratch in host memory; as
///          cub_temp_storage_bytes. The scratch is always freed.
/// Cost:    an allocation and its deallocation, and two invocations.
template <two_phase_call Call>
void run_cub(stream_ref s, resource_ref const& memory, Call&& call,
             source_location where = source_location::current()) {
    device_buffer<std::byte> scratch{
        cub_temp_storage_bytes(s, call, where), s, memory, no_init, "cub", where};
    device_scope const here{s.device()};
    auto const lent = scratch.write(s, where);
    std::size_t bytes = scratch.size();
    rt::check(call(static_cast<void*>(lent.span().data()), bytes), "CUB", where);
}

}  // namespace cuota::inline v0
