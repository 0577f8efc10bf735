// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Counts the inconsistencies of one kind in a file that is imported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>

namespace cuota::inline v0::detail {

/// Stores how many inconsistencies were corrected, and the offset of the first.
class repair_counter {
public:
    void count(std::uint64_t offset) noexcept {
        if (count_++ == 0) first_ = offset;
    }
    /// Appends a sentence if any were counted; the pattern has two places: count and offset.
    void append_to(std::vector<std::string>& repairs, char const* pattern) const {
        if (count_ != 0) repairs.push_back(message(pattern, {as_count(count_), as_count(first_)}));
    }

private:
    std::size_t count_ = 0;
    std::uint64_t first_ = 0;
};

}  // namespace cuota::inline v0::detail
