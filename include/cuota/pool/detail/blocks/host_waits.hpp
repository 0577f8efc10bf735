// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Work that the host waits for without a lock.
#pragma once

#include <new>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/pool/detail/blocks/wait_set.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

struct block;

/// A shared event, for waits without the lock of the pool that records it.
class stream_mark final : public ref_counted, public event {
public:
    using event::event;
    using event::record_in;
};

/// Events that are collected under a lock and waited for after its release: a function in a stream may wait for a thread that needs the
/// lock. Throws: cuda_error, std::bad_alloc.
class host_waits {
public:
    /// Adds an event recorded after the work before a point.
    void add(intrusive_ptr<stream_mark> mark, wait_point covers) {
        waits_.push_back({std::move(mark), covers});
    }
    void wait() const;
    /// Returns the points, or waits by rt::drain and returns none if the host has no memory for them.
    [[nodiscard]] wait_set points_or_drain() const noexcept;
    /// Stores the block that is allocated once the wait has succeeded.
    void set_block(block& waiting) noexcept { block_ = &waiting; }
    [[nodiscard]] block& waiting() const noexcept { return *block_; }
    template <class Visit>
    void for_each_point(Visit visit) const {
        for (one const& w : waits_) visit(w.covers);
    }

private:
    struct one {
        intrusive_ptr<stream_mark> mark;
        wait_point covers;
    };
    dynamic_array<one> waits_;
    block* block_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void host_waits::wait() const {
    for (one const& w : waits_) w.mark->synchronize();
}

CUOTA_INLINE wait_set host_waits::points_or_drain() const noexcept {
    try {
        wait_set all;
        for (one const& w : waits_) {
            wait_set point{w.covers};
            all.merge(point);
        }
        return all;
    } catch (std::bad_alloc const&) {
        for (one const& w : waits_) rt::drain(*w.mark);
        return {};
    }
}

}  // namespace cuota::inline v0::detail

#endif
