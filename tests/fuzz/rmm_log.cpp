// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/rmm_log.hpp>

#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "fuzz/imported.hpp"

// Logs of RMM: an accepted file gives events in the order of their times, and no more than it has lines.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::imported_recording read;
    if (!fuzz::is_read_or_refused(size, 256,
                                  [&] { read = cuota::read_rmm_log(fuzz::text_of(data, size), "input"); }))
        return 0;
    fuzz::expect_consistent(read, size / 20);
    return 0;
}
