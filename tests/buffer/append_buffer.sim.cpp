// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/append_buffer.hpp>

#include <cstddef>
#include <cstdint>

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

TEST_CASE("an append_buffer survives the failure of any CUDA call", "[buffer][append_buffer]") {
    support::machine machine;
    auto const turn = [] {
        cuota::stream const s;
        cuota::stream const other;
        cuota::append_buffer<int> found{10, s, cuota::device_memory{}};
        cuota::for_each_index(other, 20, append_all{found.append(other)});
        bool const fits = found.stored_size(other) == 10;
        REQUIRE(fits);
        found.restart(20);
        cuota::for_each_index(s, 20, append_all{found.append(s)});
        std::size_t const count = found.to_vector(s).size();
        REQUIRE(count == 20);
    };
    CHECK(support::survives_every_failure(machine, turn).thrown > 0);
}

TEST_CASE("a restart that throws keeps the appended values and the capacity, whichever CUDA call fails",
          "[buffer][append_buffer]") {
    support::machine machine;
    std::size_t const capacity = GENERATE(10u, 20u);
    cuota::stream const s;
    std::uint64_t nth = 0;
    for (bool was_used = true; was_used;) {
        ++nth;
        INFO("call " << nth << " fails");
        cuota::append_buffer<int> found{10, s, cuota::device_memory{}};
        cuota::for_each_index(s, 5, append_all{found.append(s)});
        auto const injected = cuota::simulator::faults_injected();
        cuota::simulator::fail_call(nullptr, nth);
        bool threw = false;
        try {
            found.restart(capacity);
        } catch (cuota::cuda_error const&) { threw = true; } catch (cuota::out_of_memory const&) {
            threw = true;
        }
        was_used = cuota::simulator::faults_injected() != injected;
        cuota::simulator::clear_faults();
        (void)machine.errors.take();
        std::size_t const left = found.size(s);
        REQUIRE(left == (threw ? 5 : 0));
        REQUIRE(found.capacity() == (threw ? 10 : capacity));
    }
    CHECK(nth > 2);
}

TEST_CASE("a restart is refused while a lease is open", "[buffer][append_buffer]") {
    support::machine const machine;
    cuota::stream const s;
    cuota::append_buffer<int> found{10, s, cuota::device_memory{}};
    {
        auto const open = found.append(s);
        CHECK_THROWS_AS(found.restart(20), cuota::usage_error);
    }
    CHECK(found.capacity() == 10);
    CHECK_NOTHROW(found.restart(20));
    CHECK(found.capacity() == 20);
}
