// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// On the simulated library.
#include <cuota/interop/libraries/cudnn.hpp>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/async_memory.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

TEST_CASE("a scope of cuDNN has the stream, and workspaces for its operations", "[interop][cudnn]") {
    support::machine const machine;
    cuota::budget const budget{"memory", 8_MiB};
    cuota::stream const s;
    cuota::cudnn_handle dnn{cuota::budgeted<cuota::async_memory>{budget}};
    {
        auto on = dnn.on(s);
        cudaStream_t set = nullptr;
        cuota::cudnn_handle::check(cudnnGetStream(on, &set), "cudnnGetStream");
        CHECK(set == s.get());
        CHECK(on.workspace(3_MiB) != nullptr);
        CHECK(budget.held() == 3_MiB);
        CHECK_THROWS_AS(on.workspace(6_MiB), cuota::budget_exceeded);
        CHECK(budget.held() == 3_MiB);
    }
    CHECK(budget.held() == 0);
    std::string const text =
        support::thrown<cuota::library_error>([] {
            cuota::cudnn_handle::check(cudnnSetStream(nullptr, nullptr), "cudnnSetStream");
        }).what();
    CHECK(support::has(text, "cudnnSetStream failed: CUDNN_STATUS_BAD_PARAM"));
}

TEST_CASE("cudnnCreate without room is out of memory", "[interop][cudnn]") {
    support::machine const machine{{.capacity = 1_MiB}};
    std::string const text = support::thrown<cuota::out_of_memory>([] {
                                 cuota::cudnn_handle const h{cuota::async_memory{}};
                             }).what();
    CHECK(support::has(text, "cudnnCreate: not enough free memory on the device"));
}
