// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Gathers rows of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

struct alignas(16) sixteen_bytes {
    std::uint64_t halves[2];
};

template <class Word>
struct gather_row {
    Word const* from;
    std::uint64_t const* rows;
    Word* to;
    std::size_t words;  // per row
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        to[i] = from[rows[i / words] * words + i % words];
    }
};

template <class Word>
void gather_rows(stream_ref s, std::byte const* from, std::uint64_t const* rows, std::byte* to,
                 std::size_t count, std::size_t row_bytes) {
    std::size_t const words = row_bytes / sizeof(Word);
    for_each_index(
        s, count * words,
        gather_row<Word>{reinterpret_cast<Word const*>(from), rows, reinterpret_cast<Word*>(to), words},
        "device_resident_dataset");
}

/// Gathers rows in the largest words that divide row_bytes.
void gather_rows_of(std::size_t row_bytes, stream_ref s, std::byte const* from, std::uint64_t const* rows,
                    std::byte* to, std::size_t count);

}  // namespace cuota::inline v0::detail

#if CUOTA_PART_KERNELS

namespace cuota::inline v0::detail {

CUOTA_INLINE void gather_rows_of(std::size_t row_bytes, stream_ref s, std::byte const* from,
                                 std::uint64_t const* rows, std::byte* to, std::size_t count) {
    if (row_bytes % 16 == 0) gather_rows<sixteen_bytes>(s, from, rows, to, count, row_bytes);
    else if (row_bytes % 4 == 0) gather_rows<std::uint32_t>(s, from, rows, to, count, row_bytes);
    else gather_rows<std::uint8_t>(s, from, rows, to, count, row_bytes);
}

}  // namespace cuota::inline v0::detail

#endif
