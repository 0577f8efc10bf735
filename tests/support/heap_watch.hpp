// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// For test programs to which CMakeLists.txt adds heap_watch.cpp.
#pragma once

#include <cstddef>

namespace support {

/// Counts allocations of this thread by operator new since construction. Only one may exist at a time.
class heap_watch {
public:
    heap_watch() noexcept;
    [[nodiscard]] std::size_t allocations() const noexcept;
    [[nodiscard]] std::size_t largest() const noexcept;  ///< bytes of the largest allocation
    [[nodiscard]] std::size_t total() const noexcept;    ///< bytes of all allocations, including freed ones
};

}  // namespace support
