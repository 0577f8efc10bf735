// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/buffer_access.hpp>

#include <thread>
#include <utility>

#include <cuota/buffer/detail/access_tracker.hpp>

#include "support/catch.hpp"

using cuota::detail::access_tracker;
using cuota::detail::buffer_access;

TEST_CASE("of the trackers that two threads create at the same time one is kept",
          "[buffer][access_tracker][threads]") {
    cuota::stream const home;
    for (int i = 0; i != 200; ++i) {
        buffer_access lazy;
        CHECK(lazy.if_any() == nullptr);
        access_tracker* there = nullptr;
        std::thread other{[&] { there = &lazy.of([&] { return cuota::stream_ref{home}; }); }};
        access_tracker* const here = &lazy.of([&] { return cuota::stream_ref{home}; });
        other.join();
        REQUIRE(here == there);
        buffer_access moved{std::move(lazy)};
        REQUIRE(lazy.if_any() == nullptr);
        moved.take()->end_at_home();
        REQUIRE(moved.if_any() == nullptr);
    }
}
