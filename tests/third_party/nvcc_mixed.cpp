// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "nvcc_mixed.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "third_party/their_machine.hpp"

// nvcc_mixed.cu is compiled by nvcc, this file is not.

using namespace mixed;

TEST_CASE("a kernel body that two compilers compile is launched by nvcc's code", "[third_party][nvcc]") {
    CHECK(cuota::detail::device_launcher<each_by_both>() != nullptr);
    CHECK(cuota::detail::device_launcher<each_by_both>() == known_to_nvcc());
    CHECK(cuota::detail::device_launcher<cuota::detail::each_index<without_nvcc>>() == nullptr);
}

TEST_CASE("both files of a program compiled by two compilers run on the simulator", "[third_party][nvcc]") {
    control::their_machine const machine;
    std::vector<int> host(4);
    {
        cuota::stream const s;
        auto* const at = static_cast<int*>(cuota::rt::device_allocate(4 * sizeof(int)));
        cuota::for_each_index(s, 2, by_both{at});
        launch_by_nvcc(s, 2, at + 2);
        cuota::rt::copy_to_host(host.data(), at, 4 * sizeof(int), s);
        s.synchronize();
        cuota::rt::device_free(at);
    }
    CHECK(host == std::vector<int>{1, 2, 1, 2});
}

TEST_CASE("Thrust code compiled by nvcc is refused by the simulator, with the reason",
          "[third_party][nvcc]") {
    control::their_machine const machine;
    cuota::stream const s;
    auto const error = support::thrown<cuota::usage_error>([&] { run_thrust_by_nvcc(s); });
    CHECK(support::has(error.what(), "compiled by nvcc for Thrust's CUDA backend"));
    CHECK(cuota::stream_ref{s}.is_idle());
}
