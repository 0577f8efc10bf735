// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads Chrome traces. Requires nlohmann's JSON library (headers only). In no umbrella header.
#pragma once

#if !__has_include(<nlohmann/json.hpp>)
#error                                                                                                       \
    "cuota/report/import/chrome_trace.hpp needs <nlohmann/json.hpp>: JSON for Modern C++, Debian's nlohmann-json3-dev"
#endif

#include <span>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/report/detail/import/chrome_events.hpp>
#include <cuota/report/detail/import/chrome_importer.hpp>
#include <cuota/report/import/imported_recording.hpp>

namespace cuota::inline v0 {

/// Reads a Chrome trace of PyTorch's profiler with profile_memory=True, or one of write_chrome_trace. The recording begins at the first
/// event of memory.
///
/// The profiler's `[memory]` and `[OutOfMemory]` events of devices become events of one resource for each device. Their call site is the
/// innermost Python function outside of PyTorch that encloses them (with_stack=True), otherwise the innermost operator. Blocks and refusals
/// of write_chrome_trace become events of one resource for each process; that format has the largest blocks only
/// (chrome_trace_options::blocks).
///
/// Throws: data_error with the offset for a file that is not JSON, or has no such event; std::bad_alloc.
/// Cost:   O(n log n) in the events.
/// Threads: any.
/// Example: tests/report/import/chrome_trace.cpp
[[nodiscard]] inline imported_recording read_chrome_trace(std::string_view text, std::string_view name) {
    detail::chrome_trace_importer importer{name};
    detail::chrome_events{text, name, [&](detail::chrome_event const& e) { importer(e); }}.read();
    return importer.finish();
}
/// Same, of a file.
[[nodiscard]] inline imported_recording read_chrome_trace(file const& from) {
    std::string text(from.size(), '\0');
    from.read_exact(0, std::as_writable_bytes(std::span{text}));
    return detail::parsed(from, [&] { return read_chrome_trace(text, from.name()); });
}

}  // namespace cuota::inline v0
