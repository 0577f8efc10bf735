// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool as a resource.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class pool_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class shared<detail::pool_state>;
#endif

/// A pool as a resource: a handle of eight bytes that keeps the pool's memory valid, but does not extend the pool's scope.
/// Meant: the lifetime hint of every allocation through this handle. A block may be freed through any handle of the pool.
/// Order, threads, throws, cost: as `scoped_pool`. Example: tests/pool/pool_resource.cpp
template <lifespan Meant>
class pool_resource_for {
public:
    /// Blocks that a captured stream frees stay with the graph; see the concept `keeps_for_graphs`.
    static constexpr bool keeps_for_graphs = true;
    /// Refers to the same pool. A move copies, so a moved-from handle stays valid.
    pool_resource_for(pool_resource_for const&) noexcept = default;
    /// refers to the same pool as other
    pool_resource_for& operator=(pool_resource_for const&) noexcept = default;
    ~pool_resource_for() = default;

    /// Allocates memory that is valid on s from here on. Throws: as scoped_pool; misuse after the pool's destruction or, for
    /// lifespan::step, if no step is open.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in the order of s. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Allocates memory that is valid on every stream at return: the host waits for work that may still use the bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory whose work has completed, as the caller has observed. Null is ignored.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Returns the granularity of blocks: 256 bytes. The pool itself allocates pages or segments from its source.
    [[nodiscard]] static constexpr std::size_t granule() noexcept { return default_alignment; }
    [[nodiscard]] memory_kind kind() const noexcept;  ///< memory kind of the source
    /// Returns whether both refer to one pool.
    friend bool operator==(pool_resource_for const&, pool_resource_for const&) noexcept = default;

    /// Allocates a block that keeps the pool alive, for owners without a reference to the pool; see `kept_by_blocks`. Throws: as allocate.
    [[nodiscard]] void* allocate_keeping(stream_ref s, std::size_t bytes, std::size_t alignment,
                                         label const& who);
    /// Returns a copy without a reference count, as `kept_by_blocks` requires. The caller must not destroy it.
    [[nodiscard]] pool_resource_for uncounted() const noexcept { return uncounted(*state_); }

    /// allocate_keeping from this thread's cache; returns null on a miss. Arguments are passed by value so that they stay in registers.
    CUOTA_ALWAYS_INLINE [[nodiscard]] void* take_ready(stream_ref s, std::size_t bytes, tag name,
                                                       place where) const noexcept;
    /// deallocate into this thread's cache; returns false if the block cannot be cached.
    CUOTA_ALWAYS_INLINE [[nodiscard]] bool put_ready(stream_ref s, void* p, std::size_t bytes) const noexcept;

private:
    friend class scoped_pool;
    friend class pool_step;
    explicit pool_resource_for(shared<detail::pool_state> state) noexcept : state_{std::move(state)} {}
    [[nodiscard]] static pool_resource_for uncounted(detail::pool_state& state) noexcept {
        return pool_resource_for{shared<detail::pool_state>::adopt(&state)};
    }
    shared<detail::pool_state> state_;
};

/// The default: no lifetime hint. `scoped_pool::resource()` returns it.
using pool_resource = pool_resource_for<lifespan::scratch>;

#if !CUOTA_DEFINE_MEMORY
extern template class pool_resource_for<lifespan::scratch>;
extern template class pool_resource_for<lifespan::step>;
extern template class pool_resource_for<lifespan::persistent>;
#endif

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/pool_state.hpp>

namespace cuota::inline v0 {

static_assert(pool_resource::granule() == detail::pool_state::granule);

static_assert(labelled_resource<pool_resource> && kept_by_blocks<pool_resource>);

template <lifespan Meant>
CUOTA_INLINE void* pool_resource_for<Meant>::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                                      label const& who) {
    return state_->allocate(s, bytes, alignment, who, Meant);
}

template <lifespan Meant>
CUOTA_INLINE void pool_resource_for<Meant>::deallocate(stream_ref s, void* p, std::size_t bytes,
                                                       std::size_t) noexcept {
    state_->deallocate(s, p, bytes);
}

template <lifespan Meant>
CUOTA_INLINE void* pool_resource_for<Meant>::allocate_sync(std::size_t bytes, std::size_t alignment,
                                                           label const& who) {
    return state_->allocate_sync(bytes, alignment, who, Meant);
}

template <lifespan Meant>
CUOTA_INLINE void pool_resource_for<Meant>::deallocate_sync(void* p, std::size_t bytes,
                                                            std::size_t) noexcept {
    state_->deallocate_sync(p, bytes);
}

template <lifespan Meant>
CUOTA_INLINE memory_kind pool_resource_for<Meant>::kind() const noexcept {
    return state_->kind();
}

template <lifespan Meant>
CUOTA_INLINE void* pool_resource_for<Meant>::allocate_keeping(stream_ref s, std::size_t bytes,
                                                              std::size_t alignment, label const& who) {
    return state_->allocate(s, bytes, alignment, who, Meant, true);
}

template <lifespan Meant>
CUOTA_INLINE void* pool_resource_for<Meant>::take_ready(stream_ref s, std::size_t bytes, tag name,
                                                        place where) const noexcept {
    return state_->blocks().take_ready(s, bytes, default_alignment, name, where, Meant, true);
}

template <lifespan Meant>
CUOTA_INLINE bool pool_resource_for<Meant>::put_ready(stream_ref s, void* p,
                                                      std::size_t bytes) const noexcept {
    return state_->blocks().put_ready(s, p, bytes);
}

#if CUOTA_SEPARATE
template class shared<detail::pool_state>;
template class pool_resource_for<lifespan::scratch>;
template class pool_resource_for<lifespan::step>;
template class pool_resource_for<lifespan::persistent>;
#endif

}  // namespace cuota::inline v0

#endif
