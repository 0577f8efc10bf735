// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/chain.hpp>

#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_stage;

namespace {

[[nodiscard]] std::string complaint_about(chain const& c) {
    return support::thrown<cuota::usage_error>([&] { c.check(); }).what();
}

}  // namespace

TEST_CASE("rounded_to rounds up each size of a chain and changes nothing else", "[training][chain]") {
    chain const c{{{1, 700, 512, 0, 2.5, 3.5}}, 4, 5};
    chain const rounded = c.rounded_to(512);
    chain_stage const& s = rounded.stages.at(0);
    CHECK(s.output_bytes == 512);
    CHECK(s.saved_bytes == 1024);
    CHECK(s.forward_scratch == 512);
    CHECK(s.backward_scratch == 0);
    CHECK(s.forward_time == 2.5);
    CHECK(s.backward_time == 3.5);
    CHECK(rounded.offload_time_per_byte == 4);
    CHECK(rounded.fetch_time_per_byte == 5);
    CHECK(chain{{{cuota::unlimited - 3}}}.rounded_to(512).stages[0].output_bytes == cuota::unlimited);
    CHECK(c.rounded_to(1).stages[0].saved_bytes == 700);
    CHECK(s.gradient() == 512);
    CHECK_FALSE(s.gradient_bytes);
    chain other = c;
    other.stages[0].gradient_bytes = 513;
    CHECK(other.stages[0].gradient() == 513);
    CHECK(other.rounded_to(512).stages[0].gradient() == 1024);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)c.rounded_to(500); });
    CHECK(refused.where().line == line);
    CHECK(support::has(refused.what(), "chain::rounded_to: granularity 500 is not a power of two"));
    CHECK_THROWS_AS(c.rounded_to(0), cuota::usage_error);
}

TEST_CASE("an invalid chain is refused with the reason", "[training][chain]") {
    double const infinity = std::numeric_limits<double>::infinity();
    double const no_number = std::numeric_limits<double>::quiet_NaN();
    CHECK(support::has(complaint_about({}), "no stages"));
    CHECK(support::has(complaint_about({{{}}, -1, 0}), "offload time per byte = -1"));
    CHECK(support::has(complaint_about({{{}}, 0, infinity}), "fetch time per byte = inf"));
    chain c{{{}, {}}};
    c.stages[1].forward_time = no_number;
    CHECK(support::has(complaint_about(c), "stage 1 forward time = "));
    c.stages[1] = {};
    c.stages[1].forward_time = 1e101;  // sums of such times would overflow
    CHECK(support::has(complaint_about(c), "stage 1 forward time = "));
    c.stages[1] = {};
    c.stages[0].backward_time = -0.5;
    CHECK(support::has(complaint_about(c), "stage 0 backward time = -0.5"));
    CHECK_NOTHROW((chain{{{0, 0, 0, 0, 0, 0}}}).check());
}

TEST_CASE("a chain whose sizes overflow is refused", "[training][chain]") {
    std::size_t const half = cuota::unlimited / 2;
    CHECK_NOTHROW((chain{{{half}}}).check());
    CHECK(support::has(complaint_about({{{half + 1}}}),
                       "the total size of the stages up to stage 0 overflows"));
    CHECK_NOTHROW((chain{{{0, half, 0, 0}, {0, 0, half, 0}, {0, 0, 0, 1}}}).check());
    CHECK(support::has(complaint_about({{{0, half, 0, 0}, {0, 0, half, 0}, {0, 0, 0, 2}}}), "up to stage 2"));
}
