// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests that need the simulator: bytes that pass from one stream to another are waited for, and a wait that fails changes nothing.
#include <cuota/pool/detail/steps/planned_slab.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <cuota/pool/detail/steps/step_recorder.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/step_program.hpp"

using cuota::detail::plan_answer;
using cuota::detail::planned_slab;

namespace simulator = cuota::simulator;

namespace {

/// Requests memory from a slab on several streams, fills it, and checks it before freeing it.
class walker {
public:
    walker(std::vector<support::step_action> const& actions, std::size_t streams)
        : actions_{actions}, streams_(streams), step_{recorded(actions)} {
        at_ = memory_.allocate_sync(step_.peak + 256, 256, {});
        wrong_ = reinterpret_cast<support::word*>(static_cast<std::byte*>(at_) + step_.peak);
        cuota::rt::fill_bytes(wrong_, 0, 4, streams_[0]);
        for (std::size_t i = 1; i != streams; ++i) streams_[i].wait(cuota::event{streams_[0]});
        slab_.emplace(step_, at_);
    }
    walker(walker const&) = delete;
    walker& operator=(walker const&) = delete;
    ~walker() {
        for (cuota::stream const& s : streams_) s.synchronize();
        memory_.deallocate_sync(at_, step_.peak + 256, 256);
    }

    /// Runs a step. With a probability of deviating / 1000 each, a request is left out or has another size, and a release is made in the
    /// next step or on another stream.
    void run_step(std::mt19937_64& random, unsigned deviating) {
        auto const deviates = [&] { return random() % 1000 < deviating; };
        slab_->begin_step();
        for (auto late = std::exchange(late_, {}); auto const& [p, b] : late) give(p, b, b.stream);
        std::vector<void*> taken;
        for (support::step_action const& a : actions_) {
            if (a.takes) {
                taken.push_back(deviates() ? nullptr : take(a.number + (deviates() ? 512 : 0), a.stream));
            } else if (auto const found = live_.find(taken[a.number]); found != live_.end()) {
                auto const [p, b] = *found;
                live_.erase(found);
                if (deviates()) late_[p] = b;
                else give(p, b, deviates() ? random() % streams_.size() : b.stream);
            }
        }
        slab_->end_step();
    }
    [[nodiscard]] bool is_wrong() {
        for (cuota::stream const& s : streams_) s.synchronize();
        return support::words(streams_[0], wrong_, 4)[0] != 0;
    }

    std::map<plan_answer, std::size_t> answers{};
    [[nodiscard]] std::size_t waits() const { return order_.waits(); }

private:
    struct block {
        std::size_t bytes;
        std::size_t stream;
        unsigned char value;
    };

    [[nodiscard]] static cuota::planned_step recorded(std::vector<support::step_action> const& actions) {
        cuota::detail::step_recorder recorder;
        std::vector<char> names(actions.size());
        std::size_t takes = 0;
        for (support::step_action const& a : actions) {
            if (a.takes) recorder.note_taken(&names[takes++], a.number, {});
            else recorder.note_given(&names[a.number]);
        }
        cuota::planned_step step = recorder.end();
        cuota::detail::place_requests(step, {});
        return step;
    }
    void* take(std::size_t bytes, std::size_t stream) {
        cuota::stream const& s = streams_[stream];
        auto const found = slab_->try_take(order_, s, order_.index_of(s), bytes, {});
        ++answers[found.answer];
        if (!found.at) return nullptr;
        shadow_.add(found.at, bytes);
        block const b{bytes, stream, ++salt_};
        cuota::rt::fill_bytes(found.at, b.value, bytes, s);
        live_[found.at] = b;
        return found.at;
    }
    void give(void* p, block const& b, std::size_t stream) {
        cuota::stream const& s = streams_[stream];
        if (stream != b.stream) s.wait(cuota::event{streams_[b.stream]});
        cuota::for_each_index(
            s, b.bytes / 4,
            support::check_word{static_cast<support::word const*>(p), b.value * 0x0101'0101U, wrong_},
            "check_word");
        shadow_.remove(p);
        std::uint32_t const stream_index = order_.index_of(s);
        slab_->expect(stream_index);
        slab_->give_back(slab_->find_live(p, b.bytes), order_.release_on(stream_index));
    }

    std::vector<support::step_action> const& actions_;
    std::vector<cuota::stream> streams_;
    cuota::planned_step step_;
    cuota::device_memory memory_{};
    void* at_ = nullptr;
    support::word* wrong_ = nullptr;
    cuota::detail::stream_order order_;
    std::optional<planned_slab> slab_;
    support::live_bytes shadow_;
    std::map<void*, block> live_, late_;
    unsigned char salt_ = 0;
};

}  // namespace

TEST_CASE("planned_slab: steps on several streams never share bytes, also when they deviate from the plan",
          "[pool][planned_slab]") {
    std::size_t const streams = GENERATE(1U, 2U, 3U, 4U);
    unsigned const deviating = GENERATE(0U, 20U, 200U);
    support::machine const machine;
    simulator::set_schedule(simulator::schedule::late, streams);
    std::mt19937_64 random{streams};
    std::map<plan_answer, std::size_t> all;
    std::size_t waits = 0;
    for (int round = 0; round != 4; ++round) {
        auto const actions = support::random_step(random, 25, streams);
        walker program{actions, streams};
        for (int i = 0; i != 20; ++i) program.run_step(random, i % 4 == 3 ? 0 : deviating);
        CHECK_FALSE(program.is_wrong());
        for (auto const& [answer, count] : program.answers) all[answer] += count;
        waits += program.waits();
    }
    CHECK(simulator::misuse().races == 0);
    CHECK((waits == 0) == (streams == 1));
    if (deviating == 0) {
        CHECK(all == std::map<plan_answer, std::size_t>{{plan_answer::served, 4 * 20 * 25}});
    } else {
        CHECK(all[plan_answer::served] > 4 * 20 * 10);
        CHECK(all[plan_answer::missed_size] > 0);
        CHECK(all[plan_answer::missed_busy] > 0);
    }
}

TEST_CASE("planned_slab: a wait that fails changes nothing", "[pool][planned_slab]") {
    support::machine const machine;
    cuota::stream const a;
    cuota::stream const b;
    cuota::detail::stream_order order;
    cuota::planned_step step{{{{0, 1, 1000}}, {{2, 3, 2000}}}};
    cuota::detail::place_requests(step, {});
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);
    planned_slab slab{step, base};
    std::uint32_t const of_a = order.index_of(a);
    std::uint32_t const of_b = order.index_of(b);
    slab.expect(of_a);
    slab.expect(of_b);
    bool const is_planned = GENERATE(true, false);  // otherwise it waits for all earlier work
    support::gate const gate{a};
    slab.begin_step();
    CHECK(slab.try_take(order, a, of_a, 1000, {}).at == base);
    slab.give_back(slab.find_live(base, 1000), order.release_on(of_a));
    if (!is_planned) {
        slab.end_step();
        slab.begin_step();
    }
    std::size_t const skipped = slab.skipped();
    std::size_t failed = 0;
    for (char const* const call : {"cudaStreamGetCaptureInfo", "cudaEventCreateWithFlags", "cudaEventRecord",
                                   "cudaStreamWaitEvent", static_cast<char const*>(nullptr)}) {
        if (call) simulator::fail_call(call, 1, cudaErrorUnknown);
        try {
            auto const found = slab.try_take(order, b, of_b, 2000, {});
            simulator::clear_faults();
            CHECK(found.at == base);
            break;
        } catch (cuota::cuda_error const&) { ++failed; }
        simulator::clear_faults();
        CHECK(slab.live() == 0);
        CHECK(slab.skipped() == skipped);
        CHECK(order.waits() == 0);
    }
    CHECK(failed == 4);
    CHECK(order.waits() == 1);
    CHECK(slab.live() == 1);
}
