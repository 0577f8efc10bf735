// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/export/trace_stream.hpp>

#include <cstdint>
#include <limits>
#include <sstream>

#include "support/catch.hpp"

TEST_CASE("times in a trace are microseconds with three decimals", "[report][trace_stream]") {
    CHECK(cuota::detail::trace_time(0) == "0.000");
    CHECK(cuota::detail::trace_time(7) == "0.007");
    CHECK(cuota::detail::trace_time(999) == "0.999");
    CHECK(cuota::detail::trace_time(1000) == "1.000");
    CHECK(cuota::detail::trace_time(123'456'070) == "123456.070");
    CHECK(cuota::detail::trace_time(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551.615");
}

TEST_CASE("all events of a trace are in one list", "[report][trace_stream]") {
    std::ostringstream to;
    cuota::detail::trace_stream stream{to};
    stream.put("[");
    stream.add(cuota::detail::trace_event("i", 2, "a\"b", 1));
    stream.add(cuota::detail::trace_event("i", 3, "c", 2));
    stream.put("]");
    CHECK(to.str().empty());  // it writes in large parts
    stream.flush();
    CHECK(to.str() == "[\n"
                      R"({"ph":"i","pid":2,"tid":2,"ts":0.001,"name":"a\"b"},)"
                      "\n"
                      R"({"ph":"i","pid":3,"tid":3,"ts":0.002,"name":"c"})"
                      "]");
}
