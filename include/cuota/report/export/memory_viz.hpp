// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes a recording for PyTorch's memory viewer (pytorch.org/memory_viz), as JSON or pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/detail/export/memory_viz_encoders.hpp>
#include <cuota/report/detail/export/memory_viz_trace.hpp>
#include <cuota/report/detail/export/memory_viz_writer.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// Options of the memory_viz writers.
struct memory_viz_options {
    /// Indices of the sources to show. Empty: all.
    std::vector<std::uint16_t> sources{};
    int elsewhere = 0;  ///< device for memory without one: pinned memory, memory of loaders
};

namespace detail {

[[nodiscard]] memory_viz_plan plan_memory_viz(recording const& r, memory_viz_options const& options,
                                              source_location where);

template <class Encoder>
void write_memory_viz(std::ostream& out, recording const& r, memory_viz_options const& options,
                      source_location where) {
    memory_viz_plan const plan = plan_memory_viz(r, options, where);
    memory_viz_output to{out};
    Encoder encoder{to};
    memory_viz_writer<Encoder>{r, plan, encoder}.run();
    to.flush();
}

}  // namespace detail

/// Writes the snapshot that torch.cuda.memory._snapshot() would return: a trace per device, and the final segments, from which the viewer
/// reconstructs earlier states. The viewer, jq and Python's json read it.
///
/// Contents:
/// - Sizes of blocks are those requested, as in PyTorch; usage_over_time includes rounding.
/// - A block ends when it is freed: free_requested and free_completed are adjacent, because the pool may reuse the address before it
///   observes the completion. Blocks pending at the end are `active_pending_free` in the segments.
/// - Segments of pools are segments, paged ones expandable. On a device with paged segments, all are written as pages, because the viewer
///   would lose some. Memory outside pools (`recorded`, and of loaders) gets a segment per block, at unique addresses from 2^52 on.
/// - Refusals are `oom` entries; `device_free` is what the limit leaves, and `unlimited` is 2^63 - 1. A budget is on the device of the
///   first pool charged to it. Steps, notes and reclaims are left out.
/// - Frames have the tag as function name, and the call site. `user_metadata` is the name of the pool, resource or budget.
/// - A pool and its upstream pool on one device share addresses, which the viewer would confuse: choose one by `sources`.
///
/// Names may be any bytes: invalid UTF-8 becomes U+FFFD. Times are microseconds since 1970.
/// Throws: usage_error, before anything is written, for a source that the recording does not have and for a device above 1023; data_error
///         if the stream fails (it keeps what was written); std::bad_alloc.
/// Cost:   O(n log n) in the events, per device that has any; about 300 bytes per event, streamed.
/// Threads: any, one per stream.
/// Example: examples/look.cpp
void write_memory_viz_json(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                           source_location where = source_location::current());

/// Writes the same as pickle, protocol 2, for scripts that load PyTorch's dumps. A file stream must be binary. Its twelve opcodes make only
/// dicts, lists, strings, integers and booleans. Throws, cost: as above.
void write_memory_viz_pickle(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                             source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE memory_viz_plan plan_memory_viz(recording const& r, memory_viz_options const& options,
                                             source_location where) {
    constexpr int max_devices = 1024;  // the viewer gets a list for each, used or not
    auto const check_device = [&](int device) {
        if (device < 0 || device >= max_devices)
            throw_usage_error(where, "memory_viz snapshot: device {} is out of range [0, {}]",
                              {device, max_devices - 1});
    };
    check_device(options.elsewhere);
    for (std::uint16_t const s : options.sources)
        if (s >= r.sources.size())
            throw_usage_error(where, "source index {} is out of range: the recording has {} sources",
                              {s, r.sources.size()});
    for (event_source const& s : r.sources)
        if (s.device) check_device(*s.device);
    return memory_viz_planner{r, options.sources, static_cast<std::size_t>(options.elsewhere)}.plan();
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_memory_viz_json(std::ostream& out, recording const& r,
                                        memory_viz_options const& options, source_location where) {
    detail::write_memory_viz<detail::memory_viz_json>(out, r, options, where);
}

CUOTA_INLINE void write_memory_viz_pickle(std::ostream& out, recording const& r,
                                          memory_viz_options const& options, source_location where) {
    detail::write_memory_viz<detail::memory_viz_pickle>(out, r, options, where);
}

}  // namespace cuota::inline v0

#endif
