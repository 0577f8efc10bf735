// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The interface of an observer of a pool's events, such as a recorder.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>

namespace cuota::inline v0::detail {

/// A block when it is allocated, freed, or known to be no longer in use.
struct observed_block {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    void const* at = nullptr;
    std::size_t bytes = 0;  ///< requested bytes
    std::size_t size = 0;   ///< rounded up by the pool
    tag name{};
    place where{};
    std::uint64_t stream = no_stream;  ///< id of the allocating or freeing stream
};

/// Observes a pool. Functions are called under the pool's lock in the order of events; they must not call the pool or wait. An observed
/// pool uses no thread caches, so that every event is seen. A pool without an observer executes the same instructions as if observers did
/// not exist.
class pool_observer : public ref_counted {
public:
    virtual ~pool_observer() = default;

    virtual void allocated(observed_block const& b) noexcept = 0;
    virtual void free_requested(observed_block const& b) noexcept = 0;
    /// Called when the pool has detected that no work uses the block any more.
    virtual void free_completed(observed_block const& b) noexcept = 0;
    virtual void segment_taken(void const* at, std::size_t bytes, place where) noexcept = 0;
    virtual void segment_returned(void const* at, std::size_t bytes) noexcept = 0;
    virtual void step_begun(place where) noexcept = 0;
    virtual void step_ended() noexcept = 0;
    /// Called last, when the pool is destroyed; without its lock.
    virtual void ended() noexcept = 0;
};

}  // namespace cuota::inline v0::detail
