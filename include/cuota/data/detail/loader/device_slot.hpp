// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory of one batch.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// One slot of a loader's slab, used by a batch on any number of streams.
/// Threads: one at a time. Throws: cuda_error.
class device_slot {
public:
    std::byte* at = nullptr;
    sample_list samples{};

    void arrives_with(staging_ring::in_flight copy) noexcept;
    void is_made_on(stream_ref s);
    void forget_arrival() noexcept { arriving_.reset(); }

    /// Orders later work on s after the contents' arrival, and records its use of `bytes` bytes. Unchanged on failure.
    void use(stream_ref s, std::size_t bytes);

    /// Marks the streams that used the batch, or synchronizes them on failure.
    void end_uses() noexcept;

    /// Orders later work on `copies` after all uses.
    void order_readers_before(stream const& copies);

    /// Blocks the host until all uses have completed. Returns false if some cannot be waited for; these are reported and kept.
    [[nodiscard]] bool wait_for_readers() noexcept;
    void forget_readers() noexcept { readers_.clear(); }

private:
    void order_arrival_before(stream_ref s) const;

    struct reader {
        shared_stream stream;
        std::optional<event> last{};  // recorded when the batch was destroyed
        bool is_pending = true;       // the copy stream does not wait for it yet
        bool is_marked = false;       // false: not recorded, in a foreign capture
    };

    // Records a stream's event, or defers this to the refill during a foreign capture.
    void remember(shared_stream const& s);
    // Returns false if the stream's earlier work has completed: a `capture` includes the stream, or it is another thread's default stream,
    // for which the host synchronized the device. Throws: usage_error during a foreign capture.
    static bool mark(reader& r);
    void mark_all();

    std::optional<staging_ring::in_flight> arriving_{};
    std::optional<event> made_{};
    bool is_made_ = false;
    dynamic_array<shared_stream> used_;
    dynamic_array<rt::access_annotation> borrowed_;
    dynamic_array<reader> readers_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void device_slot::arrives_with(staging_ring::in_flight copy) noexcept {
    arriving_.emplace(std::move(copy));
    is_made_ = false;
}

CUOTA_INLINE void device_slot::is_made_on(stream_ref s) {
    if (made_) made_->record(s);
    else made_.emplace(s, host_wait::blocking);
    is_made_ = true;
}

CUOTA_INLINE void device_slot::use(stream_ref s, std::size_t bytes) {
    for (shared_stream const& used : used_)
        if (stream_ref{used} == s) return;
    used_.emplace_back(s);
    try {
        borrowed_.reserve(used_.size());
        order_arrival_before(s);
    } catch (...) {
        used_.pop_back();
        throw;
    }
    borrowed_.emplace_back(s, at, bytes, false);
}

CUOTA_INLINE void device_slot::end_uses() noexcept {
    borrowed_.clear();
    for (shared_stream const& s : used_)
        if (!report_failure_of([&] {
                stream_ref{s}.check_reachable();
                remember(s);
            }))
            rt::drain(s);
    used_.clear();
}

CUOTA_INLINE void device_slot::order_readers_before(stream const& copies) {
    mark_all();
    for (reader& r : readers_)
        if (r.is_pending) copies.wait(*r.last);
    for (reader& r : readers_) r.is_pending = false;
}

CUOTA_INLINE bool device_slot::wait_for_readers() noexcept {
    readers_.erase_if([](reader& r) {
        return report_failure_of([&] {
            if (r.is_marked || mark(r)) r.last->synchronize();
        });
    });
    return readers_.empty();
}

CUOTA_INLINE bool device_slot::mark(reader& r) {
    if (!stream_ref{r.stream}.is_reachable()) {
        rt::drain(r.stream);
        return false;
    }
    if (foreign_capture_of(r.stream) != 0)
        throw_usage_error("batch: cannot reuse its slot: a stream that used the batch is being captured by "
                          "cudaStreamBeginCapture; end that capture before the loop requests the next batch");
    r.is_marked = mark_outside_capture(r.stream, [&] {
        if (r.last) r.last->record(r.stream);
        else r.last.emplace(r.stream, host_wait::blocking);
    });
    return r.is_marked;
}

CUOTA_INLINE void device_slot::mark_all() {
    for (auto r = readers_.begin(); r != readers_.end();)
        if (!r->is_marked && !mark(*r)) r = readers_.erase(r);
        else ++r;
}

CUOTA_INLINE void device_slot::order_arrival_before(stream_ref s) const {
    if (is_made_) s.wait(*made_);
    else arriving_->make_wait(s);
}

CUOTA_INLINE void device_slot::remember(shared_stream const& s) {
    readers_.erase_if([](reader const& r) { return !r.is_pending && r.stream.is_unique(); });
    reader* known = readers_.find_if([&](reader const& r) { return stream_ref{r.stream} == stream_ref{s}; });
    if (known == readers_.end()) known = &readers_.emplace_back(s);
    known->is_pending = true;
    known->is_marked = false;
    if (foreign_capture_of(s) == 0 && !mark(*known)) readers_.erase(known);
}

}  // namespace cuota::inline v0::detail

#endif
