// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// State of a single program; tests/shared_libraries tests libraries with hidden symbols.
#include <cuota/core/detail/process_state.hpp>

#include <string>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota;

TEST_CASE("an object of another library's state is refused with its name and the remedy",
          "[core][process_state]") {
    CHECK(detail::process_state() == detail::process_state());
    CHECK_NOTHROW(detail::refuse_other_state(detail::process_state(), "a budget", {}));

    char other = 0;
    std::string const text = support::thrown<usage_error>([&] {
                                 detail::refuse_other_state(&other, "budget trainer", {"a.cpp", 7});
                             }).what();
    CHECK(support::has(text, "cannot use budget trainer in a library that was loaded by dlopen"));
    CHECK(support::has(text, "-rdynamic"));
    CHECK(support::has(text, "a.cpp:7"));
}
