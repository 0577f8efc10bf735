// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/guarded/guard_keeper.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::call_order;
using cuota::detail::guard_bytes;
using cuota::detail::guard_keeper;

TEST_CASE("the guard bytes of a block depend on the redzone and the alignment", "[guard][guard_keeper]") {
    guard_keeper keeper{{.redzone_bytes = 100}, false, {}};
    auto const measure = [&](std::size_t bytes, std::size_t alignment) {
        auto const f = keeper.acquire(bytes, alignment, {});
        return std::vector<std::size_t>{f->front, f->total};
    };
    CHECK(measure(10, 1) == std::vector<std::size_t>{100, 210});
    CHECK(measure(10, 256) == std::vector<std::size_t>{256, 366});
    CHECK(measure(10, 4096) == std::vector<std::size_t>{4096, 4206});
    CHECK(measure(cuota::unlimited, 1)[1] == 0);
    CHECK(measure(cuota::unlimited - 150, 1)[1] == 0);
}

TEST_CASE("guard bytes are written and checked in stream order or synchronously", "[guard][guard_keeper]") {
    cuota::stream const s;
    guard_keeper keeper{{}, false, {}};
    cuota::device_memory memory;
    auto const order = GENERATE(0, 1) == 0 ? call_order{} : call_order{s};
    auto f = keeper.acquire(100, 256, {});
    void* const base = memory.allocate_sync(f->total);
    std::size_t const total = f->total;
    keeper.put_up(*f, order, base);
    CHECK(f->at == static_cast<unsigned char*>(base) + 256);
    cuota::rt::fill_bytes(f->at + 100, 1, 3, s);
    s.synchronize();
    keeper.take_down(*f.keep(), order);
    s.synchronize();
    CHECK_THROWS_AS(keeper.verify(s, nullptr, {}), cuota::guard_bytes_error);
    memory.deallocate_sync(base, total);
}
