// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Uses of a buffer in a stream capture, and by launches of its graph.
#pragma once

#include <cstdint>
#include <utility>

#include <cuota/buffer/detail/access_tracker.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>

namespace cuota::inline v0::detail {

/// Within a capture, uses are ordered only among themselves: captured work does not run, so it waits for no earlier use. Each launch of the
/// graph is a use by the launching stream, which waits for earlier ones.
class captured_access final : public graph_use {
public:
    captured_access(access_tracker& of, std::uint64_t capture);
    CUOTA_INLINE_IN_PLACE ~captured_access() override;

    /// Returns the tracker for a use on s: that of this thread's capture of s, or the buffer's own.
    /// Throws: usage_error if another thread captures s; cuda_error, std::bad_alloc.
    [[nodiscard]] static access_tracker& find(access_tracker& of, stream_ref s, bool writes,
                                              source_location where);

    void about_to_end() override { inside_->refuse_while_borrowed("leave its capture", where_); }
    void ended() noexcept override { std::exchange(inside_, nullptr)->end_in_capture(); }
    CUOTA_INLINE_IN_PLACE void begin_launch(stream_ref s, source_location where) override;
    CUOTA_INLINE_IN_PLACE void end_launch(stream_ref, bool) noexcept override;

private:
    access_tracker& of_;
    std::uint64_t const capture_;
    access_tracker* inside_;
    bool writes_ = false;
    bool is_mine_ = false;  // whether the buffer was destroyed in the capture: the graph owns it
    source_location where_{};
    std::uint64_t number_ = 0;  // of the launch's use
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE captured_access::captured_access(access_tracker& of, std::uint64_t capture)
    : of_{of}, capture_{capture}, inside_{new access_tracker{access_tracker::in_capture{}}} {
    of_.keep();
}

CUOTA_INLINE_IN_PLACE captured_access::~captured_access() {
    if (inside_) inside_->end_in_capture();  // no capture has stored this object
    of_.drop();
}

CUOTA_INLINE access_tracker& captured_access::find(access_tracker& of, stream_ref s, bool writes,
                                                   source_location where) {
    if (!is_captured(s)) [[likely]]
        return of;
    capture_scope* const scope = capture_of(s);
    if (!scope)
        throw_usage_error(
            where,
            "buffer: cannot be leased on a stream that another thread captures; lease it in that thread");
    auto& mine = scope->use_of<captured_access>(&of, [&] {
        return intrusive_ptr<captured_access>::adopt(new captured_access{of, scope->number()});
    });
    if (writes || !mine.writes_) mine.where_ = where;
    mine.writes_ |= writes;
    return *mine.inside_;
}

CUOTA_INLINE_IN_PLACE void captured_access::begin_launch(stream_ref s, source_location where) {
    is_mine_ = of_.has_ended() && of_.ended_in() == capture_;
    if (is_mine_) return;
    if (of_.has_ended())
        throw_usage_error(where,
                          "graph_exec::launch: the graph uses a destroyed buffer (captured at {}); keep the "
                          "buffer until the last launch",
                          {where_});
    number_ = of_.begin(s, writes_, where);
}

CUOTA_INLINE_IN_PLACE void captured_access::end_launch(stream_ref, bool) noexcept {
    if (!is_mine_) of_.end(number_, writes_);
}

}  // namespace cuota::inline v0::detail

#endif
