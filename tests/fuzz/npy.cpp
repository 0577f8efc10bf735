// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzz.hpp"

#include <optional>

#include <cuota/data/datasets/npy_dataset.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::memory_file const memory;
    cuota::file const input = memory.allocation_group(fuzz::text_of(data, size));
    std::optional<cuota::npy_dataset> from;
    if (fuzz::is_read_or_refused(size, 0, [&] { from.emplace(input); })) {
        fuzz::expect(from->fields()[0].shape.size() < 64, "no more dimensions than NumPy has");
        auto const held = fuzz::all_of(*from);
        fuzz::expect(held.size() == 1 && held[0].size() <= size - 10, "an array is what follows the header");
    }
    return 0;
}
