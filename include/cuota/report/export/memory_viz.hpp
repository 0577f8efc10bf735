// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes a recording for PyTorch's memory viewer (pytorch.org/memory_viz).
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
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// Options of the memory_viz writers.
struct memory_viz_options {
    /// Indices of the sources to show. Empty: all.
    std::vector<std::uint16_t> sources{};
    int elsewhere = 0;  ///< device for memory without one
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

/// Writes the snapshot that torch.cuda.memory._snapshot() would return: a trace per device, and the final segments.
///
/// - Sizes of blocks are those requested, as in PyTorch.
/// - A block ends when it is freed, because the pool may reuse its address before it observes the completion. Blocks pending at the end are
///   `active_pending_free`.
/// - On a device with paged segments, all are written as pages. Memory outside pools gets a segment per block, at addresses from 2^52 on.
/// - Refusals are `oom` entries; `device_free` is limit - held, or without a limit the device's free bytes. Steps, notes and reclaims are
///   left out.
/// - Frames are the tag and the call site. `user_metadata` is the name of the pool, resource or budget.
/// - A pool and its upstream pool share addresses, which the viewer would confuse: choose one by `sources`.
///
/// Invalid UTF-8 becomes U+FFFD. Times are microseconds since 1970.
/// Throws: usage_error for an unknown source or a device above 1023, before any output; data_error if the stream
///         fails, which keeps the output so far; std::bad_alloc.
/// Cost:   O(n log n) in the events, per device; about 300 bytes per event, streamed.
/// Threads: any, one per stream.
/// Example: examples/look.cpp
void write_memory_viz_json(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                           source_location where = source_location::current());

/// Writes the same as pickle, protocol 2, with only dicts, lists, strings, integers and booleans. A file stream must be binary. Throws,
/// cost: as above.
void write_memory_viz_pickle(std::ostream& out, recording const& r, memory_viz_options const& options = {},
                             source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE memory_viz_plan plan_memory_viz(recording const& r, memory_viz_options const& options,
                                             source_location where) {
    check_recording(r, where);
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
