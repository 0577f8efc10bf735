// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A plan of allocations from a pool.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/pool/scoped_pool.hpp>

namespace cuota::inline v0 {

/// Returns an empty plan for blocks of this pool. Parts are rounded up as its blocks are, and their sum to whole pages, for which the pool's
/// budget is charged. A pool that grows by segments may be charged more, because a segment is not filled to its end.
///
///     footprint plan = pool_footprint(pool);
///     plan.per_sample<float>("activations", 4096);
///     std::size_t const batch = plan.largest_batch(budget).batch;
///
/// Units: bytes. Threads: any. Throws: std::bad_alloc. Cost: none.
[[nodiscard]] footprint pool_footprint(scoped_pool const& pool);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/pool_state.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE footprint pool_footprint(scoped_pool const& pool) {
    auto const& state = detail::pool_access::state(pool);
    return footprint::with_pages(state.alignment(), state.growth_granularity());
}

}  // namespace cuota::inline v0

#endif
