// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "../../examples/trace_file.hpp"

#include "fuzz/fuzz.hpp"

// The trace files of the examples: in an accepted file, each row has a valid lifetime and a unique name.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    static fuzz::memory_file const memory;
    memory.fill(fuzz::text_of(data, size));
    trace::trace_file read;
    if (!fuzz::is_read_or_refused(size, 512, [&] { read = trace::read(memory.path()); })) return 0;
    fuzz::expect(!read.blocks.empty() && read.ids.size() == read.blocks.size(), "an id for each block");
    for (cuota::lifetime const& block : read.blocks)
        fuzz::expect(block.from < block.until, "a lifetime lasts");
    return 0;
}
