// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/brief_wait.hpp>

#include <atomic>
#include <thread>

#include "support/catch.hpp"

using cuota::detail::wait_briefly;

TEST_CASE("wait_briefly asks once when what it waits for is there", "[core][brief_wait]") {
    int asked = 0;
    wait_briefly([&] {
        ++asked;
        return true;
    });
    CHECK(asked == (std::thread::hardware_concurrency() == 1 ? 0 : 1));
}

TEST_CASE("wait_briefly comes back without what it waits for", "[core][brief_wait]") {
    wait_briefly([] { return false; });
    SUCCEED("it did");
}

TEST_CASE("wait_briefly sees what another thread does", "[core][brief_wait]") {
    std::atomic<bool> go = false;
    std::atomic<bool> is_there = false;
    std::jthread const other{[&] {
        while (!go) std::this_thread::yield();
        is_there = true;
    }};
    go = true;
    bool seen = false;
    while (!seen) wait_briefly([&] { return seen = is_there; });
    CHECK(seen);
}
