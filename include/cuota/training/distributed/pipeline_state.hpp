// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internals of `pipeline`: a step, one act at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/detail/chain_memory.hpp>
#include <cuota/training/distributed/pipeline_1f1b.hpp>

namespace cuota::inline v0 {

/// A device of a pipeline.
struct pipeline_device {
    stream_ref on;        ///< stream of its work
    any_resource memory;  ///< resource of its values
};

namespace detail {

/// State of one device between steps.
struct pipeline_device_state {
    std::size_t first;  ///< of its stages
    std::size_t end;
    shared_stream stream_of_stages;
    any_resource memory;
    stream releases;                                 ///< frees blocks that other devices have read
    std::optional<event> fetched;                    ///< after its last copy of a gradient
    std::vector<std::optional<event>> forward_done;  ///< by micro-batch
    std::vector<std::optional<event>> backward_done;

    [[nodiscard]] stream_ref on() const noexcept { return stream_of_stages; }
};

/// State of a step. The destructor frees all blocks in stream order. After a failure, wait for all streams first: a peer's copy may run
/// without a recorded event.
class pipeline_step {
public:
    pipeline_step(std::vector<checkpoint_stage> const& stages, std::vector<pipeline_device_state>& lanes,
                  std::vector<stage_context::values::range> const& inputs, std::uint64_t seed,
                  source_location where);

    void perform(pipeline_op act);

private:
    struct held {
        std::optional<chain_block> input{};   // a copy; empty on the first device
        std::vector<chain_record> records{};  // from the device's first stage on
        std::optional<chain_block> gradient{};
    };
    [[nodiscard]] held& at(std::size_t d, std::size_t part) noexcept;

    void forward(std::size_t d, std::size_t part);
    void forward_stage(pipeline_device_state& lane, held& mine, std::size_t i, std::size_t part);

    void backward(std::size_t d, std::size_t part);
    void backward_stage(pipeline_device_state& lane, held& mine, std::size_t i, std::size_t part);

    // Copies the last output's gradient from the next device and frees its source in the order of `releases`, so that stages there need not
    // wait.
    void fetch_gradient(std::size_t d, std::size_t part);
    static void fetch(pipeline_device_state& lane, chain_block const& to, chain_block const& from,
                      event const& is_there);

    [[nodiscard]] stage_context::values::range input_of(pipeline_device_state const& lane, held const& mine,
                                                        std::size_t i, std::size_t part) const;
    [[nodiscard]] stage_context::call call(std::size_t i, std::size_t part, bool is_backward) const;
    [[nodiscard]] chain_block block(pipeline_device_state const& lane, std::size_t of_stage,
                                    std::size_t bytes) const;

    std::vector<checkpoint_stage> const& stages_;
    std::vector<pipeline_device_state>& lanes_;
    std::vector<stage_context::values::range> const& inputs_;
    std::uint64_t seed_;
    source_location where_;
    std::vector<held> held_;  // by device and micro-batch
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE pipeline_step::pipeline_step(std::vector<checkpoint_stage> const& stages,
                                          std::vector<pipeline_device_state>& lanes,
                                          std::vector<stage_context::values::range> const& inputs,
                                          std::uint64_t seed, source_location where)
    : stages_{stages},
      lanes_{lanes},
      inputs_{inputs},
      seed_{seed},
      where_{where},
      held_(lanes.size() * inputs.size()) {
    for (std::size_t d = 0; d != lanes_.size(); ++d)
        for (std::size_t part = 0; part != inputs_.size(); ++part)
            at(d, part).records.reserve(lanes_[d].end - lanes_[d].first);
}

CUOTA_INLINE void pipeline_step::perform(pipeline_op act) {
    device_scope const here{lanes_[act.device].on().device()};
    if (act.is_backward) backward(act.device, act.micro_batch);
    else forward(act.device, act.micro_batch);
}

CUOTA_INLINE auto pipeline_step::at(std::size_t d, std::size_t part) noexcept -> held& {
    return held_[d * inputs_.size() + part];
}

CUOTA_INLINE void pipeline_step::forward(std::size_t d, std::size_t part) {
    pipeline_device_state& lane = lanes_[d];
    held& mine = at(d, part);
    if (d != 0) {
        chain_block const& from = at(d - 1, part).records.back().output;
        mine.input.emplace(block(lane, lane.first - 1, from.bytes()));
        fetch(lane, *mine.input, from, *lanes_[d - 1].forward_done[part]);
    }
    for (std::size_t i = lane.first; i != lane.end; ++i) forward_stage(lane, mine, i, part);
    mark(lane.forward_done[part], lane.on());
}

CUOTA_INLINE void pipeline_step::forward_stage(pipeline_device_state& lane, held& mine, std::size_t i,
                                               std::size_t part) {
    checkpoint_stage const& s = stages_[i];
    stage_context::values v;
    v.input = input_of(lane, mine, i, part);
    chain_record made{block(lane, i, s.output_bytes), block(lane, i, s.saved_bytes)};
    v.output = made.output.range();
    v.saved = made.saved->range();
    chain_block const scratch = block(lane, i, s.forward_scratch);
    v.scratch = scratch.range();
    access_annotations const told{lane.on(), v, false};
    s.forward({lane.on(), call(i, part, false), v});
    mine.records.push_back(std::move(made));
}

CUOTA_INLINE void pipeline_step::backward(std::size_t d, std::size_t part) {
    pipeline_device_state& lane = lanes_[d];
    held& mine = at(d, part);
    if (d + 1 != lanes_.size()) fetch_gradient(d, part);
    for (std::size_t i = lane.end; i-- != lane.first;) backward_stage(lane, mine, i, part);
    mine.input.reset();
    mark(lane.backward_done[part], lane.on());
}

CUOTA_INLINE void pipeline_step::backward_stage(pipeline_device_state& lane, held& mine, std::size_t i,
                                                std::size_t part) {
    checkpoint_stage const& s = stages_[i];
    stage_context::values v;
    v.input = input_of(lane, mine, i, part);
    v.output = mine.records.back().output.range();
    v.saved = range_of(mine.records.back().saved);
    v.output_gradient = range_of(mine.gradient);
    std::optional<chain_block> next;
    if (i != 0) next.emplace(block(lane, i - 1, stages_[i - 1].gradient()));
    v.input_gradient = range_of(next);
    {
        chain_block const scratch = block(lane, i, s.backward_scratch);
        v.scratch = scratch.range();
        access_annotations const told{lane.on(), v, true};
        s.backward({lane.on(), call(i, part, true), v});
    }
    mine.records.pop_back();
    mine.gradient.reset();
    if (next) mine.gradient.emplace(std::move(*next));
}

CUOTA_INLINE void pipeline_step::fetch_gradient(std::size_t d, std::size_t part) {
    pipeline_device_state& lane = lanes_[d];
    pipeline_device_state& behind = lanes_[d + 1];
    std::optional<chain_block>& from = at(d + 1, part).gradient;
    at(d, part).gradient.emplace(block(lane, lane.end - 1, from->bytes()));
    fetch(lane, *at(d, part).gradient, *from, *behind.backward_done[part]);
    mark(lane.fetched, lane.on());
    stream_ref{behind.releases}.wait(*lane.fetched);
    from->set_owner(behind.releases);
    from.reset();
}

CUOTA_INLINE void pipeline_step::fetch(pipeline_device_state& lane, chain_block const& to,
                                       chain_block const& from, event const& is_there) {
    lane.on().wait(is_there);
    rt::copy_anywhere(to.at(), from.at(), from.bytes(), lane.on());
}

CUOTA_INLINE stage_context::values::range pipeline_step::input_of(pipeline_device_state const& lane,
                                                                  held const& mine, std::size_t i,
                                                                  std::size_t part) const {
    if (i != lane.first) return mine.records[i - lane.first - 1].output.range();
    return i == 0 ? inputs_[part] : range_of(mine.input);
}

CUOTA_INLINE stage_context::call pipeline_step::call(std::size_t i, std::size_t part,
                                                     bool is_backward) const {
    return {stages_[i].name, i, part, stage_seed(seed_, i, part), is_backward, true, false};
}

CUOTA_INLINE chain_block pipeline_step::block(pipeline_device_state const& lane, std::size_t of_stage,
                                              std::size_t bytes) const {
    return {lane.on(), lane.memory, bytes, {stages_[of_stage].name, where_}};
}

}  // namespace cuota::inline v0::detail

#endif
