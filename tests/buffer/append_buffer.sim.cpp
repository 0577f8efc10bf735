// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/append_buffer.hpp>

#include <cstddef>

#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

namespace {

struct append_all {
    cuota::device_appender<int> to;
    void operator()(std::size_t i) const { (void)to.push_back(static_cast<int>(i)); }
};

}  // namespace

TEST_CASE("an append_buffer survives every failing call", "[buffer][append_buffer]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::stream const other;
        cuota::append_buffer<int> found{10, s, cuota::device_memory{}};
        cuota::for_each_index(other, 20, append_all{found.append(other)});
        bool const fits = found.size_that_fitted(other) == 10;
        REQUIRE(fits);
        found.restart(20);
        cuota::for_each_index(s, 20, append_all{found.append(s)});
        std::size_t const count = found.to_vector(s).size();
        REQUIRE(count == 20);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}
