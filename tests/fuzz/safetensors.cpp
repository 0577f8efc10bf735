// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/data/datasets/safetensors_dataset.hpp>

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::memory_file const memory;
    cuota::file const input = memory.allocation_group(fuzz::text_of(data, size));
    std::optional<cuota::safetensors_dataset> from;
    if (fuzz::is_read_or_refused(size, 64, [&] { from.emplace(input); })) {
        auto const held = fuzz::all_of(*from);
        std::size_t bytes = 0;
        for (auto const& field : held) bytes += field.size();
        fuzz::expect(!held.empty(), "a dataset has a field");
        fuzz::expect(bytes <= size - 10, "tensors are no more than what follows the header");
        for (cuota::field const& f : from->fields())
            fuzz::expect(f.shape.size() < 32, "no more dimensions than are read");
    }
    return 0;
}
