// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/diagnosis/finding.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

using cuota::finding;
using cuota::finding_kind;
using cuota::severity;

TEST_CASE("findings are sorted by severity, then by bytes", "[report][diagnosis]") {
    std::vector<finding> all{{finding_kind::peak, severity::note, "a", 9},
                             {finding_kind::leak, severity::problem, "b", 1},
                             {finding_kind::pinned, severity::warning, "c", 5},
                             {finding_kind::idle, severity::warning, "d", 6},
                             {finding_kind::refusals, severity::problem, "e", 1},
                             {finding_kind::external, severity::warning, "f", 5}};
    cuota::sort_findings(all);
    std::string order;
    for (finding const& f : all) order += f.text;
    CHECK(order == "bedcfa");
}

TEST_CASE("names of finding kinds and severities equal their enumerators", "[report][diagnosis]") {
    CHECK(std::string_view{name_of(finding_kind::refusals)} == "refusals");
    CHECK(std::string_view{name_of(finding_kind::leak)} == "leak");
    CHECK(std::string_view{name_of(finding_kind::fragmentation)} == "fragmentation");
    CHECK(std::string_view{name_of(finding_kind::budget_full)} == "budget_full");
    CHECK(std::string_view{name_of(finding_kind::external)} == "external");
    CHECK(std::string_view{name_of(finding_kind::pinned)} == "pinned");
    CHECK(std::string_view{name_of(finding_kind::rounding)} == "rounding");
    CHECK(std::string_view{name_of(finding_kind::idle)} == "idle");
    CHECK(std::string_view{name_of(finding_kind::pending)} == "pending");
    CHECK(std::string_view{name_of(finding_kind::churn)} == "churn");
    CHECK(std::string_view{name_of(finding_kind::untagged)} == "untagged");
    CHECK(std::string_view{name_of(finding_kind::peak)} == "peak");
    CHECK(std::string_view{name_of(severity::note)} == "note");
    CHECK(std::string_view{name_of(severity::warning)} == "warning");
    CHECK(std::string_view{name_of(severity::problem)} == "problem");
}
