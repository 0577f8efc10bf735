// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/biased_lock.hpp>

#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"

TEST_CASE("biased_lock runs one function at a time", "[core][biased_lock]") {
    cuota::detail::biased_lock lock;
    std::size_t count = 0;  // deliberately not atomic
    bool is_inside = false, is_broken = false;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t != 3; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = 0; i != 3'000; ++i) {
                auto const step = [&] {
                    if (is_inside) is_broken = true;
                    is_inside = true;
                    ++count;
                    is_inside = false;
                };
                if ((i + t) % 50 == 0) lock.run_alone(step);
                else lock.run(step);
                if (i % 500 == 0) std::this_thread::yield();
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(lock.run([&] { return count; }) == 9'000);
    CHECK_FALSE(is_broken);
}

TEST_CASE("biased_lock can be used by one thread after another, even after threads have ended",
          "[core][biased_lock]") {
    cuota::detail::biased_lock lock;
    int last = -1;
    for (int i = 0; i != 100; ++i) {
        std::thread{[&] {
            for (int j = 0; j != 3; ++j) lock.run([&] { last = i; });
        }}.join();
        REQUIRE(lock.run([&] { return last; }) == i);
    }
}

TEST_CASE("biased_lock is unlocked after an exception", "[core][biased_lock]") {
    cuota::detail::biased_lock lock;
    for (int i = 0; i != 3; ++i) {
        REQUIRE_THROWS_AS(lock.run([] { throw std::runtime_error{"no"}; }), std::runtime_error);
        REQUIRE_THROWS_AS(lock.run_alone([] { throw std::runtime_error{"no"}; }), std::runtime_error);
    }
    int value = 0;
    std::thread{[&] { lock.run([&] { value = 7; }); }}.join();
    CHECK(lock.run([&] { return value; }) == 7);
}
