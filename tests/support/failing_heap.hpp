// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Makes operator new fail, to see what is left then. For test programs that CMakeLists.txt adds failing_heap.cpp to.
#pragma once

#include <cstddef>

namespace support {

/// While it lives, operator new of this thread succeeds `allowed` times and then throws std::bad_alloc. One at a time.
class failing_heap {
public:
    explicit failing_heap(std::size_t allowed) noexcept;
    ~failing_heap();
    failing_heap(failing_heap const&) = delete;
    failing_heap& operator=(failing_heap const&) = delete;

    [[nodiscard]] std::size_t refused() const noexcept;  ///< how often it has thrown
};

}  // namespace support
