// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who is told of each thing that happens in a pool: a recorder.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>

namespace cuota::inline v0::detail {

/// A block at the moment it is taken, given back, or known not to be used any more.
struct observed_block {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    void const* at = nullptr;
    std::size_t bytes = 0;  ///< as asked for
    std::size_t size = 0;   ///< with what the pool rounds up
    tag name{};
    place where{};
    std::uint64_t stream = no_stream;  ///< the id of the one it was taken or given back in order of
};

/// Told under the pool's lock, in the order of events: it calls nothing of the pool, and waits for nobody. A pool that
/// is observed keeps no blocks ready for threads, so that every event comes by; one that is not has the same
/// instructions as if there were no observers.
class pool_observer : public ref_counted {
public:
    virtual ~pool_observer() = default;

    virtual void allocated(observed_block const& b) noexcept = 0;
    virtual void free_requested(observed_block const& b) noexcept = 0;
    /// No work uses it any more, as the pool came to know just now.
    virtual void free_completed(observed_block const& b) noexcept = 0;
    virtual void segment_taken(void const* at, std::size_t bytes, place where) noexcept = 0;
    virtual void segment_returned(void const* at, std::size_t bytes) noexcept = 0;
    virtual void step_begun(place where) noexcept = 0;
    virtual void step_ended() noexcept = 0;
    /// The pool is no more; outside its lock. Nothing is told after it.
    virtual void ended() noexcept = 0;
};

}  // namespace cuota::inline v0::detail
