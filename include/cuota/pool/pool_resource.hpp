// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool as a resource.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class pool_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::pool_state>;
#endif

/// A pool as a resource: an eight-byte handle that keeps the memory valid, but does not extend the pool's scope. A block may be freed
/// through any handle of the pool. Lifetime: the hint of its allocations.
/// Order, threads, throws, cost: as `scoped_pool`. Example: tests/pool/pool_resource.cpp
template <lifetime_hint Lifetime>
class pool_resource_for {
public:
    /// Blocks that captured streams free stay with the graph.
    static constexpr bool graph_aware_resource = true;
    /// Refers to the same pool; a move copies.
    pool_resource_for(pool_resource_for const&) noexcept = default;
    /// Refers to the same pool.
    pool_resource_for& operator=(pool_resource_for const&) noexcept = default;
    ~pool_resource_for() = default;

    /// Allocates in the order of s. Throws: usage_error also for lifetime_hint::step without an open step.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in the order of s. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Allocates for every stream; the host waits for pending work.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory that no work uses.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Returns 256 bytes.
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return default_alignment; }
    [[nodiscard]] memory_kind kind() const noexcept;  ///< kind of the source
    /// Compares by pool.
    friend bool operator==(pool_resource_for const&, pool_resource_for const&) noexcept = default;

    /// Allocates a block that keeps the pool alive: block_owned_resource.
    [[nodiscard]] void* allocate_retaining(stream_ref s, std::size_t bytes, std::size_t alignment,
                                           label const& who);
    /// Returns a copy without a reference count, which must not be destroyed.
    [[nodiscard]] pool_resource_for unowned() const noexcept { return unowned(*state_); }

    /// allocate_retaining from this thread's cache, or null. Arguments by value stay in registers.
    CUOTA_ALWAYS_INLINE [[nodiscard]] void* take_cached(stream_ref s, std::size_t bytes, tag name,
                                                        source_location where) const noexcept;
    /// deallocate into this thread's cache, if possible.
    CUOTA_ALWAYS_INLINE [[nodiscard]] bool put_cached(stream_ref s, void* p,
                                                      std::size_t bytes) const noexcept;

private:
    friend class scoped_pool;
    friend class pool_step;
    explicit pool_resource_for(detail::intrusive_ptr<detail::pool_state> state) noexcept
        : state_{std::move(state)} {}
    [[nodiscard]] static pool_resource_for unowned(detail::pool_state& state) noexcept {
        return pool_resource_for{detail::intrusive_ptr<detail::pool_state>::adopt(&state)};
    }
    detail::intrusive_ptr<detail::pool_state> state_;
};

/// A pool without a lifetime hint.
using pool_resource = pool_resource_for<lifetime_hint::scratch>;

#if !CUOTA_DEFINE_MEMORY
extern template class pool_resource_for<lifetime_hint::scratch>;
extern template class pool_resource_for<lifetime_hint::step>;
extern template class pool_resource_for<lifetime_hint::persistent>;
#endif

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/pool_state.hpp>

namespace cuota::inline v0 {

static_assert(pool_resource::granularity() == detail::pool_state::granularity);

static_assert(labeled_resource<pool_resource> && block_owned_resource<pool_resource>);

template <lifetime_hint Lifetime>
CUOTA_INLINE void* pool_resource_for<Lifetime>::allocate(stream_ref s, std::size_t bytes,
                                                         std::size_t alignment, label const& who) {
    return state_->allocate(s, bytes, alignment, who, Lifetime);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE void pool_resource_for<Lifetime>::deallocate(stream_ref s, void* p, std::size_t bytes,
                                                          std::size_t) noexcept {
    state_->deallocate(s, p, bytes);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE void* pool_resource_for<Lifetime>::allocate_sync(std::size_t bytes, std::size_t alignment,
                                                              label const& who) {
    return state_->allocate_sync(bytes, alignment, who, Lifetime);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE void pool_resource_for<Lifetime>::deallocate_sync(void* p, std::size_t bytes,
                                                               std::size_t) noexcept {
    state_->deallocate_sync(p, bytes);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE memory_kind pool_resource_for<Lifetime>::kind() const noexcept {
    return state_->kind();
}

template <lifetime_hint Lifetime>
CUOTA_INLINE void* pool_resource_for<Lifetime>::allocate_retaining(stream_ref s, std::size_t bytes,
                                                                   std::size_t alignment, label const& who) {
    return state_->allocate(s, bytes, alignment, who, Lifetime, true);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE void* pool_resource_for<Lifetime>::take_cached(stream_ref s, std::size_t bytes, tag name,
                                                            source_location where) const noexcept {
    return state_->blocks().take_cached(s, bytes, default_alignment, name, where, Lifetime, true);
}

template <lifetime_hint Lifetime>
CUOTA_INLINE bool pool_resource_for<Lifetime>::put_cached(stream_ref s, void* p,
                                                          std::size_t bytes) const noexcept {
    return state_->blocks().put_cached(s, p, bytes);
}

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::pool_state>;
template class pool_resource_for<lifetime_hint::scratch>;
template class pool_resource_for<lifetime_hint::step>;
template class pool_resource_for<lifetime_hint::persistent>;
#endif

}  // namespace cuota::inline v0

#endif
