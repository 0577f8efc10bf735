// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/planned_step.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/random_lifetimes.hpp"

namespace {

using cuota::planned_step;

planned_step random_planned_step(std::mt19937_64& random, std::size_t count) {
    planned_step step;
    for (std::uint64_t i = 0; i != count; ++i)
        step.requests.push_back(
            {{2 * i, 2 * i + support::pick(random, 1, 20), support::pick(random, 1, 3'000)},
             0,
             random() % 9 != 0});
    cuota::detail::place_requests(step, {});
    return step;
}

/// Finds the last user of every byte by a slow search.
std::set<std::uint32_t> last_users_of(planned_step const& step, std::uint32_t request) {
    std::set<std::uint32_t> users;
    auto const& mine = step.requests[request];
    if (!mine.is_planned) return users;
    auto const count = static_cast<std::uint32_t>(step.requests.size());
    for (std::size_t at = mine.offset; at < mine.offset + mine.live.size; at += 256)
        for (std::uint32_t back = 1; back <= count; ++back) {
            std::uint32_t const i = (request + count - back) % count;
            auto const& r = step.requests[i];
            if (!r.is_planned || at < r.offset || at >= cuota::round_up(r.offset + r.live.size, 256))
                continue;
            users.insert(i);
            break;
        }
    return users;
}

}  // namespace

TEST_CASE("place_requests computes offsets that do not overlap, with the least peak",
          "[pool][planned_step]") {
    planned_step step{{{{0, 4, 300}}, {{1, 2, 1}}, {{3, 9, 256}}, {{5, 9, 70'000}, 7, false}}};
    cuota::detail::place_requests(step, {});
    CHECK(step.peak == 768);
    CHECK(step.lower_bound == 768);
    CHECK(step.requests[1].offset == step.requests[2].offset);
    CHECK(step.requests[3].offset == 0);
    auto const blocks = cuota::detail::planned_lifetimes(step);
    CHECK(blocks[0] == cuota::lifetime{0, 4, 300});
    CHECK(blocks[3] == cuota::lifetime{5, 9, 0});
}

TEST_CASE("planned_step's hash depends on the sequence only", "[pool][planned_step]") {
    planned_step const step{{{{0, 4, 300}}, {{1, 2, 1}}}};
    CHECK(planned_step{}.hash() == 0xcbf29ce484222325U);  // of an empty step: FNV's offset basis
    auto other = step;
    other.requests[1].offset = 512;
    other.peak = 1024;
    CHECK(other.hash() == step.hash());
    CHECK(other != step);
    for (auto const change : {&cuota::lifetime::from, &cuota::lifetime::until}) {
        other = step;
        ++(other.requests[1].live.*change);
        CHECK(other.hash() != step.hash());
    }
    other = step;
    other.requests[1].live.size = 2;
    CHECK(other.hash() != step.hash());
    other = step;
    other.requests[0].is_planned = false;
    CHECK(other.hash() != step.hash());
    other = step;
    std::swap(other.requests[0], other.requests[1]);
    CHECK(other.hash() != step.hash());
}

TEST_CASE("last_users are the requests that used the bytes last, also in the previous step",
          "[pool][planned_step]") {
    std::mt19937_64 random{43};
    for (int round = 0; round != 60; ++round) {
        planned_step const step = random_planned_step(random, support::pick(random, 1, 60));
        cuota::detail::last_users const users{step};
        std::size_t all = 0;
        for (std::uint32_t i = 0; i != step.requests.size(); ++i) {
            auto const found = users.of(i);
            REQUIRE(std::set<std::uint32_t>(found.begin(), found.end()) == last_users_of(step, i));
            all += found.size();
        }
        REQUIRE(all <= 3 * step.requests.size());
    }
}
