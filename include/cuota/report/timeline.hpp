// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A recording as a page: one HTML file that shows, in any browser, where the memory was over time.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/recording.hpp>
#include <cuota/report/timeline_chart_script.hpp>
#include <cuota/report/timeline_data.hpp>
#include <cuota/report/timeline_input_script.hpp>
#include <cuota/report/timeline_map_script.hpp>
#include <cuota/report/timeline_model_script.hpp>
#include <cuota/report/timeline_page.hpp>
#include <cuota/report/timeline_scales_script.hpp>
#include <cuota/report/timeline_tables_script.hpp>

namespace cuota::inline v0 {

/// What a timeline is called.
struct timeline_options {
    std::string title = "Memory over time";  ///< of the page
};

namespace detail {

[[nodiscard]] std::string timeline_html(recording const& r, timeline_options const& options);

}  // namespace detail

/// Writes the page of a recording: live bytes by tag over time, what the pools reserved, the budgets' limits, refusals,
/// reclaims, steps and notes, and, for any moment, what was where in each segment. The file needs no other, and no
/// network; it is read with a mouse, with keys alone, by a screen reader, or on paper. A recording without events makes
/// a page that says so. Names in it may hold anything.
///
/// Units:  the page counts in doubles: times and sums of bytes beyond 2^53 are rounded, addresses are not.
/// Throws: data_error when the stream does not take it (what it took stays there), std::bad_alloc.
/// Cost:   O(n log n) in the events; some 40 bytes of page for each event, made in host memory first.
/// Threads: any, one for a stream.
/// Example: examples/look.cpp
void write_timeline(std::ostream& out, recording const& r, timeline_options const& options = {});

/// The same, into a file, which it makes or replaces.
/// Throws: data_error that names the file when it cannot be written (a part of it may be there), std::bad_alloc.
/// Threads: any, one for a file. Example: examples/look.cpp
void write_timeline_file(std::string const& path, recording const& r, timeline_options const& options = {});

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string timeline_html(recording const& r, timeline_options const& options) {
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
    if (!out)
        detail::throw_data_error("timeline", 0, "the stream does not take its {}",
                                 {detail::as_bytes(page.size())});
}

CUOTA_INLINE void write_timeline_file(std::string const& path, recording const& r,
                                      timeline_options const& options) {
    std::string const page = detail::timeline_html(r, options);
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    if (!out) detail::throw_data_error(path, 0, "the timeline's file cannot be opened for writing");
    out.write(page.data(), static_cast<std::streamsize>(page.size())).flush();
    if (!out)
        detail::throw_data_error(path, 0, "the timeline's {} cannot be written",
                                 {detail::as_bytes(page.size())});
}

}  // namespace cuota::inline v0

#endif
