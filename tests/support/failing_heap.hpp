// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// For test programs to which CMakeLists.txt adds failing_heap.cpp.
#pragma once

#include <cstddef>

namespace support {

/// While it exists, operator new of this thread succeeds `allowed` times and then throws std::bad_alloc. Only one may exist at a time.
class failing_heap {
public:
    explicit failing_heap(std::size_t allowed) noexcept;
    ~failing_heap();
    failing_heap(failing_heap const&) = delete;
    failing_heap& operator=(failing_heap const&) = delete;

    [[nodiscard]] std::size_t refused() const noexcept;  ///< number of times it has thrown
};

/// Which requests fail after those that are allowed.
enum class heap_failure {
    once,  ///< one request
    stays  ///< all of them
};

/// While it lives, operator new of all threads together succeeds `allowed` times, and then throws std::bad_alloc. Requests
/// that the simulated runtime makes for itself, on any thread, succeed and do not count. One at a time.
class failing_heap_of_all {
public:
    failing_heap_of_all(std::size_t allowed, heap_failure how) noexcept;
    ~failing_heap_of_all();
    failing_heap_of_all(failing_heap_of_all const&) = delete;
    failing_heap_of_all& operator=(failing_heap_of_all const&) = delete;

    [[nodiscard]] std::size_t refused() const noexcept;  ///< how often it has thrown
};

}  // namespace support
