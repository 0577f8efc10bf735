// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/pruned.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

TEST_CASE("when any CUDA call of a pack fails, nothing leaks and the previous pack is unchanged",
          "[training][pruned]") {
    support::machine on;
    cuota::stream const s;
    std::vector<float> dense(5000);
    for (std::size_t i = 0; i < dense.size(); i += 7) dense[i] = 1;
    cuota::device_buffer<float> const from{std::span<float const>{dense}, s, cuota::device_memory{}};
    auto const pack = [&] {
        return cuota::pruned<float>::pack(s, from.read(s), 0.5f, cuota::device_memory{});
    };
    auto const seen = support::survives_every_failure(on, [&] {
        auto const p = pack();
        CHECK(p.nonzeros() == 715);
    });
    CHECK(seen.thrown >= 20);  // 3 allocations, scratch, 6 launches, a copy, a wait; two error codes
    auto kept = pack();
    support::survives_every_failure(on, [&] {
        auto next = pack();
        kept = std::move(next);
    });
    cuota::device_buffer<float> to{dense.size(), s, cuota::device_memory{}};
    support::survives_every_failure(on, [&] { kept.unpack(s, to.write(s)); });
    CHECK(to.to_vector(s) == dense);
}
