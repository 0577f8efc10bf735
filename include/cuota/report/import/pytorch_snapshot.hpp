// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads the memory snapshots that PyTorch writes (torch.cuda.memory._dump_snapshot).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/report/import/imported_recording.hpp>

namespace cuota::inline v0 {

/// Reads a snapshot in the format of PyTorch 2, also with the `history` of earlier versions, or of write_memory_viz_pickle. Unknown keys are
/// ignored. Each device becomes a pool under a budget:
///
/// - The final snapshot has the segments and blocks. Its peaks are those of the trace, and at least the final values.
/// - Allocations, frees and segments (also mapped and unmapped parts) become events in the order of their times; entries of versions without
///   times are a microsecond apart. Sizes of events are those requested, rounded up to 512 bytes.
/// - An `oom` entry becomes a refusal of the device's budget. The budget's limit is the sum of reserved and free bytes at the last one.
/// - The tag is the text of `user_metadata`, otherwise the name of the innermost Python function outside of PyTorch, which is also the call
///   site. Tags and file names are stored until the program ends.
/// - Markers of snapshots become notes.
///
/// Reading executes nothing: a file that asks for a class or a call is refused.
/// Throws: data_error with the offset for a file that is no such snapshot or is inconsistent; std::bad_alloc.
/// Cost:   O(n log n) in the entries: 1.6 us and 500 bytes for each, on one core of a server.
/// Threads: any.
/// Example: tests/report/import/pytorch_snapshot.cpp
[[nodiscard]] imported_recording read_pytorch_snapshot(file const& from);
/// Same, of a file in memory; `name` is for messages.
[[nodiscard]] imported_recording read_pytorch_snapshot(std::span<std::byte const> bytes,
                                                       std::string_view name);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

#include <vector>

#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>
#include <cuota/report/detail/import/pytorch_importer.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE imported_recording read_pytorch_snapshot(file const& from) {
    std::vector<std::byte> bytes(from.size());
    from.read_exact(0, bytes);
    return detail::parsed(from, [&] { return read_pytorch_snapshot(bytes, from.name()); });
}

CUOTA_INLINE imported_recording read_pytorch_snapshot(std::span<std::byte const> bytes,
                                                      std::string_view name) {
    detail::pickle_document const document{bytes, name};
    return detail::pytorch_importer{document}.run();
}

}  // namespace cuota::inline v0

#endif
