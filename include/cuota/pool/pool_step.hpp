// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A program's step in its pool.
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

/// The scope of one step, from `scoped_pool::begin_step` to destruction.
///
/// Its memory comes from the opposite end of the pool to `persistent()` memory, so that a step leaves one free block. The destructor
/// reports live blocks of the step as misuse, by tag, size and call site; they stay valid. It then trims the pool to its release threshold.
/// A pool has at most one open step.
///
/// Units, order: as scoped_pool. The destructor waits only if it trims.
/// Threads: any may allocate and free; destroy the step after the last allocation.
/// Throws:  as scoped_pool; usage_error for an allocation through resource() while no step is open.
/// Cost:    the destructor visits each live block.
/// Example:
///     for (cuota::batch b : loader.epoch(0)) {
///         auto const step = pool.begin_step();
///         cuota::device_buffer<float> activations{n, stream, step, "activations"};
///         ...
///     }
class pool_step {
public:
    pool_step(pool_step const&) = delete;  // pass resource() instead
    pool_step& operator=(pool_step const&) = delete;
    ~pool_step();

    /// Returns the step as a resource, which may outlive it.
    [[nodiscard]] pool_resource_for<lifetime_hint::step> resource() const noexcept;
    operator any_resource() const;  ///< same as resource()
    /// Converts to a reference for the duration of a call.
    operator resource_ref() const noexcept;

    /// See scoped_pool::allocate.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, source_location where = source_location::current()) const;
    /// See scoped_pool::deallocate.
    void deallocate(stream_ref s, void* p, std::size_t bytes) const noexcept;

private:
    friend class scoped_pool;
    pool_step(detail::intrusive_ptr<detail::pool_state> state, std::size_t release_threshold,
              source_location where);

    detail::intrusive_ptr<detail::pool_state> state_;
    std::size_t const release_threshold_;
    source_location const where_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/pool_state.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE pool_step::~pool_step() {
    if (state_->is_of_parent()) return;
    report_failure_of([this] {
        if (std::string const alive = state_->blocks().end_step(); !alive.empty())
            detail::throw_usage_error(where_, "a step of {} ended while {}", {state_->title(), alive});
    });
    if (release_threshold_ != unlimited) state_->trim(release_threshold_);
}

CUOTA_INLINE pool_resource_for<lifetime_hint::step> pool_step::resource() const noexcept {
    return pool_resource_for<lifetime_hint::step>{state_};
}

CUOTA_INLINE pool_step::operator any_resource() const { return resource(); }

CUOTA_INLINE pool_step::operator resource_ref() const noexcept {
    return resource_ref::of_unowned(
        [this]() noexcept { return pool_resource_for<lifetime_hint::step>::unowned(*state_); });
}

CUOTA_INLINE void* pool_step::allocate(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                       source_location where) const {
    return state_->allocate(s, bytes, alignment, {name, where}, lifetime_hint::step);
}

CUOTA_INLINE void pool_step::deallocate(stream_ref s, void* p, std::size_t bytes) const noexcept {
    state_->deallocate(s, p, bytes);
}

CUOTA_INLINE pool_step::pool_step(detail::intrusive_ptr<detail::pool_state> state,
                                  std::size_t release_threshold, source_location where)
    : state_{std::move(state)}, release_threshold_{release_threshold}, where_{where} {
    state_->blocks().begin_step(where);
}

}  // namespace cuota::inline v0

#endif
