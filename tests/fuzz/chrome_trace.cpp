// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/chrome_trace.hpp>

#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "fuzz/imported.hpp"

// Chrome traces: an accepted file gives events in the order of their times, and no more than it has braces.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::imported_recording read;
    if (!fuzz::is_read_or_refused(
            size, 1024, [&] { read = cuota::read_chrome_trace(fuzz::text_of(data, size), "input"); }))
        return 0;
    fuzz::expect_consistent(read, size / 2);
    return 0;
}
