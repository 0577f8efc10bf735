// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The samples of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0::detail {

struct sample_list {
    /// Returns a list with this capacity; copies have it, too, until cleared.
    [[nodiscard]] static sample_list with_room(std::size_t samples, std::size_t ragged_fields);

    /// Keeps the capacity.
    void clear() noexcept;
    void shorten(std::size_t n) noexcept;

    [[nodiscard]] std::size_t size() const noexcept { return numbers.size(); }
    [[nodiscard]] std::size_t rows(std::size_t j) const noexcept;

    std::vector<std::uint64_t> numbers;                     // dataset indices
    std::vector<std::vector<std::uint64_t>> row_offsets{};  // per ragged field: batch::row_offsets
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE sample_list sample_list::with_room(std::size_t samples, std::size_t ragged_fields) {
    sample_list made;
    made.numbers.resize(samples);
    made.row_offsets.resize(ragged_fields, std::vector<std::uint64_t>(samples + 1));
    return made;
}

CUOTA_INLINE void sample_list::clear() noexcept {
    numbers.clear();
    for (std::vector<std::uint64_t>& offsets : row_offsets) offsets.assign(1, 0);
}

CUOTA_INLINE void sample_list::shorten(std::size_t n) noexcept {
    numbers.resize(n);
    for (std::vector<std::uint64_t>& offsets : row_offsets) offsets.resize(n + 1);
}

CUOTA_INLINE std::size_t sample_list::rows(std::size_t j) const noexcept {
    return static_cast<std::size_t>(row_offsets[j].back());
}

}  // namespace cuota::inline v0::detail

#endif
