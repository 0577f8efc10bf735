// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/kernel_overflow_error.hpp>

#include <thread>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::detail::kernel_count;

static_assert(std::is_base_of_v<std::runtime_error, cuota::kernel_overflow_error>);
static_assert(std::is_nothrow_copy_constructible_v<cuota::kernel_overflow_error>);

TEST_CASE("a kernel_overflow_error has the capacity, the needed size and the call site",
          "[buffer][kernel_overflow_error]") {
    cuota::kernel_overflow_error const error{"too much", 3, 5, {"src/kernel.cpp", 12}};
    CHECK(error.capacity() == 3);
    CHECK(error.needed() == 5);
    CHECK(std::string{error.what()} == "cuota::kernel_overflow_error: too much (kernel.cpp:12)");
    CHECK(std::string{cuota::kernel_overflow_error{"too much", 3, 5, {}}.what()} ==
          "cuota::kernel_overflow_error: too much");
}

TEST_CASE("counts of several threads add up, and a count saturates and never wraps around",
          "[buffer][kernel_overflow_error]") {
    kernel_count count = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i != 10'000; ++i) {
                (void)cuota::detail::add_to(count, 2);
                cuota::detail::saturate(count, 3);
            }
        });
    for (std::thread& one : threads) one.join();
    CHECK(count == 200'000);

    cuota::detail::saturate(count, ~kernel_count{0} - 100'000);
    CHECK(count == ~kernel_count{0});
    cuota::detail::saturate(count, 1);
    CHECK(count == ~kernel_count{0});
}
