// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What this thread takes from the heap through operator new. For test programs that
/// CMakeLists.txt adds heap_watch.cpp to.
#pragma once

#include <cstddef>

namespace support {

/// Counts between its construction and a question; of this thread only. One at a time.
class heap_watch {
public:
    heap_watch() noexcept;
    [[nodiscard]] std::size_t allocations() const noexcept;
    [[nodiscard]] std::size_t largest() const noexcept;  ///< bytes of the largest single one
    [[nodiscard]] std::size_t total() const noexcept;    ///< bytes of all, also of what has gone back
};

}  // namespace support
