// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A flight recorder for memory: the last events of all that it looks on, at some 20 ns an event.
#pragma once

#include <cstddef>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/report/recorder_state.hpp>
#include <cuota/report/recorder_taps.hpp>

namespace cuota::inline v0 {

/// How much a recorder remembers.
struct recorder_options {
    std::size_t capacity = 65'536;  ///< events, rounded up to a power of two: 64 bytes of host memory each
    std::size_t sites = 4'096;      ///< pairs of a tag and a place: 32 to 40 bytes of host memory each
};

namespace detail {

struct recorder_access;

/// What the handles of one recorder share: when the last one goes, it looks on nothing any more.
class recorder_hold final : public ref_counted {
public:
    recorder_hold(recorder_options wanted, place where);
    ~recorder_hold() { taps_->let_go(); }

    [[nodiscard]] shared<recorder_state> const& to() const noexcept { return to_; }
    [[nodiscard]] recorder_taps& taps() const noexcept { return *taps_; }

private:
    shared<recorder_state> to_;
    shared<recorder_taps> taps_;
};

}  // namespace detail

/// Remembers the last events of the memory that it looks on, to be read while the program goes on.
///
///     cuota::budget budget{"trainer", 512_MiB};
///     cuota::recorder recorder{budget};  // its pools, budgets inside it, refusals, steps: now and later
///     train(budget);
///     cuota::write_timeline_file("train.html", recorder.read());
///
/// It looks on budgets and all pools that take from them, until its last handle goes; a pool has one recorder at a time.
/// Memory that is no pool's is told by `recorded`. When it is full the oldest events make way, and `recording::dropped`
/// counts them. All of its memory is taken at the begin: an event takes none. A handle: copies are the same recorder.
///
/// Threads: any, all functions.
/// Cost:    an event some 20 ns: a look at the processor's clock, two atomic exchanges and one cache line. Threads that put
///          events at the same time share a counter, and pay for it as for any other. A pool that is looked on takes its
///          lock for each request; one that is not has the same instructions as if there were no recorders.
/// Units:   bytes; times in nanoseconds since recording::began.
/// Throws:  as each says; never at an event.
/// Example: examples/look.cpp
class recorder {
public:
    /// Throws: misuse when the capacity is 0 or above 2^32, or sites are above 2^24; std::bad_alloc.
    explicit recorder(recorder_options wanted = {}, place where = place::here())
        : hold_{shared<detail::recorder_hold>::make(wanted, where)} {}
    /// As above, and looks on the budget. Throws: as `watch`, too.
    explicit recorder(budget const& which, recorder_options wanted = {}, place where = place::here());
    /// The same recorder; its move is a copy, so a handle that was moved from is still valid.
    recorder(recorder const&) noexcept = default;
    recorder& operator=(recorder const&) noexcept = default;  ///< the same recorder as other
    ~recorder() = default;

    /// Looks on a budget and all inside it, and on all pools that take from them, those that come later too.
    /// The budget lives as long as the recorder does. Throws: misuse for a pool that has another recorder (what came
    /// before it is looked on); std::bad_alloc.
    void watch(budget const& which) { hold_->taps().look_on(which); }

    /// An event of the program's own: "epoch 3", "evaluation". The text is kept until the program ends, and takes a
    /// site: name things, not events. Nothing while it pauses. Throws: misuse in a forked child; std::bad_alloc.
    /// Cost: a lock and a look-up.
    void note(std::string_view text, place where = place::here());

    /// Takes no events until `resume`. What is given back meanwhile looks as if it were still there, until the program
    /// takes its address again or the snapshot at the end says otherwise.
    void pause() noexcept { hold_->to()->set_recording(false); }
    void resume() noexcept { hold_->to()->set_recording(true); }  ///< takes events again
    /// False while it pauses.
    [[nodiscard]] bool is_recording() const noexcept { return hold_->to()->is_recording(); }

    /// Forgets all events so far; `recording::dropped` counts anew. Times still count from when it was made.
    void clear() noexcept { hold_->to()->clear(); }

    /// What it remembers now, in order, and a snapshot of all that it looks on. What other threads are about to write is
    /// left out.
    /// Throws: std::bad_alloc. Cost: some 20 ns an event, and a copy of each; nobody waits meanwhile. The
    /// snapshot costs as snapshot_of.
    [[nodiscard]] recording read() const { return hold_->taps().read(); }

    /// How many events it remembers at most.
    [[nodiscard]] std::size_t capacity() const noexcept { return hold_->to()->capacity(); }

    friend bool operator==(recorder const&, recorder const&) noexcept = default;  ///< handles of one recorder

private:
    friend struct detail::recorder_access;
    shared<detail::recorder_hold> hold_;
};

namespace detail {

/// The way from a recorder to its state, for those who put events.
struct recorder_access {
    [[nodiscard]] static shared<recorder_state> const& state(recorder const& r) noexcept;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE recorder_hold::recorder_hold(recorder_options wanted, place where)
    : to_{shared<recorder_state>::make(wanted.capacity, wanted.sites, where)},
      taps_{shared<recorder_taps>::make(to_)} {}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE recorder::recorder(budget const& which, recorder_options wanted, place where)
    : recorder{wanted, where} {
    watch(which);
}

CUOTA_INLINE void recorder::note(std::string_view text, place where) {
    if (hold_->is_of_parent()) detail::throw_forked();
    if (!is_recording()) return;
    hold_->to()->put(event_kind::noted, 0, tag::named(text), where, 0, 0, 0, memory_event::no_stream);
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE shared<recorder_state> const& recorder_access::state(recorder const& r) noexcept {
    return r.hold_->to();
}

}  // namespace cuota::inline v0::detail

#endif
