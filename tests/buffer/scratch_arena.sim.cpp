// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/scratch_arena.hpp>

#include <cstddef>

#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

namespace {

struct take_a_piece {
    cuota::device_scratch from;
    void operator()(std::size_t) const { (void)from.take<char>(16); }
};

}  // namespace

TEST_CASE("a scratch_arena survives the failure of any CUDA call", "[buffer][scratch_arena]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::stream const other;
        cuota::scratch_arena arena{1024, s, cuota::device_memory{}};
        cuota::for_each_index(s, 10, take_a_piece{arena.open(s)});
        cuota::for_each_index(other, 20, take_a_piece{arena.open(other)});
        std::size_t const needed = arena.needed(other);
        REQUIRE(needed == 320);
        arena.check(other);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}
