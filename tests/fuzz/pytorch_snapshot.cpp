// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/pytorch_snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>

#include "fuzz/fuzz.hpp"

// Pickles: an accepted file gives a consistent recording, whatever it claims.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::imported_recording read;
    if (!fuzz::is_read_or_refused(size, 2048, [&] {
            read = cuota::read_pytorch_snapshot(std::as_bytes(std::span{data, size}), "input");
        }))
        return 0;
    cuota::check_snapshot(read.content.final_snapshot);
    fuzz::expect(read.content.events.size() <= 2 * size, "no more events than the input has entries");
    std::uint64_t last = 0;
    for (cuota::memory_event const& e : read.content.events) {
        fuzz::expect(e.at >= last, "times do not go back");
        last = e.at;
    }
    (void)cuota::lifetimes_of(read.content);
    return 0;
}
