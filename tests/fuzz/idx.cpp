// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzz.hpp"

#include <optional>

#include <cuota/data/datasets/idx_dataset.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::memory_file const memory;
    cuota::file const input = memory.allocation_group(fuzz::text_of(data, size));
    std::optional<cuota::idx_dataset> from;
    if (fuzz::is_read_or_refused(size, 0, [&] { from.emplace(input); })) {
        std::size_t const header = 4 * (2 + from->fields()[0].shape.size());
        fuzz::expect(fuzz::all_of(*from)[0].size() == size - header, "an array is what follows the header");
    }
    return 0;
}
