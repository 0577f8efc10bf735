// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/io/gzip.hpp>

#include <algorithm>
#include <optional>

#include <stdlib.h>

#include <cuota/data/datasets/idx_dataset.hpp>

#include "fuzz/fuzz.hpp"

// A compressed IDX file. Its inflated content, which may be larger than the input, is in a file and not on the heap.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::memory_file const memory;
    static bool const is_on_tmpfs = ::setenv("TMPDIR", "/dev/shm", 0) == 0;
    fuzz::expect(is_on_tmpfs, "setenv");
    memory.fill(fuzz::text_of(data, size));
    constexpr std::uint64_t most = 1 << 18;
    std::optional<cuota::file> inflated;
    if (!fuzz::is_read_or_refused(size, 0, [&] { inflated = cuota::open_maybe_gzip(memory.path(), most); }))
        return 0;
    fuzz::expect(inflated->size() <= std::max<std::uint64_t>(size, most), "no more is inflated than may be");
    std::optional<cuota::idx_dataset> from;
    if (fuzz::is_read_or_refused(inflated->size(), 0, [&] { from.emplace(*inflated); }))
        (void)fuzz::all_of(*from);
    return 0;
}
