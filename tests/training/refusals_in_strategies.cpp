// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Strategies that train in less memory, with each of their allocations refused in turn: nothing is left allocated, and the next smaller
// attempt has the gradients of the whole batch, bit for bit.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/batches/with_retry.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"

using cuota::chain;
using cuota::chain_schedule;
using cuota::micro_batch;

namespace {

using refused_word = std::uint32_t;

/// Budgeted device memory that refuses the allocation with a given number, counted from 1. Copies share the count.
class refusing_memory {
public:
    explicit refusing_memory(cuota::budget const& account) : inside_{account} {}

    [[nodiscard]] void* allocate(cuota::stream_ref s, std::size_t bytes, std::size_t alignment = 256,
                                 cuota::label const& who = {}) {
        refuse_if_it_is_time(bytes, who);
        return inside_.allocate(s, bytes, alignment, who);
    }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes, std::size_t alignment = 256) noexcept {
        inside_.deallocate(s, p, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = 256,
                                      cuota::label const& who = {}) {
        refuse_if_it_is_time(bytes, who);
        return inside_.allocate_sync(bytes, alignment, who);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = 256) noexcept {
        inside_.deallocate_sync(p, bytes, alignment);
    }
    [[nodiscard]] static constexpr std::size_t granularity() noexcept {
        return cuota::device_memory::granularity();
    }
    [[nodiscard]] static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    friend bool operator==(refusing_memory const& a, refusing_memory const& b) noexcept {
        return a.books_ == b.books_;
    }

    void refuse(std::size_t number) const { *books_ = {number, 0, false}; }
    [[nodiscard]] bool has_refused() const { return books_->has_refused; }

private:
    struct books {
        std::size_t refused = 0;
        std::size_t made = 0;
        bool has_refused = false;
    };
    void refuse_if_it_is_time(std::size_t bytes, cuota::label const& who) const {
        if (++books_->made != books_->refused) return;
        books_->has_refused = true;
        cuota::refusal r;
        r.requested = r.charged = bytes;
        r.request = who;
        throw cuota::out_of_memory{std::move(r)};
    }

    cuota::budgeted<cuota::device_memory> inside_;
    std::shared_ptr<books> books_ = std::make_shared<books>();
};
static_assert(cuota::labeled_resource<refusing_memory>);

constexpr std::size_t features = 50;
constexpr std::size_t refused_batch = 12;
constexpr std::size_t refused_stages = 7;

struct sample_forward {
    cuota::device_span<refused_word const> in;
    cuota::device_span<refused_word> out, saved;
    refused_word weight;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        out[i] = in[i] * weight + (in[i] >> 3);
        if (saved.size() != 0) saved[i] = in[i] ^ weight;
    }
};
struct sample_backward {
    cuota::device_span<refused_word const> in, result, saved, gradient;
    cuota::device_span<refused_word> next, sums;
    std::size_t stage;
    refused_word weight;
    CUOTA_KERNEL void operator()(std::size_t) const {
        refused_word sum = 0;
        for (std::size_t i = 0; i != in.size(); ++i) {
            refused_word const g = gradient.size() == 0 ? result[i] * 3 : gradient[i];
            sum += g * in[i] + saved[i];
            if (next.size() != 0) next[i] = g * weight + result[i];
        }
        sums[stage] += sum;
    }
};

/// Stages over independent samples: for any division of a batch, the gradients have the same sum.
class sample_net {
public:
    explicit sample_net(cuota::stream_ref s)
        : stream_{s},
          samples_{refused_batch * features, s, cuota::device_memory{}},
          sums_{refused_stages, s, cuota::device_memory{}} {
        std::vector<refused_word> numbers(samples_.size());
        for (std::size_t i = 0; i != numbers.size(); ++i)
            numbers[i] = static_cast<refused_word>(i * 2654435761u) ^ 77u;
        samples_.copy_from(numbers, s);
    }

    [[nodiscard]] std::vector<cuota::checkpoint_stage> stages(std::size_t count) {
        std::vector<cuota::checkpoint_stage> all(refused_stages);
        for (std::size_t i = 0; i != all.size(); ++i) {
            auto const weight = static_cast<refused_word>(2 * i + 3);
            std::size_t const words = count * features;
            all[i].name = "stage of samples";
            all[i].output_bytes = all[i].saved_bytes = words * sizeof(refused_word);
            all[i].forward_scratch = all[i].backward_scratch = i % 2 == 0 ? 700 : 0;
            all[i].forward = [=](cuota::stage_context const& run) {
                cuota::for_each_index(run.stream(), words,
                                      sample_forward{run.input<refused_word>(), run.output<refused_word>(),
                                                     run.saved<refused_word>(), weight});
            };
            all[i].backward = [=, this](cuota::stage_context const& run) {
                cuota::for_each_index(run.stream(), 1,
                                      sample_backward{run.input<refused_word>(), run.result<refused_word>(),
                                                      run.saved<refused_word>(),
                                                      run.output_gradient<refused_word>(),
                                                      run.input_gradient<refused_word>(),
                                                      sums_.write(run.stream()), run.stage(), weight});
            };
        }
        return all;
    }
    void run(micro_batch part, std::function<chain_schedule(chain const&)> const& plan,
             cuota::any_resource const& memory) {
        auto all = stages(part.count);
        chain_schedule const schedule = plan(cuota::chain_of(all, memory.granularity()));
        cuota::checkpointed net{std::move(all), schedule, stream_, memory};
        auto const in = samples_.read(stream_);
        net.run(in.span().subspan(part.first * features, part.count * features), 1);
    }
    void clear() { sums_.copy_from(std::vector<refused_word>(refused_stages), stream_); }
    [[nodiscard]] std::vector<refused_word> sums() const { return sums_.to_vector(stream_); }

private:
    cuota::stream_ref stream_;
    cuota::device_buffer<refused_word> samples_;
    cuota::device_buffer<refused_word> sums_;
};

struct strategy {
    char const* name;
    std::size_t part;
    chain_schedule (*plan)(chain const&);
};
[[nodiscard]] std::size_t room_between(chain const& c, std::size_t parts_of_four) {
    std::size_t const least = cuota::min_chain_bytes(c);
    std::size_t const most = simulate(c, cuota::store_all_plan(c)).peak;
    return least + (most - least) * parts_of_four / 4;
}
/// Drops records where possible, and offloads the rest of the first stage while others run.
[[nodiscard]] chain_schedule recompute_and_offload(chain const& c) {
    using cuota::chain_op_kind;
    chain_schedule plan{{chain_op_kind::forward, 0},
                        {chain_op_kind::forward, 1},
                        {chain_op_kind::drop, 0},
                        {chain_op_kind::forward_saving, 2},
                        {chain_op_kind::offload, 1}};
    for (std::size_t i = 3; i != c.stages.size(); ++i) plan.push_back({chain_op_kind::forward_saving, i});
    for (std::size_t i = c.stages.size(); i-- != 3;) plan.push_back({chain_op_kind::backward, i});
    for (cuota::chain_op const op : chain_schedule{{chain_op_kind::fetch, 1},
                                                   {chain_op_kind::backward, 2},
                                                   {chain_op_kind::drop, 1},
                                                   {chain_op_kind::forward_saving, 0},
                                                   {chain_op_kind::forward_saving, 1},
                                                   {chain_op_kind::backward, 1},
                                                   {chain_op_kind::backward, 0}})
        plan.push_back(op);
    return plan;
}
constexpr strategy strategies[] = {
    {"naive", refused_batch, [](chain const& c) { return cuota::store_all_plan(c); }},
    {"micro", 5, [](chain const& c) { return cuota::store_all_plan(c); }},
    {"sqrt", refused_batch, [](chain const& c) { return cuota::sqrt_plan(c); }},
    {"checkpoint", refused_batch, [](chain const& c) { return cuota::chain_plan(c, room_between(c, 0)); }},
    {"offload", refused_batch, [](chain const& c) { return cuota::offload_plan(c, room_between(c, 3)); }},
    {"both", refused_batch, [](chain const& c) { return recompute_and_offload(c); }},
    {"micro and checkpoint", 4, [](chain const& c) { return cuota::chain_plan(c, room_between(c, 1)); }},
};

}  // namespace

TEST_CASE("a step that is refused anywhere holds nothing, and smaller parts have equal gradients",
          "[training][refusals][gpu]") {
    cuota::stream const stream;
    sample_net net{stream};
    net.clear();
    net.run(
        {0, refused_batch, refused_batch}, [](chain const& c) { return cuota::store_all_plan(c); },
        cuota::device_memory{});
    auto const right = net.sums();

    for (strategy const& how : strategies) {
        cuota::budget const account{"device", cuota::unlimited};
        refusing_memory const memory{account};
        std::size_t number = 1;
        for (;; number += number < 20 ? 1 : support::divisor()) {
            INFO(how.name << ", allocation " << number);
            memory.refuse(number);
            cuota::retry_result const went =
                cuota::with_retry(refused_batch, [&](micro_batch part) { net.run(part, how.plan, memory); },
                                  {.largest = how.part, .on_start = [&] { net.clear(); }, .budget = account});
            CHECK(went.refusals == (memory.has_refused() ? 1u : 0u));
            CHECK(account.info().held == 0);
            CHECK(net.sums() == right);
            if (!memory.has_refused()) break;
        }
        CHECK(number > 2 * refused_stages);
    }
}

TEST_CASE("a refusal is thrown if no smaller part is possible, and the same step fits afterwards",
          "[training][refusals][gpu]") {
    cuota::stream const stream;
    sample_net net{stream};
    for (strategy const& how : strategies) {
        cuota::budget const account{"device", cuota::unlimited};
        refusing_memory const memory{account};
        std::vector<refused_word> right;
        for (std::size_t number = 0;; number += number < 20 ? 1 : support::divisor()) {
            INFO(how.name << ", allocation " << number);
            memory.refuse(number);
            auto const run = [&] {
                return cuota::with_retry(refused_batch,
                                         [&](micro_batch part) { net.run(part, how.plan, memory); },
                                         {.largest = how.part,
                                          .smallest = how.part,
                                          .on_start = [&] { net.clear(); },
                                          .budget = account});
            };
            if (number == 0) {
                CHECK(run().refusals == 0);
                right = net.sums();
                continue;
            }
            try {
                (void)run();
            } catch (cuota::out_of_memory const&) {}
            CHECK(account.info().held == 0);
            if (!memory.has_refused()) break;
            CHECK(run().refusals == 0);
            CHECK(net.sums() == right);
        }
    }
}
