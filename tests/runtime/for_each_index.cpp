// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/for_each_index.hpp>

#include <vector>

#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/memory.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"

namespace {

struct count_up {
    int* at;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { at[i] += static_cast<int>(i); }
};

}  // namespace

TEST_CASE("every index is visited once, launch after launch in stream order",
          "[runtime][for_each_index][gpu]") {
    constexpr std::size_t n = 100'003;
    int* const at = static_cast<int*>(cuota::rt::device_allocate(n * sizeof(int)));
    cuota::stream const s;
    cuota::rt::fill_bytes(at, 0, n * sizeof(int), s);
    for (int round = 0; round != 3; ++round) cuota::for_each_index(s, n, count_up{at});
    cuota::for_each_index(s, 1, support::write_value{at, -1});

    std::vector<int> host(n);
    cuota::rt::copy_to_host(host.data(), at, n * sizeof(int), s);
    s.synchronize();
    cuota::rt::device_free(at);
    bool is_right = host[0] == -1;
    for (std::size_t i = 1; i != n; ++i) is_right = is_right && host[i] == 3 * static_cast<int>(i);
    REQUIRE(is_right);
}

TEST_CASE("an error that the thread has left before is no failure of a launch",
          "[runtime][for_each_index][gpu]") {
    int* const at = static_cast<int*>(cuota::rt::device_allocate(sizeof(int)));
    cuota::stream const s;
    REQUIRE(cudaSetDevice(-1) == cudaErrorInvalidDevice);
    REQUIRE_NOTHROW(cuota::for_each_index(s, 1, support::write_value{at, 7}));
    (void)cudaGetLastError();

    int host = 0;
    cuota::rt::copy_to_host(&host, at, sizeof host, s);
    s.synchronize();
    cuota::rt::device_free(at);
    REQUIRE(host == 7);
}

TEST_CASE("no index is no launch", "[runtime][for_each_index]") {
    cuota::stream const s;
    cuota::for_each_index(s, 0, support::write_value{nullptr, 1});
    REQUIRE_NOTHROW(s.synchronize());
    REQUIRE(s.is_idle());
}
