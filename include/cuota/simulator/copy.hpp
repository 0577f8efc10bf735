// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

namespace cuota::inline v0::simulator {

enum class source_read {
    usual,     ///< pageable memory before the call returns, other memory in stream order
    in_order,  ///< all memory in stream order
    now,       ///< before the call returns
};

struct copy_request {
    void* to;
    void const* from;
    std::size_t bytes;
    cudaMemcpyKind kind;
    bool wait;
    source_read read = source_read::usual;
    bool has_latency = true;  ///< false for later rows of a 2D copy
};

/// Has no effect unless it returns cudaSuccess or the device's failure.
cudaError_t copy(guard& lock, copy_request const& c, cudaStream_t handle);
/// The lower `bytes` (1, 2 or 4) bytes of `value`, repeated.
struct set_value {
    unsigned value;
    std::size_t bytes = 1;
};
/// A memset, which never waits.
cudaError_t set(guard& lock, void* to, set_value value, std::size_t bytes, cudaStream_t handle);
cudaError_t bad_range(void const* first, std::size_t bytes);

}  // namespace cuota::inline v0::simulator
