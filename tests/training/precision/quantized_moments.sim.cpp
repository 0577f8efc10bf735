// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/quantized_moments.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/resource/device_memory.hpp>
#include <cuota/training/precision/master_weights.hpp>
#include <cuota/training/precision/quantized.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"

namespace {

struct step_of_ones {
    cuota::stream const s{};
    cuota::device_buffer<float> parameters{600, s, cuota::device_memory{}};
    cuota::device_buffer<float> const gradients{600, 1.0f, s, cuota::device_memory{}};
    cuota::quantized_moments<> adam{600, s, cuota::device_memory{}};

    void step() { adam.step(s, parameters.write(s), gradients.read(s)); }
};

}  // namespace

TEST_CASE("when any CUDA call fails, a low-precision container is constructed completely or not at all",
          "[training][quantized_moments]") {
    support::machine on;
    cuota::stream const s;
    cuota::device_memory const memory;
    std::vector<float> const host(600, 0.5f);
    support::survives_every_failure(on, [&] { (void)cuota::quantized_moments<>{600, s, memory}; });
    support::survives_every_failure(on, [&] { (void)cuota::quantized<float>{600, s, memory}; });
    support::survives_every_failure(on, [&] { (void)cuota::master_weights<cuota::half>{host, s, memory}; });
}

TEST_CASE("a step in which any CUDA call fails is neither applied nor counted",
          "[training][quantized_moments]") {
    support::machine on;
    step_of_ones some;
    std::uint64_t taken = 0;
    auto const seen = support::survives_every_failure(on, [&] {
        some.step();
        ++taken;
    });
    CHECK(seen.thrown > 0);
    REQUIRE(some.adam.steps() == taken);
    step_of_ones plain;
    for (std::uint64_t i = 0; i != taken; ++i) plain.step();
    CHECK(some.parameters.to_vector(some.s) == plain.parameters.to_vector(plain.s));
    some.step();
    plain.step();
    CHECK(some.parameters.to_vector(some.s) == plain.parameters.to_vector(plain.s));
}
