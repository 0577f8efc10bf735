// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/spin_wait.hpp>

#include <atomic>
#include <thread>

#include "support/catch.hpp"

using cuota::detail::spin_wait;

TEST_CASE("spin_wait calls its predicate once if it is true", "[core][brief_wait]") {
    int requested = 0;
    spin_wait([&] {
        ++requested;
        return true;
    });
    CHECK(requested == (std::thread::hardware_concurrency() == 1 ? 0 : 1));
}

TEST_CASE("spin_wait returns even if its predicate stays false", "[core][brief_wait]") {
    spin_wait([] { return false; });
    SUCCEED("it did");
}

TEST_CASE("spin_wait observes what another thread writes", "[core][brief_wait]") {
    std::atomic<bool> go = false;
    std::atomic<bool> is_there = false;
    std::jthread const other{[&] {
        while (!go) std::this_thread::yield();
        is_there = true;
    }};
    go = true;
    bool seen = false;
    while (!seen) spin_wait([&] { return seen = is_there; });
    CHECK(seen);
}
