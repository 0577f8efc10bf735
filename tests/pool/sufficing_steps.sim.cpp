// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random programs up to their first refusal. Each next step that is marked as sufficient is followed alone in a repetition of the program,
// and the request is repeated: it must be served.
#include <cuota/core/suggestions.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/refusal_text.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"

using namespace cuota::literals;

namespace {

constexpr cuota::tag names[] = {"weights", "moments", "activations", "scratch", "cache"};

// Two budgets, two pools, memory that is charged outside the pools, and buffers with five tags.
class program {
public:
    explicit program(unsigned seed)
        : random_{seed},
          outer_{"outer", between(4_MiB, 40_MiB)},
          inner_{"inner", between(4_MiB, 40_MiB), outer_},
          others_{random_() % 3 == 0 ? between(0, 60_MiB) : 0} {
        cuota::simulator::set_other_programs(0, others_);
        for (cuota::budget const& b : {outer_, inner_}) {
            cuota::pool_options how;
            if (random_() % 3 == 0) how.growth = cuota::pool_growth::segments;
            pools_.emplace_back(b, how);
        }
        charged_ = between(0, 1_MiB);
        if (!outer_.try_charge(charged_)) charged_ = 0;
    }
    program(program const&) = delete;
    program& operator=(program const&) = delete;
    ~program() {
        for (block& b : live_) pools_[b.pool].deallocate(stream_, b.at, b.bytes);
        outer_.refund(charged_);
        stream_.synchronize();
    }

    // Runs until the first refusal and returns it, or nothing if all requests are served.
    [[nodiscard]] std::optional<cuota::refusal> run() {
        for (int i = 0; i != 400; ++i) {
            if (!live_.empty() && random_() % 3 == 0) {
                std::size_t const at = random_() % live_.size();
                release(at);
                continue;
            }
            wanted_ = {nullptr, size(), random_() % pools_.size(), random_() % std::size(names)};
            try {
                take();
            } catch (cuota::out_of_memory const& refused) { return refused.info(); }
        }
        return std::nullopt;
    }

    // Follows the step and returns true if the request is served afterwards.
    [[nodiscard]] bool is_served_after(cuota::suggestion const& step) {
        switch (step.kind) {
            case cuota::suggestion_kind::retry: break;
            case cuota::suggestion_kind::request_less: wanted_.bytes = step.bytes; break;
            case cuota::suggestion_kind::free_memory:
                for (cuota::allocation_group const& h : step.holders) release_all(h);
                break;
            case cuota::suggestion_kind::raise_limit:
                for (cuota::raised_limit const& l : step.limits)
                    (l.budget == "outer" ? outer_ : inner_).set_limit(l.limit);
                break;
            case cuota::suggestion_kind::free_device_memory:
                // More than other programs hold: it cannot be followed.
                if (step.bytes > others_) return true;
                cuota::simulator::set_other_programs(0, others_ - step.bytes);
                break;
        }
        try {
            take();
            return true;
        } catch (cuota::out_of_memory const&) { return false; }
    }

private:
    struct block {
        void* at;
        std::size_t bytes;
        std::size_t pool;
        std::size_t name;
    };

    [[nodiscard]] std::size_t between(std::size_t least, std::size_t most) {
        return least + random_() % (most - least + 1);
    }
    [[nodiscard]] std::size_t size() {
        switch (random_() % 4) {
            case 0: return between(1, 4'000);
            case 1: return between(1, 300'000);
            case 2: return between(1, 3'000'000);
            default: return between(500'000, 9'000'000);
        }
    }
    void take() {
        block taken = wanted_;
        cuota::source_location const where{"program.cpp", static_cast<unsigned>(taken.name + 1)};
        taken.at = pools_[taken.pool].allocate(stream_, taken.bytes, 256, names[taken.name], where);
        live_.push_back(taken);
    }
    void release(std::size_t at) {
        block const gone = live_[at];
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
        pools_[gone.pool].deallocate(stream_, gone.at, gone.bytes);
    }
    void release_all(cuota::allocation_group const& h) {
        if (h.name == cuota::tag{"charged without a tag"}) outer_.refund(std::exchange(charged_, 0));
        for (std::size_t i = live_.size(); i-- != 0;)
            if (h.name == names[live_[i].name]) release(i);
    }

    std::mt19937 random_;
    cuota::stream stream_;
    cuota::budget outer_, inner_;
    std::size_t others_ = 0;
    std::deque<cuota::scoped_pool> pools_;
    std::vector<block> live_;
    std::size_t charged_ = 0;
    block wanted_{};
};

struct tally {
    std::size_t followed = 0;
    std::size_t in_vain = 0;
};

}  // namespace

TEST_CASE("after following one suggestion that is marked as sufficient, the request fits",
          "[pool][sufficing_steps]") {
    char const* const requested = std::getenv("CUOTA_SUFFICING");
    unsigned const programs = requested ? static_cast<unsigned>(std::strtoul(requested, nullptr, 10))
                                        : std::max(25u, support::rounds(100u));
    tally of[5];
    std::size_t refusals = 0;
    std::string wrong;
    for (unsigned seed = 0; seed != programs; ++seed) {
        support::machine const sim{{1, 80_MiB}};
        // A program follows a step of its own refusal: another one's may differ, for blocks of one size are chosen by their addresses.
        for (std::size_t i = 0;; ++i) {
            program one{seed};
            std::optional<cuota::refusal> const refused = one.run();
            if (!refused) break;
            refusals += i == 0;
            std::vector<cuota::suggestion> const steps = cuota::suggestions(*refused);
            if (i >= steps.size()) break;
            if (!steps[i].suffices) continue;
            tally& t = of[static_cast<std::size_t>(steps[i].kind)];
            ++t.followed;
            if (one.is_served_after(steps[i])) continue;
            ++t.in_vain;
            if (wrong.size() < 4'000)
                wrong += "seed " + std::to_string(seed) + ": " + steps[i].text + "\n" +
                         cuota::refusal_text("refused", *refused) + '\n';
        }
    }
    INFO(wrong);
    for (std::size_t kind = 0; kind != std::size(of); ++kind) {
        INFO(name_of(static_cast<cuota::suggestion_kind>(kind))
             << " was followed " << of[kind].followed << " times");
        CHECK(of[kind].in_vain == 0);
    }
    CHECK(refusals > programs / 2);
    using enum cuota::suggestion_kind;
    for (cuota::suggestion_kind const kind : {request_less, free_memory, raise_limit})
        CHECK(of[static_cast<std::size_t>(kind)].followed > programs / 10);
}
