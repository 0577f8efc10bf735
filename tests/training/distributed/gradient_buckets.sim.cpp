// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/gradient_buckets.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/training/distributed/collective_step.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gradient_set.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/rank_threads.hpp"
#include "support/sink.hpp"
#include "support/thread_sums.hpp"

namespace {

using cuota::rank_consensus;
using support::gradient_set;
using support::thread_sums;
using namespace std::chrono_literals;

constexpr auto never = 5min;  // a rank that hangs ends with rank_lost_error
std::vector<std::size_t> const counts{5, 200, 64};

// Sums on the device for a single rank: leaves the memory unchanged.
class own_sums {
public:
    static constexpr bool on_device = true;

    [[nodiscard]] std::size_t ranks() const { return 1; }
    [[nodiscard]] std::size_t scratch(std::size_t) const { return 0; }
    std::uint64_t start(std::span<float>, std::span<float>, std::shared_ptr<void const> const&,
                        cuota::stream_ref) {
        return begun_++;
    }
    [[nodiscard]] bool test(std::uint64_t) const { return true; }
    void check() const {}

private:
    std::uint64_t begun_ = 0;
};

// Creates buckets on all ranks or none, uses them for one step, and destroys them.
template <class Link>
void sum_on(Link link, cuota::any_resource memory, rank_consensus& ranks, gradient_set& gradients) {
    using buckets = cuota::gradient_buckets<Link>;
    auto const sums = cuota::all_or_none(ranks, "buckets", [&] {
        return std::make_unique<buckets>(std::move(link), counts,
                                         cuota::bucket_options{.bytes = 256, .memory = std::move(memory)});
    });
    sums->reduce(ranks, [&] {
        for (std::size_t g = 0; g != counts.size(); ++g) {
            gradients.make(g);
            sums->ready(g, gradients[g]);
        }
    });
}
template <class Link>
std::vector<std::vector<float>> sums_alone(Link link, cuota::any_resource memory) {
    gradient_set gradients{0, counts};
    rank_consensus alone;
    sum_on(std::move(link), std::move(memory), alone, gradients);
    return gradients.values();
}

// Runs three ranks and stores the exception of each.
struct three_ranks {
    std::vector<std::unique_ptr<gradient_set>> gradients{3};
    std::vector<support::ended_rank> ends{};
    std::vector<std::exception_ptr> errors{3};

    three_ranks() {
        auto const board = std::make_shared<support::sum_board>(3);
        ends = support::run_rank_threads(
            3, never, [&](std::size_t r, rank_consensus& mine, support::ended_rank&) {
                try {
                    gradients[r] = std::make_unique<gradient_set>(r, counts);
                    sum_on(thread_sums{board, r, never}, cuota::pinned_memory{}, mine, *gradients[r]);
                } catch (...) { errors[r] = std::current_exception(); }
                support::claim(support::last_error() == cudaSuccess, "CUDA's last error is clean");
                if (errors[r]) std::rethrow_exception(errors[r]);
            });
    }
    void require_sums() const {
        for (std::size_t r = 0; r != 3; ++r) {
            REQUIRE(ends[r].text.empty());
            REQUIRE(gradients[r]->values() == support::sums_of_ranks(3, counts));
        }
    }
    // Returns the rank that failed with an error of its own; 3 if none did.
    [[nodiscard]] std::size_t struck() const {
        auto const is_its_own = [](support::ended_rank const& end) {
            return !end.text.empty() && !support::has(end.text, "rank_lost_error") &&
                   !support::has(end.text, " was refused memory for ");
        };
        return std::size_t(std::ranges::find_if(ends, is_its_own) - ends.begin());
    }
};

}  // namespace

TEST_CASE("when any CUDA call fails, the buckets of a single rank leak nothing",
          "[training][gradient_buckets]") {
    support::machine on;
    auto const right = support::sums_of_ranks(1, counts);
    auto const on_host = support::survives_every_failure(on, [&] {
        thread_sums link{std::make_shared<support::sum_board>(1), 0, never};
        auto const sums = sums_alone(std::move(link), cuota::pinned_memory{});
        REQUIRE(sums == right);
    });
    auto const on_device = support::survives_every_failure(on, [&] {
        auto const sums = sums_alone(own_sums{}, cuota::device_memory{});
        REQUIRE(sums == right);
    });
    CHECK(on_host.thrown > 20);
    CHECK(on_device.thrown > 20);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE(
    "when any CUDA call of one rank fails, the others name it and do not hang, and later sums are right",
    "[training][gradient_buckets]") {
    support::machine on;
    auto const seen = support::survives_every_failure(on, [&] {
        three_ranks const run;
        cuota::simulator::clear_faults();
        std::size_t const who = run.struck();
        if (who == 3) return run.require_sums();
        for (std::size_t r = 0; r != 3; ++r) {
            INFO("rank " << who << ": " << run.ends[who].text << "\nrank " << r << ": " << run.ends[r].text);
            REQUIRE((r == who || support::has(run.ends[r].text, "rank " + std::to_string(who) + ' ')));
        }
        three_ranks{}.require_sums();
        std::rethrow_exception(run.errors[who]);
    });
    CHECK(seen.thrown > 20);
    CHECK(cuota::simulator::misuse().total() == 0);
}
