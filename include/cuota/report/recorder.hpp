// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A flight recorder for memory: the last events of all that it looks on, at some 20 ns an event.
#pragma once

#include <cstddef>
#include <string_view>

#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/report/recorder_state.hpp>

namespace cuota::inline v0 {

/// How much a recorder remembers.
struct recorder_options {
    std::size_t capacity = 65'536;  ///< events, rounded up to a power of two: 64 bytes of host memory each
    std::size_t sites = 4'096;      ///< pairs of a tag and a place: 32 to 40 bytes of host memory each
};

namespace detail {
struct recorder_access;
}

/// Remembers the last events of the memory that it looks on, to be read while the program goes on.
///
///     cuota::recorder recorder;
///     cuota::recorded pinned{cuota::pinned_memory{}, recorder, "pinned"};
///     train(pinned);
///     recorder.note("epoch 1");
///     cuota::recording const seen = recorder.read();
///
/// When it is full the oldest events make way, and `recording::dropped` counts them. All of its memory is taken at the
/// begin: an event takes none. A handle: copies are the same recorder, and what it looks on keeps it, too.
///
/// Threads: any, all functions.
/// Cost:    an event some 20 ns: a look at the processor's clock, two atomic exchanges and one cache line. Threads that put
///          events at the same time share a counter, and pay for it as for any other.
class recorder {
public:
    /// Throws: misuse when the capacity is 0 or above 2^32, or sites are above 2^24; std::bad_alloc.
    explicit recorder(recorder_options wanted = {}, place where = place::here())
        : state_{shared<detail::recorder_state>::make(wanted.capacity, wanted.sites, where)} {}

    /// An event of the program's own: "epoch 3", "evaluation". The text is kept until the program ends, and takes a
    /// site: name things, not events. Nothing while it pauses. Throws: std::bad_alloc. Cost: a lock and a look-up.
    void note(std::string_view text, place where = place::here()) {
        if (!is_recording()) return;
        state_->put(event_kind::noted, 0, tag::named(text), where, 0, 0, 0, memory_event::no_stream);
    }

    /// Takes no events until `resume`. What is given back meanwhile looks as if it were still there, until the program
    /// takes its address again or the snapshot at the end says otherwise.
    void pause() noexcept { state_->set_recording(false); }
    void resume() noexcept { state_->set_recording(true); }
    [[nodiscard]] bool is_recording() const noexcept { return state_->is_recording(); }

    /// Forgets all events so far; `recording::dropped` counts anew. Times still count from when it was made.
    void clear() noexcept { state_->clear(); }

    /// What it remembers now, in order. What other threads are about to write is left out.
    /// Throws: std::bad_alloc. Cost: some 20 ns an event, and a copy of each; nobody waits meanwhile.
    [[nodiscard]] recording read() const { return state_->read(); }

    /// How many events it remembers at most.
    [[nodiscard]] std::size_t capacity() const noexcept { return state_->capacity(); }

    friend bool operator==(recorder const&, recorder const&) noexcept = default;

private:
    friend struct detail::recorder_access;
    shared<detail::recorder_state> state_;
};

namespace detail {

/// The way from a recorder to its state, for those who put events.
struct recorder_access {
    [[nodiscard]] static shared<recorder_state> const& state(recorder const& r) noexcept { return r.state_; }
};

}  // namespace detail

}  // namespace cuota::inline v0
