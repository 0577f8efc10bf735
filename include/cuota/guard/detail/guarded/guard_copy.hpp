// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Copies guard bytes to pinned memory in one kernel.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// Kernel that copies the guard bytes of several blocks to pinned memory.
struct copy_guard_bytes {
    static constexpr std::size_t most = 16;

    struct pair {
        unsigned char const* front;
        unsigned char const* behind;
        unsigned char* seen;
    };

    std::size_t redzone_bytes;
    pair of[most];

    CUOTA_KERNEL void operator()(std::size_t i) const {
        pair const& one = of[i / (2 * redzone_bytes)];
        std::size_t const at = i % (2 * redzone_bytes);
        one.seen[at] = at < redzone_bytes ? one.front[at] : one.behind[at - redzone_bytes];
    }
};

/// Enqueues the kernel for `blocks` blocks. Returns false, and enqueues nothing, if the program has no code of it for the runtime.
/// Throws: cuda_error.
[[nodiscard]] bool try_copy_guard_bytes(stream_ref s, copy_guard_bytes const& all, std::size_t blocks,
                                        source_location where);

}  // namespace cuota::inline v0::detail

#if CUOTA_PART_KERNELS

#include <optional>

#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool try_copy_guard_bytes(stream_ref s, copy_guard_bytes const& all, std::size_t blocks,
                                       source_location where) {
    if (!rt::is_runnable<copy_guard_bytes>()) return false;
    std::optional<rt::access_annotation> read[2 * copy_guard_bytes::most];
    for (std::size_t i = 0; i != blocks; ++i) {
        read[2 * i].emplace(s, all.of[i].front, all.redzone_bytes, false);
        read[2 * i + 1].emplace(s, all.of[i].behind, all.redzone_bytes, false);
    }
    for_each_index(s, blocks * 2 * all.redzone_bytes, all, "guarded", where);
    return true;
}

}  // namespace cuota::inline v0::detail

#endif
