// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

namespace cuota::inline v0::simulator {

/// When the source of a copy is read.
enum class source_read {
    usual,     ///< pageable memory before the call returns, all other memory in stream order
    in_order,  ///< whatever memory it is, in stream order
    now,       ///< before the call returns
};

struct copy_request {
    void* to;
    void const* from;
    std::size_t bytes;
    cudaMemcpyKind kind;
    bool wait;  ///< cudaMemcpy rather than cudaMemcpyAsync
    source_read read = source_read::usual;
    bool has_latency = true;  ///< but for the rows of a 2D copy after its first
};

/// Checks and enqueues a copy. Nothing has happened unless it is cudaSuccess or the failure of the device.
cudaError_t copy(guard& lock, copy_request const& c, cudaStream_t handle);
/// What a memset writes over and over: the lower `bytes` bytes of `value`; 1, 2 or 4.
struct set_value {
    unsigned value;
    std::size_t bytes = 1;
};
/// The same of a memset of `bytes` bytes, which never waits.
cudaError_t set(guard& lock, void* to, set_value value, std::size_t bytes, cudaStream_t handle);
/// The range is not one that may be used so: cudaErrorInvalidValue.
cudaError_t bad_range(void const* first, std::size_t bytes);

}  // namespace cuota::inline v0::simulator
