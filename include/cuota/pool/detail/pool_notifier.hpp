// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Notifies a pool's observer.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/blocks/block_heap.hpp>
#include <cuota/pool/detail/blocks/pending_frees.hpp>
#include <cuota/pool/detail/blocks/tag_peaks.hpp>
#include <cuota/pool/detail/pool_observer.hpp>

namespace cuota::inline v0::detail {

/// Requires the pool's lock.
class pool_notifier {
public:
    explicit pool_notifier(intrusive_ptr<pool_observer> told) : told_{std::move(told)} {}
    [[nodiscard]] intrusive_ptr<pool_observer> const& told() const noexcept { return told_; }

    // --- blocks ---

    void found(block const& b) noexcept { peaks_.add(b.note->name, b.size); }
    void taken(block const& b, stream_ref const* s) noexcept;
    /// Notifies that a block will be freed; returns its description.
    [[nodiscard]] observed_block given(block const& b, stream_ref const* s) noexcept;
    /// The block is free: in the order of the stream last queried in `order`, or at once.
    void is_free(observed_block const& was, bool in_order, stream_order& order) noexcept;
    void settle(stream_order& order) noexcept { pending_.settle(order, *told_); }

    /// Peaks since the observation began.
    [[nodiscard]] tag_peaks const& peaks() const noexcept { return peaks_; }

    // --- pages and segments ---

    /// The mapped parts of a held window; construct it before the window is joined. Throws: std::bad_alloc.
    class growth {
    public:
        explicit growth(growth_candidate const& window);

    private:
        friend class pool_notifier;
        dynamic_array<segment> parts_;
    };
    void came(growth const& grown, source_location where) noexcept;
    void came(segment const& s, source_location where) noexcept {
        told_->segment_allocated(s.at, s.bytes, where);
    }
    void goes(void const* at, std::size_t bytes) noexcept { told_->segment_freed(at, bytes); }

    // --- steps ---

    void step_begun(source_location where, stream_order& order) noexcept;
    void step_ended(stream_order& order) noexcept;

private:
    [[nodiscard]] static observed_block seen(block const& b, stream_ref const* s) noexcept;

    intrusive_ptr<pool_observer> const told_;
    pending_frees pending_;
    tag_peaks peaks_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void pool_notifier::taken(block const& b, stream_ref const* s) noexcept {
    peaks_.add(b.note->name, b.size);
    told_->allocated(seen(b, s));
}

CUOTA_INLINE observed_block pool_notifier::given(block const& b, stream_ref const* s) noexcept {
    observed_block const was = seen(b, s);
    peaks_.drop(was.name, was.size);
    told_->free_requested(was);
    return was;
}

CUOTA_INLINE void pool_notifier::is_free(observed_block const& was, bool in_order,
                                         stream_order& order) noexcept {
    if (!in_order) return told_->free_completed(was);
    pending_.add(was, order.last_release(), order, *told_);
}

CUOTA_INLINE pool_notifier::growth::growth(growth_candidate const& window) {
    block_index::for_each_part(*window.first, window.end, [&](block const& part) {
        if (part.has_state(block::state::growing)) parts_.push_back({part.at(), part.size});
    });
}

CUOTA_INLINE void pool_notifier::came(growth const& grown, source_location where) noexcept {
    for (segment const& s : grown.parts_) came(s, where);
}

CUOTA_INLINE void pool_notifier::step_begun(source_location where, stream_order& order) noexcept {
    settle(order);
    told_->step_begun(where);
}

CUOTA_INLINE void pool_notifier::step_ended(stream_order& order) noexcept {
    settle(order);
    told_->step_ended();
}

CUOTA_INLINE observed_block pool_notifier::seen(block const& b, stream_ref const* s) noexcept {
    observed_block seen{b.at(), b.requested, b.size, b.note->name, b.note->where, observed_block::no_stream};
    if (s) report_failure_of([&] { seen.stream = s->id(); });
    return seen;
}

}  // namespace cuota::inline v0::detail

#endif
