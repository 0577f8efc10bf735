// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Owners that a program that trains may have when it forks: each ends in the child, by itself and by exit, and refuses requests.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/distributed/gradient_buckets.hpp>
#include <cuota/training/distributed/pipeline.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>
#include <cuota/training/distributed/thread_group.hpp>
#include <cuota/training/precision/master_weights.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
#include <cuota/training/precision/pruned.hpp>
#include <cuota/training/precision/quantized.hpp>
#include <cuota/training/precision/quantized_moments.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/fork_turn.hpp"
#include "support/gradient_set.hpp"
#include "support/machine.hpp"
#include "support/number_chain.hpp"
#include "support/pipeline_numbers.hpp"
#include "support/sanitizer.hpp"
#include "support/thread_sums.hpp"

namespace {

using cuota::chain_op_kind;
using namespace std::chrono_literals;

// How often rank_transport::leave was called, and gather.
std::atomic<int> left = 0;
std::atomic<int> gathered = 0;

cuota::rank_transport counted_link() {
    return {0, 2, [](std::span<std::uint64_t const>, std::span<std::uint64_t>) { ++gathered; },
            [](std::string const&) { ++left; }};
}

// Three stages of which the first goes to the host and back.
cuota::chain_schedule one_stage_away() {
    return {{chain_op_kind::forward_saving, 0}, {chain_op_kind::forward_saving, 1},
            {chain_op_kind::offload, 0},        {chain_op_kind::forward_saving, 2},
            {chain_op_kind::backward, 2},       {chain_op_kind::fetch, 0},
            {chain_op_kind::backward, 1},       {chain_op_kind::backward, 0}};
}

struct owners {
    cuota::budget account{"program", std::size_t{256} << 20};
    cuota::scoped_pool pool{account};
    cuota::stream home{};

    cuota::thread_group group{2, 1h};
    cuota::rank_consensus mine = group.join(0);
    cuota::rank_consensus by_link{counted_link()};
    cuota::rank_consensus alone{};

    support::gradient_set gradients{0, {5, 200}};
    cuota::gradient_buckets<support::thread_sums> sums{
        support::thread_sums{std::make_shared<support::sum_board>(2), 0, 1h}, {5, 200}};
    cuota::device_buffer<float> dense{1000, 1.0F, home, pool};
    cuota::lease<float> borrowed = dense.write(home);
    cuota::device_buffer<float> gradient{1000, 1.0F, home, pool};
    cuota::lease<float const> of_gradient = gradient.read(home);
    cuota::pruned<float> pruned = cuota::pruned<float>::pack(home, of_gradient, 0.5F, pool);
    cuota::quantized<float> quantized{1000, home, pool};
    cuota::quantized_moments<> moments{1000, home, pool};
    cuota::master_weights<cuota::half> weights{1000, home, pool};
    cuota::non_finite_check check{home, pool};

    support::number_chain chain{std::vector<support::number_stage>(3, {400, 300, 100, 100}), 300, home};
    cuota::checkpointed net{chain.stages(), one_stage_away(), home, pool.resource()};
    support::pipeline_case staged{2, 2, 7};
    cuota::pipeline line{staged.net->stages(), staged.first, 2, staged.devices()};

    owners() {
        net.run(chain.input(), 1);
        line.run(staged.net->inputs(), 1);
        quantized.store(home, borrowed);
    }
};

// A rank that waits for the other one, and a thread that is in the lock of their group most of the time.
class traffic {
public:
    explicit traffic(owners& of)
        : waiting_{[&of, this] {
              cuota::rank_consensus other = of.group.join(1);
              ++there_;
              try {
                  (void)other.min(1, "never");
              } catch (cuota::rank_lost_error const&) {}
          }},
          refused_{[&of, this] {
              while (there_ == 0) std::this_thread::yield();
              ++there_;
              while (!stop_) try {
                      support::fork_turn const now;
                      (void)of.group.join(1);
                  } catch (cuota::usage_error const&) {}
          }} {
        while (there_ != 2) std::this_thread::yield();
        for (int i = 0; i != 1'000; ++i) std::this_thread::yield();  // until the rank most likely waits
    }
    traffic(traffic const&) = delete;
    traffic& operator=(traffic const&) = delete;
    ~traffic() {
        stop_ = true;
        waiting_.join();
        refused_.join();
    }

private:
    std::atomic<int> there_ = 0;
    std::atomic<bool> stop_ = false;
    std::thread waiting_;
    std::thread refused_;
};

}  // namespace

TEST_CASE("in a child, each owner of a training step is destroyed without a CUDA call or a report",
          "[training][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on{{.devices = 2}};
    std::optional<owners> all{std::in_place};
    {
        traffic const beside{*all};
        for (int i = 0; i != 5; ++i) {
            int const status = support::status_of_ends_in_child([&] {
                all.reset();
                if (left != 0) ::_exit(4);
            });
            CHECK(status == 0);
        }
        all->mine.leave("the test is over");
    }
    all.reset();
    CHECK(left == 1);
    left = 0;
}

TEST_CASE("in a child, requests to a training step are refused as misuse", "[training][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on{{.devices = 2}};
    std::optional<owners> all{std::in_place};
    std::optional<traffic> beside{std::in_place, *all};
    int const status = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        ask.refuses("thread_group::join", [&] { (void)all->group.join(0); });
        ask.refuses("rank_consensus::min of threads", [&] { (void)all->mine.min(1, "q"); });
        ask.refuses("rank_consensus::all_gather of a link", [&] { (void)all->by_link.all_gather(1, "q"); });
        ask.refuses("rank_consensus::all of one rank", [&] { (void)all->alone.all_of(true, "q"); });
        cuota::rank_consensus moved{std::move(all->by_link)};
        ask.refuses("rank_consensus::all_gather, moved", [&] { (void)moved.all_gather(1, "q"); });
        ask.reports("rank_consensus::leave", [&] { moved.leave("why"); });
        cuota::rank_consensus own;
        ask.expect("a rank_consensus of its own works", own.min(3, "q") == 3);
        moved = std::move(own);
        ask.expect("one that was assigned is its own", moved.min(3, "q") == 3);
        ask.expect("no link was used", left == 0 && gathered == 0);
        bool has_run = false;
        ask.refuses("gradient_buckets::reduce", [&] { all->sums.reduce(moved, [&] { has_run = true; }); });
        ask.expect("no backward run was begun", !has_run);
        ask.refuses("checkpointed::run", [&] { all->net.run(all->chain.input(), 2); });
        ask.refuses("pipeline::run", [&] { all->line.run(all->staged.net->inputs(), 2); });
        ask.refuses("pruned::unpack", [&] { all->pruned.unpack(all->home, all->borrowed); });
        ask.refuses("quantized::store", [&] { all->quantized.store(all->home, all->of_gradient); });
        ask.refuses("quantized_moments::step",
                    [&] { all->moments.step(all->home, all->borrowed, all->of_gradient); });
        ask.refuses("master_weights::write", [&] { (void)all->weights.write(all->home); });
        ask.refuses("master_weights::refresh", [&] { all->weights.refresh(all->home); });
        ask.refuses("non_finite_check::check", [&] { all->check.check(all->home, all->of_gradient); });
        ask.refuses("non_finite_check::found", [&] { (void)all->check.found(all->home); });
    });
    CHECK(status == 0);
    all->mine.leave("the test is over");
    beside.reset();
    all.reset();
    left = 0;
}

TEST_CASE("a child with static owners of a training step exits normally", "[training][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a child with static owners of a training step exits normally")) return;
    cuota::simulator::reset({.devices = 2});
    static owners all;
    int wrong = 0;
    {
        traffic const beside{all};
        for (int i = 0; i != 20; ++i) wrong += support::status_of_child([] { std::exit(left); }) != 0;
        all.mine.leave("the test is over");
    }
    std::exit(wrong == 0 ? 0 : 1);
}

namespace {

// Sums of one rank that are over when the test says so.
struct gated_sums {
    static constexpr bool on_device = false;
    bool const* is_open;

    [[nodiscard]] std::size_t ranks() const { return 1; }
    [[nodiscard]] std::size_t scratch(std::size_t) const { return 0; }
    std::uint64_t start(std::span<float>, std::span<float>, std::shared_ptr<void const> const&,
                        cuota::stream_ref) {
        return begun++;
    }
    [[nodiscard]] bool test(std::uint64_t) const { return *is_open; }
    void check() const {}
    std::uint64_t begun = 0;
};

}  // namespace

TEST_CASE("a child that is forked in a backward run can leave it without waiting for a sum",
          "[training][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    bool is_open = false;
    support::gradient_set gradients{0, {5, 200}};
    cuota::rank_consensus ranks;
    cuota::gradient_buckets<gated_sums> sums{gated_sums{&is_open}, {5, 200}, {.bytes = 100}};
    pid_t child = 0;
    std::string thrown;
    try {
        sums.reduce(ranks, [&] {
            sums.ready(0, gradients[0]);
            child = ::fork();
            if (child == 0) {
                ::alarm(30);
                bool const is_refused = support::is_refused_in_child([&] { sums.ready(1, gradients[1]); });
                throw std::runtime_error{is_refused ? "of the child" : "was not refused"};
            }
            is_open = true;
            sums.ready(1, gradients[1]);
        });
    } catch (std::runtime_error const& error) { thrown = error.what(); }
    if (child == 0) ::_exit(thrown == "of the child" ? 0 : 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(thrown.empty());
}
