// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUB's device-wide algorithms, and all that are called as they are, with scratch memory of a resource in order of a
/// stream. Not in all.hpp, as all of interop; it needs no header of CUB's.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/resource_ref.hpp>
#include <cuota/runtime/call.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// A call in two phases, as CUB's are: with null for scratch it says how many bytes it wants and does nothing else; with
/// scratch it enqueues its work.
template <class Call>
concept two_phase_call = requires(Call& call, void* scratch, std::size_t& bytes) {
    { call(scratch, bytes) } -> std::same_as<cudaError_t>;
};

/// The scratch that run_cub takes for this call, for a plan: `plan.add<std::byte>("cub", cub_bytes(s, call))`.
///
/// Units:   bytes, as the call wants them; at least one, since with null a call would only say its size again.
/// Order:   on the host. The size is for the device of s.
/// Throws:  cuda_error for what the call returned; what it throws.
template <two_phase_call Call>
[[nodiscard]] std::size_t cub_bytes(stream_ref s, Call&& call, place where = place::here()) {
    device_scope const here{s.device()};
    std::size_t bytes = 0;
    rt::check(call(nullptr, bytes), "CUB, asked for the size of its scratch,", where);
    return std::max(bytes, std::size_t{1});
}

/// Runs a call in two phases: asks for the size of its scratch, takes that, and calls it again.
///
///     run_cub(stream, pool, [&](void* scratch, std::size_t& bytes) {
///         return cub::DeviceScan::InclusiveSum(scratch, bytes, from, to, n, stream.get());
///     });
///
/// The call enqueues on s alone: its scratch is valid in order of s from then on, and is given back in order of s when this
/// returns, while the work may still go on. What the call works on is the caller's: its leases on s are open during this.
/// Order:   on s. Does not wait, unless the resource does.
/// Threads: any, if the resource allows it.
/// Throws:  budget_exceeded, out_of_memory for scratch: then nothing is enqueued; misuse for scratch on the host;
///          cuda_error (place) for what the call returned; what it throws. Scratch is given back in each case.
/// Cost:    a request and its release, and the call asked twice; CUB's sizes are computed on the host.
template <two_phase_call Call>
void run_cub(stream_ref s, resource_ref const& memory, Call&& call, place where = place::here()) {
    device_buffer<std::byte> scratch{cub_bytes(s, call, where), s, memory, no_init, "cub", where};
    device_scope const here{s.device()};
    auto const lent = scratch.write(s, where);
    std::size_t bytes = scratch.size();
    rt::check(call(static_cast<void*>(lent.span().data()), bytes), "CUB", where);
}

}  // namespace cuota::inline v0
