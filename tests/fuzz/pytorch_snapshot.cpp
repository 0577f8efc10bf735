// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/pytorch_snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuota/report/snapshot/check_snapshot.hpp>

#include "fuzz/fuzz.hpp"
#include "fuzz/imported.hpp"

// Pickles: an accepted file gives a consistent recording, whatever it claims.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::imported_recording read;
    if (!fuzz::is_read_or_refused(size, 2048, [&] {
            read = cuota::read_pytorch_snapshot(std::as_bytes(std::span{data, size}), "input");
        }))
        return 0;
    cuota::check_snapshot(read.content.final_snapshot);
    fuzz::expect_consistent(read, 2 * size);
    return 0;
}
