// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool for those who take a resource.
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

/// A pool as a resource: an eight-byte handle. Keeps the pool's memory valid, not its scope open.
/// Meant: for how long the memory is to live that is taken through it. What one handle took any other may give back.
/// Order, threads, throws, cost: those of `scoped_pool`. Example: tests/pool/pool_resource.cpp
template <lifespan Meant>
class pool_resource_for {
public:
    /// What a captured stream gives back stays the graph's, as the concept of that name says.
    static constexpr bool keeps_for_graphs = true;
    /// The same pool; its move is a copy, so a handle that was moved from is still valid.
    pool_resource_for(pool_resource_for const&) noexcept = default;
    pool_resource_for& operator=(pool_resource_for const&) noexcept = default;  ///< the same pool as other
    ~pool_resource_for() = default;

    /// Valid in s from here on. Throws: as scoped_pool; misuse after its end, or, for what is a step's, while none is open.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// In order of s. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Valid on every stream at return: the host waits for what may still use the bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// For when all work on it was seen to end. Null does nothing.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Bytes: 256. What the pool takes of its source is in pages or segments.
    [[nodiscard]] static constexpr std::size_t granule() noexcept { return default_alignment; }
    [[nodiscard]] memory_kind kind() const noexcept;  ///< its source's
    /// Whether both are one pool.
    friend bool operator==(pool_resource_for const&, pool_resource_for const&) noexcept = default;

    /// As allocate, of a block that keeps the pool, for who has no share of it: kept_by_blocks. Throws: as allocate.
    [[nodiscard]] void* allocate_keeping(stream_ref s, std::size_t bytes, std::size_t alignment,
                                         label const& who);
    /// A copy that is no owner: the caller must not destroy it. As kept_by_blocks wants it.
    [[nodiscard]] pool_resource_for uncounted() const noexcept { return uncounted(*state_); }

    /// As allocate_keeping, of what this thread holds ready: null when there is none. Takes its arguments by value, so that
    /// they stay in registers.
    CUOTA_ALWAYS_INLINE [[nodiscard]] void* take_ready(stream_ref s, std::size_t bytes, tag name,
                                                       place where) const noexcept;
    /// As deallocate, of what this thread can hold ready: false when it cannot.
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

/// The usual: what is taken through it may come and go at any time. `scoped_pool::resource()`.
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
