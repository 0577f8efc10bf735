// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/plan_file.hpp>

#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using support::has;
using support::thrown;

namespace {

cuota::planned_step random_planned_step(std::mt19937_64& random, std::size_t count) {
    cuota::planned_step step;
    for (std::uint64_t i = 0; i != count; ++i)
        step.requests.push_back(
            {{2 * i, 2 * i + support::pick(random, 1, 20), support::pick(random, 1, 3'000)},
             0,
             random() % 9 != 0});
    cuota::detail::place_requests(step, {});
    return step;
}

std::string reason(std::string const& text) {
    auto const error = thrown<cuota::data_error>([&] { (void)cuota::parse_plan(text, "step.plan"); });
    CHECK(error.file() == "step.plan");
    CHECK(error.offset() <= text.size());
    return error.why();
}

std::string with(std::string text, std::string const& part, std::string const& other) {
    auto const at = text.find(part);
    REQUIRE(at != std::string::npos);
    return text.replace(at, part.size(), other);
}

}  // namespace

TEST_CASE("a plan is readable text", "[pool][plan_file]") {
    cuota::planned_step step{{{{0, 3, 500}}, {{1, 2, 256}}, {{4, 6, 9}, 0, false}}};
    cuota::detail::place_requests(step, {});
    std::string const text = cuota::plan_text(step);
    INFO(text);
    CHECK(text.starts_with("# cuota step plan 1: requests=3 peak=768 lower_bound=768 hash="));
    CHECK(text.ends_with("\nid,lower,upper,size,offset\n0,0,3,500,0\n1,1,2,256,512\n2,4,6,9,\n"));
    CHECK(cuota::parse_plan(text, "text") == step);
    CHECK(cuota::parse_plan(text.substr(0, text.size() - 1), "text") == step);
}

TEST_CASE("a saved plan loads unchanged", "[pool][plan_file]") {
    support::temp_folder const folder;
    std::mt19937_64 random{47};
    for (int round = 0; round != 30; ++round) {
        cuota::planned_step const step = random_planned_step(random, support::pick(random, 0, 80));
        cuota::save_plan(step, folder.path("step.plan"));  // replaces the previous file
        REQUIRE(cuota::load_plan(folder.path("step.plan")) == step);
    }
    CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);
}

TEST_CASE("a plan with any byte changed is refused or equivalent", "[pool][plan_file]") {
    std::mt19937_64 random{53};
    cuota::planned_step const step = random_planned_step(random, 8);
    std::string const text = cuota::plan_text(step);
    for (std::size_t at = 0; at != text.size(); ++at)
        for (char const c : {'0', '7', ',', '\n', '-', 'x'}) {
            std::string changed = text;
            changed[at] = c;
            try {
                // Only data that no check covers may differ: offsets that are valid as well.
                cuota::planned_step const read = cuota::parse_plan(changed, "step.plan");
                REQUIRE(read.hash() == step.hash());
                REQUIRE(read.peak == step.peak);
            } catch (cuota::data_error const& error) { REQUIRE(has(error.why(), "line ")); }
        }
    for (std::size_t size = 0; size + 1 < text.size(); ++size) {
        INFO(size);
        REQUIRE_THROWS_AS(cuota::parse_plan(text.substr(0, size), "step.plan"), cuota::data_error);
    }
}

TEST_CASE("an invalid plan is refused with its line and the reason", "[pool][plan_file]") {
    cuota::planned_step step{{{{0, 3, 500}}, {{1, 2, 256}}}};
    cuota::detail::place_requests(step, {});
    std::string const text = cuota::plan_text(step);
    std::string const hash = text.substr(text.find("hash="), 21);
    for (auto const& [changed, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"", {"line 0", "unexpected end of file"}},
             {"id,lower,upper,size\n", {"line 1", "not a step plan"}},
             {with(text, "plan 1:", "plan 2:"), {"line 1", "version '2'"}},
             {with(text, "requests=2", "requests=3"), {"2 requests", "states 3"}},
             {with(text, "requests=2", "requests=-2"), {"line 1", "requests '-2'"}},
             {with(text, "peak=768", "peak=512"), {"the end exceeds the peak"}},
             {with(text, "peak=768", "peak=1024"), {"peak is 1024, expected 768"}},
             {with(text, "lower_bound=768", "lower_bound=512"), {"lower_bound is 512, expected 768"}},
             {with(text, hash, "hash=0000000000000000"), {"the hash does not match"}},
             {with(text, hash, "hash=nonsense"), {"line 1", "hash 'nonsense'"}},
             {with(text, "peak", "top"), {"line 1", "peak is missing"}},
             {with(text, "id,lower", "id,from"), {"line 2", "the columns are not"}},
             {with(text, "\n1,1,2", "\n2,1,2"), {"line 4", "id is 2, expected 1"}},
             {with(text, ",256,512", ""), {"line 4", "ends after upper"}},
             {with(text, "0,3,500", "0,0,500"), {"line 3", "[0, 0) of 500 B is empty or reversed"}},
             {with(text, "1,2,256", "0,2,256"), {"line 4", "must be above that of the previous request"}},
             {with(text, "500", "501"), {"the hash does not match"}},
             {with(text, "500", "0"), {"line 3", "size is 0"}},
             {with(text, "500", "18446744073709551615"), {"line 3", "the total size exceeds"}},
             {with(text, "500", "99999999999999999999"), {"line 3", "size '99999999999999999999'"}},
             {with(text, "256,512", "256,511"), {"request 1: the offset is not a multiple of 256"}},
             {with(text, "256,512", "256,0"), {"request 0 and request 1 overlap"}},
             {with(text, "256,512", "256,256"), {"overlap"}},
             {with(text, "256,512", "256,-1"), {"line 4", "offset '-1'"}},
         }) {
        INFO(changed);
        std::string const why = reason(changed);
        INFO(why);
        for (std::string const& word : words) CHECK(has(why, word));
    }
}

TEST_CASE("a plan that cannot be written leaves the old file unchanged", "[pool][plan_file]") {
    support::temp_folder const folder;
    cuota::planned_step step{{{{0, 3, 500}}}};
    cuota::detail::place_requests(step, {});
    auto const refused =
        thrown<cuota::data_error>([&] { cuota::save_plan(step, folder.path("no/folder.plan")); });
    CHECK(has(refused.why(), "cannot write: "));
    std::filesystem::create_directory(folder.path("taken"));
    REQUIRE_THROWS_AS(cuota::save_plan(step, folder.path("taken")), cuota::data_error);
    CHECK(std::filesystem::is_directory(folder.path("taken")));
    CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);
    for (std::string const& path : {folder.path("absent"), folder.path("taken")})
        CHECK(has(thrown<cuota::data_error>([&] { (void)cuota::load_plan(path); }).why(), "cannot "));
}
