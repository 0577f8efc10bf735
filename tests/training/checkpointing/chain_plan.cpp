// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/checkpointing/chain_plan.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::chain;
using cuota::chain_cost;
using cuota::chain_plan;
using cuota::min_chain_bytes;
using cuota::simulate;
using cuota::unlimited;

namespace {

class random_chains {
public:
    explicit random_chains(unsigned seed) : random_{seed} {}

    [[nodiscard]] std::size_t between(std::size_t least, std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{least, most}(random_);
    }
    // Uses integral times, so that sums do not depend on their order.
    [[nodiscard]] chain with(std::size_t stages, std::size_t largest) {
        chain c;
        c.stages.resize(stages);
        std::size_t const scratch = largest * between(0, 6) / 2;  // from none to dominating
        for (cuota::chain_stage& s : c.stages)
            s = {between(0, largest), between(0, 2 * largest), between(0, scratch),
                 between(0, scratch), double(between(0, 6)),   double(between(0, 6))};
        if (between(0, 1) == 0)  // a gradient's size may differ from its output's
            for (cuota::chain_stage& s : c.stages)
                if (between(0, 1) == 0) s.gradient_bytes = between(0, 3 * largest);
        return c;
    }

private:
    std::mt19937 random_;
};

// Enumerates all memory-persistent schedules of a chain of at most five stages, op by op, with their peaks and times. Shares no code with
// the plans or with simulate.
//
// An output that was made without saving may be dropped by the next op if that op reads it. Otherwise it stays, as does every saved record,
// until the backward run that needs it.
class all_schedules {
public:
    struct result {
        std::size_t peak;
        double time;
    };

    explicit all_schedules(chain const& c) : chain_{c} {}

    // Returns the Pareto-optimal results, by increasing time and decreasing peak.
    [[nodiscard]] std::vector<result> best() {
        std::vector<std::size_t> seen(1u << 16, unlimited);
        std::vector<result> found;
        push({}, 0, 0, 0, chain_.stages.size());
        while (!todo_.empty()) {
            auto const [time, peak, code] = todo_.top();
            todo_.pop();
            if (seen[code] <= peak) continue;  // was reached earlier with no more memory
            seen[code] = peak;
            state const s = decoded(code);
            if (s.back == 0) found.push_back({peak, time});
            else go_on(s, peak, time);
        }
        return found;
    }

private:
    using kinds = std::array<unsigned, 5>;  // per record: none, output, saved
    struct state {
        kinds kind{};
        unsigned fresh = 0;  // 1 + the stage whose output the last op made
        unsigned back = 0;   // stages left to run backward
    };
    using entry = std::tuple<double, std::size_t, unsigned>;

    void push(kinds const& kind, std::size_t peak, double time, unsigned fresh, std::size_t back) {
        unsigned code = fresh + (static_cast<unsigned>(back) << 3);
        for (unsigned i = 0; i != 5; ++i) code |= kind[i] << (6 + 2 * i);
        todo_.push({time, peak, code});
    }
    [[nodiscard]] static state decoded(unsigned code) {
        state s;
        s.fresh = code & 7;
        s.back = code >> 3 & 7;
        for (unsigned i = 0; i != 5; ++i) s.kind[i] = code >> (6 + 2 * i) & 3;
        return s;
    }
    [[nodiscard]] std::size_t held(state const& s) const {
        auto const& stages = chain_.stages;
        std::size_t sum = s.back < stages.size() ? stages[s.back - 1].gradient() : 0;
        for (std::size_t i = 0; i != stages.size(); ++i)
            sum +=
                (s.kind[i] != 0 ? stages[i].output_bytes : 0) + (s.kind[i] == 2 ? stages[i].saved_bytes : 0);
        return sum;
    }

    void go_on(state const& s, std::size_t peak, double time) {
        std::size_t const bytes = held(s);
        for (unsigned i = 0; i != s.back; ++i) {
            auto const& stage = chain_.stages[i];
            kinds after = s.kind;
            if (s.kind[i] == 1 && s.back == i + 1) {  // the stage that reads it has run backward
                after[i] = 0;
                push(after, peak, time, 0, s.back);
            }
            if (s.kind[i] != 0 || (i != 0 && s.kind[i - 1] == 0)) continue;
            std::size_t const run = bytes + stage.output_bytes + stage.forward_scratch;
            after[i] = 1;
            push(after, std::max(peak, run), time + stage.forward_time, i + 1, s.back);
            if (i != 0 && s.fresh == i) {
                after[i - 1] = 0;
                push(after, std::max(peak, run), time + stage.forward_time, i + 1, s.back);
                after[i - 1] = s.kind[i - 1];
            }
            after[i] = 2;
            push(after, std::max(peak, run + stage.saved_bytes), time + stage.forward_time, 0, s.back);
        }
        unsigned const i = s.back - 1;
        if (s.kind[i] != 2 || (i != 0 && s.kind[i - 1] == 0)) return;
        auto const& stage = chain_.stages[i];
        kinds after = s.kind;
        after[i] = 0;
        std::size_t const run =
            bytes + stage.backward_scratch + (i == 0 ? 0 : chain_.stages[i - 1].gradient());
        push(after, std::max(peak, run), time + stage.backward_time, 0, i);
    }

    chain const& chain_;
    std::priority_queue<entry, std::vector<entry>, std::greater<>> todo_;
};

[[nodiscard]] std::optional<chain_cost> run_in_room(chain const& c, std::size_t room, std::size_t slots) {
    try {
        return simulate(c, chain_plan(c, room, slots));
    } catch (cuota::out_of_memory const&) { return std::nullopt; }
}

}  // namespace

TEST_CASE("a chain plan is the fastest memory-persistent schedule at every memory limit",
          "[training][chain_plan]") {
    random_chains random{20'260'801};
    std::size_t wrong = 0;
    std::size_t rooms = 0;
    std::size_t with_choices = 0;
    auto const chains = support::rounds<std::size_t>(2000);
    for (std::size_t round = 0; round != chains; ++round) {
        chain const c = random.with(random.between(1, 5), random.between(1, 9));
        std::vector<all_schedules::result> const best = all_schedules{c}.best();
        with_choices += best.size() > 2;
        wrong += min_chain_bytes(c) != best.back().peak;
        for (std::size_t k = 0; k != best.size(); ++k) {
            std::size_t const room = best[k].peak;
            auto const exact = run_in_room(c, room, room + 1);
            wrong += !exact || exact->time != best[k].time || exact->peak > room;
            ++rooms;
            if (room == 0) continue;
            auto const below = run_in_room(c, room - 1, room);
            wrong += k + 1 == best.size()
                         ? below.has_value()
                         : !below || below->time != best[k + 1].time || below->peak > room - 1;
        }
    }
    CHECK(wrong == 0);
    CHECK(rooms > chains);
    CHECK(with_choices > chains / 7);
}

TEST_CASE("a chain plan fits with any number of slots, and is no slower than the plans without a search",
          "[training][chain_plan]") {
    random_chains random{11};
    std::size_t wrong = 0;
    std::size_t beside_sqrt = 0;
    for (int round = 0; round != 400; ++round) {
        chain const c = random.with(random.between(1, 14), std::size_t{1} << random.between(1, 55));
        std::size_t const least = min_chain_bytes(c);
        chain_cost const all = simulate(c, store_all_plan(c));
        chain_cost const segments = simulate(c, sqrt_plan(c));
        std::array<std::size_t, 5> const some_slots{1, 2, 7, 50, 500};
        std::size_t const slots = some_slots[random.between(0, 4)];
        for (std::size_t room : {least, random.between(least, all.peak), segments.peak, all.peak}) {
            auto const run = run_in_room(c, room, slots);
            wrong += !run || run->peak > room;
            if (!run) continue;
            wrong += room >= segments.peak && run->time > segments.time;
            wrong += room >= all.peak && run->time > all.time;
            beside_sqrt += room >= segments.peak && run->time < segments.time;
        }
        wrong += least != 0 && run_in_room(c, least - 1, slots).has_value();
    }
    CHECK(wrong == 0);
    CHECK(beside_sqrt > 300);
}

TEST_CASE("without rounding, a higher memory limit never makes a chain plan slower",
          "[training][chain_plan]") {
    random_chains random{12};
    std::size_t slower = 0;
    std::size_t faster = 0;
    auto const chains = std::max<std::size_t>(10, support::rounds<std::size_t>(100));
    for (std::size_t round = 0; round != chains; ++round) {
        chain const c = random.with(random.between(2, 12), 6);
        std::size_t const all = simulate(c, store_all_plan(c)).peak;
        double before = simulate(c, chain_plan(c, min_chain_bytes(c), unlimited)).time;
        for (std::size_t room = min_chain_bytes(c) + 1; room <= all; ++room) {
            double const now = simulate(c, chain_plan(c, room, unlimited)).time;
            slower += now > before;
            faster += now < before;
            before = now;
        }
    }
    CHECK(slower == 0);
    CHECK(faster > 3 * chains);
}

TEST_CASE("a chain plan with 500 slots is nearly as fast as the exact plan", "[training][chain_plan]") {
    random_chains random{13};
    chain const c = random.with(30, 1000);
    std::size_t const room = simulate(c, store_all_plan(c)).peak / 3;
    double const exact = simulate(c, chain_plan(c, room, unlimited)).time;
    double const fine = simulate(c, chain_plan(c, room, 500)).time;
    CHECK(exact <= fine);
    CHECK(fine <= 1.03 * exact);
}

TEST_CASE("a plan for a hundred stages is faster than segments with the same peak",
          "[training][chain_plan]") {
    random_chains random{14};
    chain const c = random.with(100, 1'000'000);
    chain_cost const segments = simulate(c, sqrt_plan(c));
    chain_cost const run = simulate(c, chain_plan(c, segments.peak));
    CHECK(run.peak <= segments.peak);
    CHECK(run.time < 0.97 * segments.time);
    chain_cost const least = simulate(c, chain_plan(c, min_chain_bytes(c)));
    CHECK(least.peak <= min_chain_bytes(c));
    CHECK(run.time < least.time);
}

TEST_CASE("a chain plan keeps outputs that are expensive to compute and drops cheap ones",
          "[training][chain_plan]") {
    // Rerunning the second stage costs most, rerunning the first least.
    chain const c{{{4, 4, 0, 0, 1, 1}, {4, 4, 0, 0, 50, 1}, {4, 4, 0, 0, 2, 1}, {0, 4, 0, 0, 3, 1}}, 0, 0};
    CHECK(schedule_text(chain_plan(c, 36)) == "S0 S1 S2 S3 B3 B2 B1 B0");
    CHECK(schedule_text(chain_plan(c, 28)) == "F0 S1 S2 S3 B3 B2 B1 D0 S0 B0");
}

TEST_CASE("a memory limit that is too small is refused with the required bytes and the stage",
          "[training][chain_plan]") {
    chain c{{{1024, 0}, {1024, 2048, 0, 4096}, {1024, 0}, {4, 0}}, 0, 0};
    std::size_t const least = min_chain_bytes(c);
    CHECK(least == 1024 + (1024 + 2048) + 1024 + 1024 + 4096);
    CHECK(simulate(c, chain_plan(c, least)).peak == least);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::out_of_memory>([&] { (void)chain_plan(c, least - 1); });
    cuota::refusal const& facts = refused.info();
    CHECK(facts.requested == least);
    CHECK(facts.charged == least);
    CHECK(!support::has(refused.what(), "ask for"));  // no smaller request would be a plan
    CHECK(facts.request.name == cuota::tag{"chain_plan"});
    CHECK(facts.request.where.line == line);
    CHECK(facts.cause ==
          "the smallest plan with recomputation needs 10.0 KiB (stage 1 backward); the limit is 10.0 KiB");
    c.stages[0].forward_scratch = 1'000'000;
    auto const other = support::thrown<cuota::out_of_memory>([&] { (void)chain_plan(c, 0); });
    CHECK(support::has(other.info().cause, "needs 977.6 KiB (stage 0 forward); the limit is 0 B"));
}

TEST_CASE("chain_plan refuses a chain without stages, no slots and too many slots",
          "[training][chain_plan]") {
    chain const c{{{1, 9}, {1, 9}, {1, 9}}, 0, 0};
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)chain_plan(c, 20, 0); });
    CHECK(refused.where().line == line);
    CHECK_THROWS_AS(chain_plan({}, 20), cuota::usage_error);
    CHECK_THROWS_AS(min_chain_bytes({}), cuota::usage_error);
    std::size_t const big = unlimited / 40;
    chain const huge{{{big, 4 * big}, {big, 4 * big}, {big, 4 * big}}, 0, 0};
    auto const too_many =
        support::thrown<cuota::usage_error>([&] { (void)chain_plan(huge, 13 * big, unlimited); });
    CHECK(support::has(too_many.what(), "slots exceeds the supported size"));
    CHECK(simulate(huge, chain_plan(huge, 13 * big)).peak <= 13 * big);
}

TEST_CASE("a chain that uses no memory fits a limit of 0", "[training][chain_plan]") {
    chain const c{{{}, {}, {}}, 0, 0};
    CHECK(min_chain_bytes(c) == 0);
    CHECK(schedule_text(chain_plan(c, 0)) == "S0 S1 S2 B2 B1 B0");
}

TEST_CASE("a recomputation holds the input and output of each stage beside the next gradient",
          "[training][chain_plan]") {
    chain c;
    c.stages.resize(4);
    c.stages[0].output_bytes = c.stages[1].output_bytes = 100;
    c.stages[2].output_bytes = 1;
    c.stages[0].gradient_bytes = c.stages[1].gradient_bytes = 0;
    c.stages[2].gradient_bytes = 1000;
    c.stages[3].backward_scratch = 150;  // so large that stage 1's output cannot be kept

    // Stages 0 and 1 run again, before B2, while 1000 bytes of gradient wait.
    CHECK(cuota::min_chain_bytes(c) == 1200);
    CHECK(simulate(c, cuota::chain_plan(c, 1200)).peak == 1200);
    CHECK_THROWS_AS(cuota::chain_plan(c, 1199), cuota::out_of_memory);
}
