// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/backoff.hpp>

#include <chrono>

#include "support/catch.hpp"

namespace {

using namespace std::chrono_literals;

TEST_CASE("backoff starts to sleep after some polls, longer each time, and at most half a millisecond",
          "[core][backoff]") {
    cuota::detail::backoff pause;
    CHECK(pause.next() == 0us);
    while (pause.next() == 0us) pause();
    CHECK(pause.next() == 20us);
    auto before = pause.next();
    for (int i = 0; i != 8; ++i) {
        pause();
        CHECK(pause.next() >= before);
        before = pause.next();
    }
    CHECK(before == 500us);
}

}  // namespace
