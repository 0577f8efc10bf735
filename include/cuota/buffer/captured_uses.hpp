// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Uses of a buffer within a stream capture, and by the launches of the resulting graph.
#pragma once

#include <cstdint>
#include <utility>

#include <cuota/buffer/stream_uses.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/capture_scope.hpp>

namespace cuota::inline v0::detail {

/// Within a capture, uses are ordered only among themselves, as for an unused buffer: captured work does not run, so it waits for no
/// earlier work. Each launch of the graph is a use by the launching stream, like a lease for a kernel: it waits for earlier uses, and later
/// uses wait for it.
class captured_uses final : public graph_use {
public:
    captured_uses(stream_uses& of, std::uint64_t capture);
    CUOTA_INLINE_IN_PLACE ~captured_uses() override;

    /// Returns where a use on s is recorded: in the capture of s by this thread, or in the buffer's own uses.
    /// Throws: misuse if another thread captures s; cuda_error, std::bad_alloc.
    [[nodiscard]] static stream_uses& find(stream_uses& of, stream_ref s, bool writes, place where);

    void about_to_end() override { inside_->refuse_while_borrowed("leave its capture", where_); }
    void ended() noexcept override { std::exchange(inside_, nullptr)->end_in_capture(); }
    CUOTA_INLINE_IN_PLACE void begin_launch(stream_ref s, place where) override;
    CUOTA_INLINE_IN_PLACE void end_launch(stream_ref, bool) noexcept override;

private:
    stream_uses& of_;
    std::uint64_t const capture_;
    stream_uses* inside_;
    bool writes_ = false;
    bool is_mine_ = false;  // the buffer was destroyed in the capture: the graph owns its memory
    place where_{};
    std::uint64_t number_ = 0;  // of the launch being enqueued
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE captured_uses::captured_uses(stream_uses& of, std::uint64_t capture)
    : of_{of}, capture_{capture}, inside_{new stream_uses{stream_uses::in_capture{}}} {
    of_.keep();
}

CUOTA_INLINE_IN_PLACE captured_uses::~captured_uses() {
    if (inside_) inside_->end_in_capture();  // no capture has taken it
    of_.drop();
}

CUOTA_INLINE stream_uses& captured_uses::find(stream_uses& of, stream_ref s, bool writes, place where) {
    if (!is_captured(s)) [[likely]]
        return of;
    capture_scope* const scope = capture_of(s);
    if (!scope)
        throw_misuse(
            where,
            "buffer: cannot be leased on a stream that another thread captures; lease it in that thread");
    auto& mine = scope->use_of<captured_uses>(&of, [&] {
        return shared<captured_uses>::adopt(new captured_uses{of, scope->number()});
    });
    if (writes || !mine.writes_) mine.where_ = where;
    mine.writes_ |= writes;
    return *mine.inside_;
}

CUOTA_INLINE_IN_PLACE void captured_uses::begin_launch(stream_ref s, place where) {
    is_mine_ = of_.has_ended() && of_.ended_in() == capture_;
    if (is_mine_) return;  // no other uses are possible
    if (of_.has_ended())
        throw_misuse(where,
                     "graph_exec::launch: the graph uses a destroyed buffer (captured at {}); keep the "
                     "buffer until the last launch",
                     {where_});
    number_ = of_.begin(s, writes_, where);
}

CUOTA_INLINE_IN_PLACE void captured_uses::end_launch(stream_ref, bool) noexcept {
    if (!is_mine_) of_.end(number_, writes_);
}

}  // namespace cuota::inline v0::detail

#endif
