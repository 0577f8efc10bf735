// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// On the simulated library.
#include <cuota/interop/libraries/cusolver.hpp>

#include <cstddef>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

TEST_CASE("a factorization gets its workspace from the scope", "[interop][cusolver]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 64_KiB};
    cuota::stream const s;
    cuota::cusolver_handle solver{cuota::budgeted<cuota::async_memory>{budget}};
    CHECK(solver.workspace_bytes() == 0);
    cuota::device_buffer<float> matrix{{4, 2, 2, 10}, s, cuota::async_memory{}};
    cuota::device_buffer<int> info{1, s, cuota::async_memory{}};
    {
        auto on = solver.on(s);
        auto const a = matrix.write(s);
        int elements = 0;
        cuota::cusolver_handle::check(
            cusolverDnSpotrf_bufferSize(on, CUBLAS_FILL_MODE_LOWER, 2, a, 2, &elements),
            "cusolverDnSpotrf_bufferSize");
        float* const scratch = on.workspace_of<float>(elements);
        CHECK(budget.held() == 512);
        cuota::cusolver_handle::check(
            cusolverDnSpotrf(on, CUBLAS_FILL_MODE_LOWER, 2, a, 2, scratch, elements, info.write(s)),
            "cusolverDnSpotrf");
    }
    CHECK(budget.held() == 0);
    CHECK(info.to_vector(s) == std::vector<int>{0});
    CHECK(matrix.to_vector(s) == std::vector<float>{2, 1, 2, 3});
}

TEST_CASE("cusolverDnCreate without room is out of memory", "[interop][cusolver]") {
    support::machine const machine{{.capacity = 64_MiB}};
    std::string const text = support::thrown<cuota::out_of_memory>([] {
                                 cuota::cusolver_handle const h{cuota::async_memory{}};
                             }).what();
    CHECK(support::has(text, "cusolverDnCreate: not enough free memory on the device"));
}
