// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/holders_text.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::allocation_group;
using namespace cuota::detail;

TEST_CASE("holders are listed with call sites if all fit", "[core][holders_text]") {
    std::vector<allocation_group> const two{{"weights", {"train.cpp", 10}, 40},
                                            {"state", {"train.cpp", 12}, 30}};
    CHECK(holders_text(two, 1) == "weights 40 B (train.cpp:10), state 30 B (train.cpp:12)");
    CHECK(holders_text({}, 1).empty());
}

TEST_CASE("holders of one name are one if call sites do not fit", "[core][holders_text]") {
    std::vector<allocation_group> many;
    for (unsigned i = 0; i != 12; ++i) many.push_back({"activations", {"a_long_name.cpp", i + 1}, 10});
    many.push_back({"weights", {"a_long_name.cpp", 99}, 50});
    CHECK(holders_text(many, 1) == "activations 120 B, weights 50 B (a_long_name.cpp:99)");

    std::vector<allocation_group> merged = many;
    merge_names(merged);
    REQUIRE(merged.size() == 2);
    CHECK(merged[0].bytes == 120);
    CHECK(merged[0].where.line == 0);
}

TEST_CASE("holders that do not fit are added up", "[core][holders_text]") {
    std::vector<allocation_group> many;
    for (int i = 0; i != 40; ++i)
        many.push_back({cuota::tag::named("holder number " + std::to_string(i)), {}, 10});
    for (std::size_t const lines : {std::size_t{1}, std::size_t{3}}) {
        std::string const text = holders_text(many, lines);
        CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == lines - 1);
        CHECK(support::has(text, " others "));
    }
    CHECK(others_text(many, 38) == "2 others 20 B");
    CHECK(others_text(many, 39) == "1 other 10 B");
    CHECK(others_text(many, 40).empty());
}
