// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/loader_state.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::loader_state;

TEST_CASE("a loader_state can be written as a line of text and parsed again", "[data][loader_state]") {
    loader_state const some{3, 4096, ~std::uint64_t{0}};
    CHECK(some.text() == "cuota-loader-state 1 epoch 3 position 4096 order 18446744073709551615");
    CHECK(loader_state::parse(some.text()) == some);
    CHECK(loader_state::parse(loader_state{}.text()) == loader_state{});
}

TEST_CASE("an invalid text of a loader_state is refused", "[data][loader_state]") {
    for (std::string const text :
         {"", "cuota-loader-state 1", "cuota-loader-state 2 epoch 3 position 4 order 5",
          "cuota-loader-state 1 epoch 3 position 4 order 5 ", "cuota-loader-state 1 epoch 3 position 4 order",
          "cuota-loader-state 1 epoch -3 position 4 order 5",
          "cuota-loader-state 1 epoch 3 position 0x4 order 5",
          "cuota-loader-state 1 epoch 3 position 4 order 18446744073709551616",
          " cuota-loader-state 1 epoch 3 position 4 order 5"}) {
        INFO(text);
        auto const error = support::thrown<cuota::usage_error>([&] {
            (void)loader_state::parse(text, {"resume.cpp", 7});
        });
        CHECK(std::string{error.what()} ==
              "cuota::usage_error: loader_state: cannot parse \"" + text + "\" (resume.cpp:7)");
    }
    auto const error =
        support::thrown<cuota::usage_error>([&] { (void)loader_state::parse(std::string(1000, 'x')); });
    CHECK(std::string{error.what()}.size() < 200);
}
