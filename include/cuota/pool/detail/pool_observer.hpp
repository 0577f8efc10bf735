// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The interface of a pool's observer.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

struct observed_block {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    void const* at = nullptr;
    std::size_t bytes = 0;
    std::size_t size = 0;  ///< rounded up by the pool
    tag name{};
    source_location where{};
    std::uint64_t stream = no_stream;  ///< id of its stream
};

/// Called under the pool's lock in the order of events; must not call the pool or wait. An observed pool has no thread caches.
class pool_observer : public ref_counted {
public:
    virtual ~pool_observer() = default;

    virtual void allocated(observed_block const& b) noexcept = 0;
    virtual void free_requested(observed_block const& b) noexcept = 0;
    virtual void free_completed(observed_block const& b) noexcept = 0;
    virtual void segment_allocated(void const* at, std::size_t bytes, source_location where) noexcept = 0;
    virtual void segment_freed(void const* at, std::size_t bytes) noexcept = 0;
    virtual void step_begun(source_location where) noexcept = 0;
    virtual void step_ended() noexcept = 0;
    /// The last call, without the pool's lock.
    virtual void ended() noexcept = 0;
};

}  // namespace cuota::inline v0::detail
