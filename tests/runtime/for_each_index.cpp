// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/for_each_index.hpp>

#include <string_view>
#include <vector>

#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"

namespace {

struct count_up {
    int* at;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { at[i] += static_cast<int>(i); }
};

struct nothing {};
struct numbers {
    int* at;
    [[no_unique_address]] nothing none;
};
struct copy_number {
    numbers from, to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to.at[i] = from.at[i]; }
};

}  // namespace

TEST_CASE("every index is visited once, and launches run in stream order", "[runtime][for_each_index][gpu]") {
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

TEST_CASE("an earlier error of the thread is not an error of a launch", "[runtime][for_each_index][gpu]") {
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

TEST_CASE("a body whose layout differs in device code is refused, or works",
          "[runtime][for_each_index][gpu]") {
    int* const at = static_cast<int*>(cuota::rt::device_allocate(2 * sizeof(int)));
    cuota::stream const s;
    cuota::for_each_index(s, 2, count_up{at});
    cuota::for_each_index(s, 1, support::write_value{at, 5});
    int host[2] = {};
    bool is_refused = false;
    try {
        cuota::for_each_index(s, 1, copy_number{{at, {}}, {at + 1, {}}}, "copy");
    } catch (cuota::usage_error const& refused) {
        is_refused = true;
        INFO(refused.what());
        CHECK(std::string_view{refused.what()}.find(
                  "copy: cannot launch a kernel with a body of 24 bytes in host code") !=
              std::string_view::npos);
    }
    cuota::rt::copy_to_host(host, at, sizeof host, s);
    s.synchronize();
    cuota::rt::device_free(at);
    CHECK(host[0] == 5);
    CHECK((is_refused || host[1] == 5));
}

TEST_CASE("a launch over 0 indices does nothing", "[runtime][for_each_index]") {
    cuota::stream const s;
    cuota::for_each_index(s, 0, support::write_value{nullptr, 1});
    REQUIRE_NOTHROW(s.synchronize());
    REQUIRE(s.is_idle());
}
