// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The bytes that kernels have requested of a scratch_arena.
#pragma once

#include <cstddef>

#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/kernel_overflow_error.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

/// Enters the present counts, the first half, into their maxima, the second half, and sets them to 0. There is one of each per part.
void begin_scratch_counts(stream_ref s, device_span<kernel_count> requested, source_location where);

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

#if CUOTA_PART_KERNELS

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

struct enter_scratch_count {
    device_span<kernel_count> requested;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        kernel_count& most = requested[requested.size() / 2 + i];
        if (requested[i] > most) most = requested[i];
        requested[i] = 0;
    }
};

CUOTA_INLINE void begin_scratch_counts(stream_ref s, device_span<kernel_count> requested,
                                       source_location where) {
    for_each_index(s, requested.size() / 2, enter_scratch_count{requested}, "scratch_arena", where);
}

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

#endif
