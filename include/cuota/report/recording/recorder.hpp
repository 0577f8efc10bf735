// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a recorder of the last memory events.
#pragma once

#include <cstddef>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/detail/recording/recorder_probes.hpp>
#include <cuota/report/detail/recording/recorder_state.hpp>

namespace cuota::inline v0 {

/// Capacity of a recorder.
struct recorder_options {
    std::size_t capacity = 65'536;  ///< events, rounded up to a power of two; 64 bytes each
    std::size_t sites = 4'096;      ///< pairs of a tag and a call site; 32 to 40 bytes each
};

namespace detail {

struct recorder_access;

/// Ends all observation when it is destroyed.
class recorder_handle final : public ref_counted {
public:
    recorder_handle(recorder_options wanted, source_location where);
    ~recorder_handle() { taps_->let_go(); }

    [[nodiscard]] intrusive_ptr<recorder_state> const& to() const noexcept { return to_; }
    [[nodiscard]] recorder_taps& taps() const noexcept { return *taps_; }

private:
    intrusive_ptr<recorder_state> to_;
    intrusive_ptr<recorder_taps> taps_;
};

}  // namespace detail

/// Records the last events of budgets and pools, to be read while the program runs.
///
///     cuota::budget budget{"trainer", 512_MiB};
///     cuota::recorder recorder{budget};
///     train(budget);
///     cuota::write_timeline_file("train.html", recorder.read());
///
/// Observes until its last handle is destroyed; a pool has at most one recorder. `recorded` records memory outside pools. New events
/// overwrite the oldest, counted in `recording::dropped`. Recording an event neither throws nor allocates.
///
/// Threads: any.
/// Cost:    about 20 ns per event; concurrent threads contend for one counter. An observed pool locks for each request.
class recorder {
public:
    /// Throws: usage_error if the capacity is 0 or above 2^32, or sites exceed 2^24; std::bad_alloc.
    explicit recorder(recorder_options wanted = {}, source_location where = source_location::current())
        : hold_{detail::intrusive_ptr<detail::recorder_handle>::make(wanted, where)} {}
    /// Constructs a recorder and calls `watch`. Throws: also as `watch`.
    explicit recorder(budget const& which, recorder_options wanted = {},
                      source_location where = source_location::current());
    /// Refers to the same recorder; a move is a copy.
    recorder(recorder const&) noexcept = default;
    recorder& operator=(recorder const&) noexcept = default;  ///< likewise
    ~recorder() = default;

    /// Observes a budget, its descendants, and all pools charged to them, present and future. Keeps the budget alive. Throws: usage_error
    /// if a pool has another recorder (the budget, and pools visited before, stay observed); std::bad_alloc.
    void watch(budget const& which) { hold_->taps().look_on(which); }

    /// Records a note: "epoch 3". The text is kept until the program ends and occupies a site. Does nothing while paused. Throws:
    /// usage_error in a forked child; std::bad_alloc. Cost: a lock and a look-up.
    void mark(std::string_view text, source_location where = source_location::current());

    /// Stops recording until `resume`. Blocks freed meanwhile appear live until their address is allocated again, or until the final
    /// snapshot.
    void pause() noexcept { hold_->to()->set_recording(false); }
    void resume() noexcept { hold_->to()->set_recording(true); }  ///< records events again
    /// Returns false while paused.
    [[nodiscard]] bool is_recording() const noexcept { return hold_->to()->is_recording(); }

    /// Discards all events and resets `recording::dropped`. Times still count from construction.
    void clear() noexcept { hold_->to()->clear(); }

    /// Returns the events, except those being written, and a snapshot of everything observed. Throws: std::bad_alloc. Cost: about 20 ns per
    /// event, without blocking writers; the snapshot as snapshot_of.
    [[nodiscard]] recording read() const { return hold_->taps().read(); }

    /// Returns the maximum number of events.
    [[nodiscard]] std::size_t capacity() const noexcept { return hold_->to()->capacity(); }

    /// Compares the recorders.
    friend bool operator==(recorder const&, recorder const&) noexcept = default;

private:
    friend struct detail::recorder_access;
    detail::intrusive_ptr<detail::recorder_handle> hold_;
};

namespace detail {

struct recorder_access {
    [[nodiscard]] static intrusive_ptr<recorder_state> const& state(recorder const& r) noexcept;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE recorder_handle::recorder_handle(recorder_options wanted, source_location where)
    : to_{intrusive_ptr<recorder_state>::make(wanted.capacity, wanted.sites, where)},
      taps_{intrusive_ptr<recorder_taps>::make(to_)} {}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE recorder::recorder(budget const& which, recorder_options wanted, source_location where)
    : recorder{wanted, where} {
    watch(which);
}

CUOTA_INLINE void recorder::mark(std::string_view text, source_location where) {
    if (hold_->is_of_parent()) detail::throw_forked();
    if (!is_recording()) return;
    hold_->to()->put(event_kind::marker, 0, tag::named(text), where, 0, 0, 0, memory_event::no_stream);
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE intrusive_ptr<recorder_state> const& recorder_access::state(recorder const& r) noexcept {
    return r.hold_->to();
}

}  // namespace cuota::inline v0::detail

#endif
