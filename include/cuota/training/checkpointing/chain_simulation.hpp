// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Simulation of a schedule of a chain.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>

namespace cuota::inline v0 {

/// Memory and time of a schedule. Units: bytes; times in the chain's unit.
struct chain_cost {
    std::size_t peak = 0;             ///< largest total on the device
    std::size_t peak_op = 0;          ///< first op that reaches it
    std::size_t host_peak = 0;        ///< largest total on the host
    std::size_t offloaded_bytes = 0;  ///< copied to the host, and back
    double time = 0;                  ///< until the last op has finished
    double compute_time = 0;          ///< of all runs
    std::size_t forward_runs = 0;     ///< saving or not
    std::size_t recomputed = 0;       ///< beyond the first run of each stage
    double recomputed_time = 0;       ///< time of these
};

/// Returns "S0", for example: F forward, S saving forward, B backward, D drop, O offload, I fetch.
[[nodiscard]] std::string op_text(chain_op op);

/// Returns "F0 S1 B1", for example.
[[nodiscard]] std::string schedule_text(chain_schedule const& schedule);

namespace detail {

class chain_simulator {
public:
    chain_simulator(chain const& c, source_location where);

    void run(chain_op op, std::size_t number);

    [[nodiscard]] chain_cost finish();

private:
    enum class at { nowhere, device, host };
    struct state {
        at lies = at::nowhere;
        bool is_saving = false;
        bool was_forward = false;
        std::size_t bytes = 0;  // of the record
        double ready = 0;       // when the record has arrived
    };

    [[noreturn]] void refuse(std::string const& why) const;
    [[nodiscard]] static std::string lies_text(state const& s);
    // Refuses the op unless the stage's record is on the device.
    state& on_device(std::size_t stage);

    void allocate(std::size_t bytes);
    void remove_from_device(state& s);
    // Adds `time` to the compute timeline, at `needed_at` or later.
    void compute(double needed_at, double time);

    void forward(bool saving);

    void backward();
    [[nodiscard]] std::size_t gradient_of_input(std::size_t i) const;

    void drop() { remove_from_device(on_device(op_.stage)); }

    void offload();

    void fetch();

    chain const& chain_;
    source_location where_;
    std::vector<state> states_;
    std::size_t to_go_ = 0;  // stages [0, to_go_) have not yet run backward
    std::size_t held_ = 0;
    std::size_t host_held_ = 0;
    double last_start_ = 0;  // of the last op on the compute timeline
    double compute_free_ = 0;
    double to_host_free_ = 0;
    double from_host_free_ = 0;
    chain_op op_{};
    std::size_t number_ = 0;
    chain_cost found_{};
};

}  // namespace detail

/// Checks the rules of a schedule and returns its memory and time.
///
/// Memory:  forward allocates its output, its scratch and, if saving, the saved bytes; backward its scratch and its input's gradient, and
///          afterwards frees the record and its output's gradient. Scratch is freed after each run. Offloaded records do not count until
///          their fetch.
/// Time:    three timelines: compute, copies to the host, copies back. An op waits for its timeline and its inputs; a fetch also for the
///          start of all preceding runs.
/// Throws:  usage_error for an invalid chain (chain::check) and for a broken rule. Forward: the previous record is on the device, and the
///          stage has none. Backward: each stage once, from the last to the first; its own saving record and the previous one are on the
///          device. Drop, offload: the record is on the device. Fetch: it is on the host. After the last op nothing is held.
/// Cost:    linear in stages and ops.
/// Threads: any.
/// Example: examples/deep_plan.hpp
[[nodiscard]] chain_cost simulate(chain const& c, chain_schedule const& schedule,
                                  source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE std::string op_text(chain_op op) {
    char const* const letters = "FSBDOI";
    return letters[static_cast<std::size_t>(op.kind)] + std::to_string(op.stage);
}

CUOTA_INLINE std::string schedule_text(chain_schedule const& schedule) {
    std::string text;
    for (chain_op const op : schedule) {
        if (!text.empty()) text += ' ';
        text += op_text(op);
    }
    return text;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE chain_simulator::chain_simulator(chain const& c, source_location where)
    : chain_{c}, where_{where} {
    c.check(where);
    states_.resize(c.stages.size());
    to_go_ = c.stages.size();
}

CUOTA_INLINE void chain_simulator::run(chain_op op, std::size_t number) {
    op_ = op;
    number_ = number;
    if (op.stage >= states_.size())
        refuse("the stage is out of range: the chain has " + count_text(states_.size()) + " stages");
    switch (op.kind) {
        case chain_op_kind::forward: return forward(false);
        case chain_op_kind::forward_saving: return forward(true);
        case chain_op_kind::backward: return backward();
        case chain_op_kind::drop: return drop();
        case chain_op_kind::offload: return offload();
        case chain_op_kind::fetch: return fetch();
    }
}

CUOTA_INLINE chain_cost chain_simulator::finish() {
    if (to_go_ != 0)
        throw_usage_error(where_, "incomplete schedule: {} was not run backward", {stage_text(to_go_ - 1)});
    for (std::size_t i = 0; i != states_.size(); ++i)
        if (states_[i].lies != at::nowhere)
            throw_usage_error(where_, "incomplete schedule: the record of {} is still{}",
                              {stage_text(i), lies_text(states_[i])});
    found_.time = std::max({compute_free_, to_host_free_, from_host_free_});
    found_.recomputed = found_.forward_runs - states_.size();
    return found_;
}

CUOTA_INLINE void chain_simulator::refuse(std::string const& why) const {
    throw_usage_error(where_, "schedule op {}, {}: {}", {as_count(number_), op_text(op_), why});
}

CUOTA_INLINE std::string chain_simulator::lies_text(state const& s) {
    return s.lies == at::nowhere ? " not stored" : s.lies == at::host ? " on the host" : " on the device";
}

CUOTA_INLINE auto chain_simulator::on_device(std::size_t stage) -> state& {
    if (states_[stage].lies != at::device)
        refuse("the record of " + stage_text(stage) + " must be on the device, but is" +
               lies_text(states_[stage]));
    return states_[stage];
}

CUOTA_INLINE void chain_simulator::allocate(std::size_t bytes) {
    held_ += bytes;
    if (held_ <= found_.peak) return;
    found_.peak = held_;
    found_.peak_op = number_;
}

CUOTA_INLINE void chain_simulator::remove_from_device(state& s) {
    held_ -= s.bytes;
    s.lies = at::nowhere;
}

CUOTA_INLINE void chain_simulator::compute(double needed_at, double time) {
    last_start_ = std::max(compute_free_, needed_at);
    compute_free_ = last_start_ + time;
    found_.compute_time += time;
}

CUOTA_INLINE void chain_simulator::forward(bool saving) {
    std::size_t const i = op_.stage;
    chain_stage const& stage = chain_.stages[i];
    state& s = states_[i];
    if (s.lies != at::nowhere) refuse("the record is already" + lies_text(s));
    double const needed_at = i == 0 ? 0 : on_device(i - 1).ready;
    s.bytes = stage.output_bytes + (saving ? stage.saved_bytes : 0);
    allocate(s.bytes + stage.forward_scratch);
    held_ -= stage.forward_scratch;
    compute(needed_at, stage.forward_time);
    ++found_.forward_runs;
    if (s.was_forward) found_.recomputed_time += stage.forward_time;
    s.lies = at::device;
    s.is_saving = saving;
    s.was_forward = true;
    s.ready = compute_free_;
}

CUOTA_INLINE void chain_simulator::backward() {
    std::size_t const i = op_.stage;
    chain_stage const& stage = chain_.stages[i];
    if (i + 1 != to_go_)
        refuse(to_go_ == 0 ? "all stages have already been run backward"
                           : "the next stage to run backward is " + stage_text(to_go_ - 1));
    state& s = on_device(i);
    if (!s.is_saving) refuse("the forward run did not save for it");
    double needed_at = s.ready;
    if (i != 0) needed_at = std::max(needed_at, on_device(i - 1).ready);
    allocate(stage.backward_scratch + gradient_of_input(i));
    held_ -= stage.backward_scratch;
    if (to_go_ != states_.size()) held_ -= stage.gradient();  // computed by the next stage
    remove_from_device(s);
    compute(needed_at, stage.backward_time);
    to_go_ = i;
}

CUOTA_INLINE std::size_t chain_simulator::gradient_of_input(std::size_t i) const {
    return i == 0 ? 0 : chain_.stages[i - 1].gradient();
}

CUOTA_INLINE void chain_simulator::offload() {
    state& s = on_device(op_.stage);
    remove_from_device(s);
    s.lies = at::host;
    host_held_ += s.bytes;
    found_.host_peak = std::max(found_.host_peak, host_held_);
    found_.offloaded_bytes += s.bytes;
    s.ready = to_host_free_ =
        std::max(to_host_free_, s.ready) + static_cast<double>(s.bytes) * chain_.offload_time_per_byte;
}

CUOTA_INLINE void chain_simulator::fetch() {
    state& s = states_[op_.stage];
    if (s.lies != at::host) refuse("the record must be on the host, but is" + lies_text(s));
    allocate(s.bytes);
    host_held_ -= s.bytes;
    s.lies = at::device;
    s.ready = from_host_free_ = std::max({from_host_free_, s.ready, last_start_}) +
                                static_cast<double>(s.bytes) * chain_.fetch_time_per_byte;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE chain_cost simulate(chain const& c, chain_schedule const& schedule, source_location where) {
    detail::chain_simulator simulator{c, where};
    for (std::size_t i = 0; i != schedule.size(); ++i) simulator.run(schedule[i], i);
    return simulator.finish();
}

}  // namespace cuota::inline v0

#endif
