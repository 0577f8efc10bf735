// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzz.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <cuota/data/datasets/cifar_dataset.hpp>

// The first byte selects the set, and the number of records in the first of two files.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    static fuzz::memory_file const first;
    static fuzz::memory_file const second;
    auto const set = data[0] % 2 == 0 ? cuota::cifar_set::cifar_10 : cuota::cifar_set::cifar_100;
    std::size_t const record = data[0] % 2 == 0 ? 3073 : 3074;
    std::string_view const bytes = fuzz::text_of(data, size).substr(1);
    std::size_t const cut = std::min<std::size_t>(bytes.size(), data[0] / 2 % 4 * record);
    std::array const files{first.allocation_group(bytes.substr(0, cut), "first"),
                           second.allocation_group(bytes.substr(cut), "second")};

    std::optional<cuota::cifar_dataset> from;
    if (!fuzz::is_read_or_refused(size, 0, [&] { from.emplace(set, files); })) {
        fuzz::expect(bytes.size() % record != 0, "whole records are read");
        return 0;
    }
    fuzz::expect(from->size() * record == bytes.size(), "all records are there");
    fuzz::is_read_or_refused(size, 4, [&] {
        auto const held = fuzz::all_of(*from);
        for (std::size_t k = 0; k + 1 != held.size(); ++k)
            for (std::byte const label : held[k])
                fuzz::expect(std::to_integer<unsigned>(label) < (held.size() == 2 ? 10U
                                                                 : k == 0         ? 20U
                                                                                  : 100U),
                             "a label that is handed out is a class");
    });
    return 0;
}
