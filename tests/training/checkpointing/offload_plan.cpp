// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/offload_plan.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_cost;
using cuota::chain_op_kind;
using cuota::chain_schedule;
using cuota::min_offload_bytes;
using cuota::offload_plan;
using cuota::simulate;

namespace {

class linked_chains {
public:
    explicit linked_chains(unsigned seed) : random_{seed} {}

    [[nodiscard]] std::size_t between(std::size_t least, std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{least, most}(random_);
    }
    [[nodiscard]] chain with(std::size_t stages, std::size_t largest) {
        chain c;
        c.stages.resize(stages);
        for (cuota::chain_stage& s : c.stages)
            s = {between(0, largest),     between(0, 2 * largest), between(0, largest / 2),
                 between(0, largest / 2), double(between(1, 8)),   double(between(1, 16))};
        for (cuota::chain_stage& s : c.stages)
            if (between(0, 3) == 0) s.gradient_bytes = between(0, 2 * largest);
        double const per_byte = 8 / double(largest);
        c.offload_time_per_byte = per_byte * double(between(0, 8)) / 8;
        c.fetch_time_per_byte = per_byte * double(between(0, 8)) / 8;
        return c;
    }

private:
    std::mt19937 random_;
};

// Enumerates every set of stages to offload, with every backward run before which each may be fetched.
class all_offloads {
public:
    explicit all_offloads(chain const& c) : chain_{c}, back_(c.stages.size(), staying) {}

    [[nodiscard]] std::vector<chain_cost> runs() {
        from(0);
        return std::move(found_);
    }

private:
    static constexpr std::size_t staying = 1000;

    void from(std::size_t stage) {
        if (stage + 2 >= chain_.stages.size()) return found_.push_back(simulate(chain_, schedule()));
        from(stage + 1);
        for (std::size_t k = stage + 1; k != chain_.stages.size(); ++k) {
            back_[stage] = k;
            from(stage + 1);
        }
        back_[stage] = staying;
    }
    [[nodiscard]] chain_schedule schedule() const {
        chain_schedule to;
        for (std::size_t i = 0; i != back_.size(); ++i) {
            to.push_back({chain_op_kind::forward_saving, i});
            if (i != 0 && back_[i - 1] != staying) to.push_back({chain_op_kind::offload, i - 1});
        }
        for (std::size_t k = back_.size(); k-- != 0;) {
            for (std::size_t i = back_.size(); i-- != 0;)
                if (back_[i] == k) to.push_back({chain_op_kind::fetch, i});
            to.push_back({chain_op_kind::backward, k});
        }
        return to;
    }

    chain const& chain_;
    std::vector<std::size_t> back_;
    std::vector<chain_cost> found_;
};

}  // namespace

TEST_CASE("an offload plan fits, recomputes nothing, and requires no more than min_offload_bytes",
          "[training][offload_plan]") {
    linked_chains random{31};
    std::size_t wrong = 0;
    std::size_t sent = 0;
    for (int round = 0; round != 300; ++round) {
        chain const c = random.with(random.between(1, 12), std::size_t{1} << random.between(2, 40));
        std::size_t const least = min_offload_bytes(c);
        chain_cost const all = simulate(c, store_all_plan(c));
        for (std::size_t room : {least, random.between(least, all.peak), all.peak}) {
            chain_cost const run = simulate(c, offload_plan(c, room));
            wrong += run.peak > room || run.recomputed != 0 || run.compute_time != all.compute_time;
            wrong += room >= all.peak && run.offloaded_bytes != 0;
            sent += run.offloaded_bytes != 0;
        }
        if (least == 0) continue;
        auto const refused = support::thrown<cuota::out_of_memory>([&] { (void)offload_plan(c, least - 1); });
        wrong += refused.info().requested != least;
    }
    CHECK(wrong == 0);
    CHECK(sent > 300);
}

TEST_CASE("an offload plan is nearly always the best of all sets of records and times of copies",
          "[training][offload_plan]") {
    linked_chains random{32};
    std::size_t rooms = 0;
    std::size_t worse = 0;
    std::size_t much_worse = 0;
    std::size_t least_wrong = 0;
    std::size_t waiting = 0;
    for (int round = 0; round != 300; ++round) {
        chain const c = random.with(random.between(3, 6), 8);
        std::vector<chain_cost> const runs = all_offloads{c}.runs();
        std::vector<std::size_t> peaks;
        for (chain_cost const& run : runs) peaks.push_back(run.peak);
        std::sort(peaks.begin(), peaks.end());
        peaks.erase(std::unique(peaks.begin(), peaks.end()), peaks.end());
        least_wrong += peaks.front() != min_offload_bytes(c);
        for (std::size_t const room : peaks) {
            double best = std::numeric_limits<double>::infinity();
            for (chain_cost const& run : runs)
                if (run.peak <= room) best = std::min(best, run.time);
            chain_cost const mine = simulate(c, offload_plan(c, room));
            ++rooms;
            worse += mine.time > best + 1e-9;
            much_worse += mine.time > 1.1 * best;
            waiting += mine.time > mine.compute_time + 1e-9;
            if (mine.time < best - 1e-9) FAIL("better than the best of all: " << room);
        }
    }
    CHECK(least_wrong == 0);
    CHECK(rooms > 1000);
    CHECK(waiting > 300);
    CHECK(worse * 40 < rooms);
    CHECK(much_worse * 200 < rooms);
}

TEST_CASE("records are fetched during computation if the memory limit allows", "[training][offload_plan]") {
    // Six equal stages of 10 bytes; a fetch takes 1.5 times as long as a backward run.
    chain const c{std::vector<cuota::chain_stage>(6, {1, 9, 0, 0, 10, 20}), 1, 3};
    CHECK(min_offload_bytes(c) == 22);  // two records, two gradients
    chain_cost const tight = simulate(c, offload_plan(c, 22));
    CHECK(tight.peak == 22);
    CHECK(tight.host_peak == 40);
    CHECK(tight.time > tight.compute_time);
    CHECK(schedule_text(offload_plan(c, 22)) ==
          "S0 S1 O0 S2 O1 S3 O2 S4 O3 S5 B5 I3 B4 I2 B3 I1 B2 I0 B1 B0");
    // With memory for two more records, each fetch starts long before its record is needed.
    chain_cost const roomy = simulate(c, offload_plan(c, 42));
    CHECK(roomy.time == roomy.compute_time);
    CHECK(schedule_text(offload_plan(c, 42)) == "S0 S1 O0 S2 O1 S3 S4 S5 B5 I1 B4 I0 B3 B2 B1 B0");
    CHECK(schedule_text(offload_plan(c, 61)) == "S0 S1 S2 S3 S4 S5 B5 B4 B3 B2 B1 B0");
}

TEST_CASE("with links that take no time, an offload plan is as fast as keeping everything",
          "[training][offload_plan]") {
    linked_chains random{33};
    std::size_t slower = 0;
    for (int round = 0; round != 100; ++round) {
        chain c = random.with(random.between(1, 10), 9);
        c.offload_time_per_byte = c.fetch_time_per_byte = 0;
        chain_cost const run = simulate(c, offload_plan(c, min_offload_bytes(c)));
        slower += run.time != run.compute_time;
    }
    CHECK(slower == 0);
}

TEST_CASE("an offload plan is never slower than offloading the first stages, for any number of them",
          "[training][offload_plan]") {
    linked_chains random{34};
    chain const c = random.with(40, 1'000'000);
    std::size_t const all = simulate(c, store_all_plan(c)).peak;
    for (std::size_t room : {min_offload_bytes(c), all / 4, all / 2, all - 1}) {
        chain_cost const run = simulate(c, offload_plan(c, room));
        CHECK(run.peak <= room);
        for (std::size_t n = 1; n != 39; ++n) {
            chain_schedule to;
            for (std::size_t i = 0; i != 40; ++i) {
                to.push_back({chain_op_kind::forward_saving, i});
                if (i != 0 && i - 1 < n) to.push_back({chain_op_kind::offload, i - 1});
            }
            for (std::size_t k = 40; k-- != 0;) {
                if (k != 0 && k - 1 < n && k != 39) to.push_back({chain_op_kind::fetch, k - 1});
                to.push_back({chain_op_kind::backward, k});
            }
            chain_cost const late = simulate(c, to);
            if (late.peak <= room && late.time < run.time) FAIL("the first " << n << " are faster");
        }
    }
}

TEST_CASE("an offload plan refuses a memory limit that is too small, and names the stage",
          "[training][offload_plan]") {
    chain const c{{{1024, 1024}, {1024, 0}, {1024, 1024, 0, 4096}, {0, 1024}, {0, 0}}, 0, 0};
    std::size_t const least = min_offload_bytes(c);
    CHECK(least == 1024 + 2048 + 1024 + 1024 + 4096);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::out_of_memory>([&] { (void)offload_plan(c, least - 1); });
    CHECK(refused.info().requested == least);
    CHECK(!support::has(refused.what(), "ask for"));  // no smaller request would be a plan
    CHECK(refused.info().request.name == cuota::tag{"offload_plan"});
    CHECK(refused.info().request.where.line == line);
    CHECK(refused.info().cause ==
          "the smallest plan with offloading needs 9.0 KiB (stage 2 backward); the limit is 9.0 KiB");
    CHECK_THROWS_AS(offload_plan({}, 1), cuota::usage_error);
    CHECK_THROWS_AS(min_offload_bytes({}), cuota::usage_error);
    CHECK(simulate(c, offload_plan(c, least)).peak == least);
}
