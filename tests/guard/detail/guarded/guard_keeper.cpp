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

TEST_CASE("buffers for guard bytes do not overlap and are reused", "[guard][guard_keeper]") {
    guard_keeper keeper{{.redzone_bytes = 1000}, false, {}};
    unsigned char* first = nullptr;
    {
        auto const a = keeper.acquire(1, 1, {});
        auto const b = keeper.acquire(1, 1, {});
        first = b->seen;
        CHECK(std::abs(a->seen - b->seen) >= 2000);
    }
    std::vector<unsigned char*> seen;
    for (int i = 0; i != 200; ++i) seen.push_back(keeper.acquire(1, 1, {})->seen);
    CHECK(std::all_of(seen.begin(), seen.end(), [&](unsigned char* p) { return p == seen[0]; }));
    CHECK(first != nullptr);
}

TEST_CASE("without host memory, acquire throws, and existing records stay valid", "[guard][guard_keeper]") {
    // The zone is so large that records are allocated one by one.
    guard_keeper keeper{{.redzone_bytes = std::size_t{1} << 16}, false, {}};
    auto const first = keeper.acquire(1, 1, {});
    // The number of host allocations per record depends on the runtime: the simulated one allocates host memory, too.
    std::size_t allowed = 0;
    for (unsigned char* second = nullptr; !second; ++allowed) {
        support::failing_heap const few{allowed};
        try {
            second = keeper.acquire(1, 1, {})->seen;
        } catch (std::bad_alloc const&) { continue; }
    }
    CHECK(allowed > 1);
    CHECK(keeper.acquire(1, 1, {})->seen != first->seen);
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
