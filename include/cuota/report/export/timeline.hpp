// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes a recording as one HTML file.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/detail/recording/check_recording.hpp>
#include <cuota/report/detail/timeline/timeline_data.hpp>
#include <cuota/report/detail/timeline/timeline_page.hpp>
#include <cuota/report/detail/timeline/timeline_scripts.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// Options of a timeline.
struct timeline_options {
    std::string title = "Memory over time";  ///< of the page
};

namespace detail {

[[nodiscard]] std::string timeline_html(recording const& r, timeline_options const& options);

}  // namespace detail

/// Writes a self-contained page: live bytes by tag over time, reserved bytes of pools, budget limits, refusals, reclaims, steps and notes,
/// and the contents of each segment at any moment. It is usable by mouse, keyboard or screen reader, and in print.
///
/// Units:  times and sums of bytes beyond 2^53 are rounded, addresses are not.
/// Throws: data_error if the stream fails; std::bad_alloc.
/// Cost:   O(n log n) in the events; about 40 bytes per event, built in host memory first.
/// Threads: any, one per stream.
/// Example: examples/look.cpp
void write_timeline(std::ostream& out, recording const& r, timeline_options const& options = {});

/// Creates or replaces a file. Throws: data_error if it cannot be written; std::bad_alloc.
/// Threads: any, one per file. Example: examples/look.cpp
void write_timeline_file(std::string const& path, recording const& r, timeline_options const& options = {});

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string timeline_html(recording const& r, timeline_options const& options) {
    check_recording(r, {});
    std::string page;
    for (std::string_view const part : {timeline_head, timeline_style, timeline_layout, timeline_body})
        page += part;
    page += timeline_data{r, options.title}.json();
    for (std::string_view const part :
         {timeline_script_begin, timeline_units, timeline_model, timeline_lives, timeline_scales,
          timeline_chart, timeline_marks, timeline_map, timeline_map_rows, timeline_legend, timeline_texts,
          timeline_input, timeline_start, timeline_script_end})
        page += part;
    return page;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void write_timeline(std::ostream& out, recording const& r, timeline_options const& options) {
    std::string const page = detail::timeline_html(r, options);
    out.write(page.data(), static_cast<std::streamsize>(page.size())).flush();
    if (!out) detail::throw_data_error("timeline", 0, "writing {} failed", {detail::as_bytes(page.size())});
}

CUOTA_INLINE void write_timeline_file(std::string const& path, recording const& r,
                                      timeline_options const& options) {
    std::string const page = detail::timeline_html(r, options);
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    if (!out) detail::throw_data_error(path, 0, "cannot be opened for writing");
    out.write(page.data(), static_cast<std::streamsize>(page.size())).flush();
    if (!out) detail::throw_data_error(path, 0, "writing {} failed", {detail::as_bytes(page.size())});
}

}  // namespace cuota::inline v0

#endif
