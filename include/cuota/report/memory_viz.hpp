// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A recording for PyTorch's memory viewer (pytorch.org/memory_viz), as JSON or as pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/memory_viz_encoders.hpp>
#include <cuota/report/memory_viz_trace.hpp>
#include <cuota/report/memory_viz_walk.hpp>
#include <cuota/report/recording.hpp>

namespace cuota::inline v0 {

/// What the viewer is told.
struct memory_viz_options {
    std::vector<std::uint16_t> sources{};  ///< whose blocks and segments: indices; empty: all
    int elsewhere = 0;  ///< the device that shows what is of none: pinned memory, what loaders hold
};

namespace detail {

[[nodiscard]] memory_viz_plan plan_memory_viz(recording const& r, memory_viz_options const& options,
                                              place where);

template <class Encoder>
void write_memory_viz(std::ostream& out, recording const& r, memory_viz_options const& options, place where) {
    memory_viz_plan const plan = plan_memory_viz(r, options, where);
    memory_viz_output to{out};
    Encoder encoder{to};
    memory_viz_walk<Encoder>{r, plan, encoder}.run();
    to.flush();
}

}  // namespace detail

/// Writes the snapshot that torch.cuda.memory._snapshot() would give: a trace for each device, and the segments at the
/// end, from which the viewer goes back to what was there before the first event. The viewer reads it as it does
/// pickle; so do jq and Python's json.
///
/// What it shows:
/// - Bytes of blocks are those asked for, as PyTorch's are; levels_of counts what pools round up, too.
/// - A block ends when it is given back: free_requested and free_completed stand together, whenever the pool came to
///   know that no work uses it. For it may give the address to the next block before. Runs that are pending at the end
///   are `active_pending_free` among the segments.
/// - Pools are in their segments, those of pages as expandable segments; on a device with pages, all segments come and go
///   as pages do, or the viewer would lose some. What is of no pool (memory of `recorded`, what
///   loaders hold of a budget) is a segment for each block, at an address of its own from 2^52 on.
/// - A budget's refusals are `oom` entries, where `device_free` is what its limit left; `unlimited`
///   is 2^63 - 1. Budgets are on the device of the first pool that takes from them. Steps, notes and reclaims are left out.
/// - Frames have the site: the tag is the function's name. `user_metadata` is the name of the pool, resource or budget.
/// - Two pools on one device of which one takes its memory from the other would share addresses, and the viewer would
///   mix them up: choose one of them by `sources`.
///
/// Names may hold anything: what is no UTF-8 becomes U+FFFD. Times are microseconds since 1970.
/// Throws: misuse, before anything is written, for a source that the recording does not have and for a device beyond
///         1023; data_error when the stream takes no more (what it took stays there); std::bad_alloc.
/// Cost:   O(n log n) in the events, for each device that has some; some 300 bytes of file for each event, streamed.
/// Threads: any, one for a stream.
/// Example: examples/look.cpp
void write_memory_viz_json(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                           place where = place::here());

/// The same as pickle, protocol 2, for scripts that load what PyTorch dumps. A stream to a file has to be binary. It
/// has twelve opcodes, none of which makes anything but dicts, lists, strings, integers and truths. Throws, cost: as above.
void write_memory_viz_pickle(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                             place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE memory_viz_plan plan_memory_viz(recording const& r, memory_viz_options const& options,
                                             place where) {
    constexpr int most_devices = 1024;  // the viewer gets a list for each, used or not
    auto const check_device = [&](int device) {
        if (device < 0 || device >= most_devices)
            throw_misuse(where, "a memory_viz snapshot with device {}: from 0 to {}",
                         {device, most_devices - 1});
    };
    check_device(options.elsewhere);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            throw_misuse(where, "a memory_viz snapshot of source {}: the recording has {}",
                         {s, r.sources.size()});
    for (event_source const& s : r.sources)
        if (s.device) check_device(*s.device);
    return memory_viz_planner{r, options.sources, static_cast<std::size_t>(options.elsewhere)}.plan();
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_memory_viz_json(std::ostream& out, recording const& r,
                                        memory_viz_options const& options, place where) {
    detail::write_memory_viz<detail::memory_viz_json>(out, r, options, where);
}

CUOTA_INLINE void write_memory_viz_pickle(std::ostream& out, recording const& r,
                                          memory_viz_options const& options, place where) {
    detail::write_memory_viz<detail::memory_viz_pickle>(out, r, options, where);
}

}  // namespace cuota::inline v0

#endif
