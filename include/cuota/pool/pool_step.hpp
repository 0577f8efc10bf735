// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A step of a program in its pool: what is taken for it should be gone when it ends.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/resource_ref.hpp>

namespace cuota::inline v0 {

/// The scope of one step: from `scoped_pool::begin_step` to the end of the block.
///
/// Memory taken through it comes from the other end of the pool than what is `persistent()`: once the step is over, all
/// but what stays is one free block again, also when weights or states were made in its midst. What was taken through
/// it and is alive at its end is reported by tag, size and place, as misuse, and stays valid.
/// Then the pool is trimmed to its release threshold, if it has one.
/// Ages in reports are counted in steps. A pool has one step open at a time.
///
/// Units:   as scoped_pool.
/// Order:   that of the pool; the end does not wait, but where it trims.
/// Threads: any may take and give; it ends when none takes through it any more.
/// Throws:  as the pool; misuse when memory is asked for through a resource() while no step is open.
/// Cost:    the end looks at each live block.
/// Example:
///     for (cuota::batch b : loader.epoch(0)) {
///         auto const step = pool.begin_step();
///         cuota::device_buffer<float> activations{n, stream, step, "activations"};
///         ...
///     }
class pool_step {
public:
    pool_step(pool_step const&) = delete;  // a scope is one place; hand on resource() instead
    pool_step& operator=(pool_step const&) = delete;
    ~pool_step();

    /// The step for those who take a resource. May outlive it; requests while no step is open are misuse.
    [[nodiscard]] pool_resource_for<lifespan::step> resource() const noexcept;
    operator any_resource() const;  ///< the same
    /// The same, for the length of a call.
    operator resource_ref() const noexcept;

    /// As scoped_pool::allocate, for this step: to be given back before it ends.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, place where = place::here()) const;
    /// As scoped_pool::deallocate.
    void deallocate(stream_ref s, void* p, std::size_t bytes) const noexcept;

private:
    friend class scoped_pool;
    pool_step(shared<detail::pool_state> state, std::size_t release_threshold, place where);

    shared<detail::pool_state> state_;
    std::size_t const release_threshold_;
    place const where_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/pool_state.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE pool_step::~pool_step() {
    if (state_->is_of_parent()) return;
    report_failure_of([this] {
        if (std::string const alive = state_->blocks().end_step(); !alive.empty())
            detail::throw_misuse(where_, "a step of {} ended while {}", {state_->title(), alive});
    });
    if (release_threshold_ != unlimited) state_->trim(release_threshold_);
}

CUOTA_INLINE pool_resource_for<lifespan::step> pool_step::resource() const noexcept {
    return pool_resource_for<lifespan::step>{state_};
}

CUOTA_INLINE pool_step::operator any_resource() const { return resource(); }

CUOTA_INLINE pool_step::operator resource_ref() const noexcept {
    return resource_ref::of_uncounted(
        [this]() noexcept { return pool_resource_for<lifespan::step>::uncounted(*state_); });
}

CUOTA_INLINE void* pool_step::allocate(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                       place where) const {
    return state_->allocate(s, bytes, alignment, {name, where}, lifespan::step);
}

CUOTA_INLINE void pool_step::deallocate(stream_ref s, void* p, std::size_t bytes) const noexcept {
    state_->deallocate(s, p, bytes);
}

CUOTA_INLINE pool_step::pool_step(shared<detail::pool_state> state, std::size_t release_threshold,
                                  place where)
    : state_{std::move(state)}, release_threshold_{release_threshold}, where_{where} {
    state_->blocks().begin_step(where);
}

}  // namespace cuota::inline v0

#endif
