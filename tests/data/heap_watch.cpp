// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "support/heap_watch.hpp"

#include <cstddef>
#include <new>

#include "support/catch.hpp"

TEST_CASE("heap_watch counts allocations and their sizes", "[support][heap_watch]") {
    support::heap_watch const watch;
    std::size_t const before = watch.allocations();
    void* const memory = ::operator new(12'345);
    void* const aligned = ::operator new (100, std::align_val_t{256});
    std::size_t const after = watch.allocations();
    std::size_t const largest = watch.largest();
    std::size_t const total = watch.total();
    ::operator delete(memory);
    ::operator delete (aligned, std::align_val_t{256});
    if (after == 0) CUOTA_SKIP("the operator new of this sanitizer cannot be replaced");

    CHECK(before == 0);
    CHECK(after == 2);
    CHECK(largest == 12'345);
    CHECK(total == 12'445);
}
