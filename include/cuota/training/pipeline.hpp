// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs a chain of stages that is cut over several devices, micro-batch by micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/training/chain.hpp>
#include <cuota/training/pipeline_order.hpp>
#include <cuota/training/pipeline_peaks.hpp>
#include <cuota/training/pipeline_state.hpp>

namespace cuota::inline v0 {

/// A chain of stages over devices, each with a run of them, in pipeline_order (1F1B). One host thread enqueues for all.
///
///     auto const where = place_layers(layers, rooms, {.micro_batches = 8});
///     pipeline net{stages, where.cuts(), 8, {{stream0, pool0.resource()}, {stream1, pool1.resource()}}};
///     net.run(parts_of_the_batch, step);                      // then the optimiser, on each device's own stream
///
/// A device's stages are run on its stream with it current, and what they add to the gradients of their parameters they
/// add in the order of the micro-batches: as one device would, bit for bit. What goes from device to device is copied by the
/// one that needs it, in its stream.
/// Memory:  every value is an allocation from its device's `memory`, just before it is written, and given back, in order of
///          a stream of that device, when nothing needs it; the most at once is peaks(), to the granule. Records of
///          min(M, D - d) micro-batches are kept on device d.
/// Order:   a step starts on every device in order of its stream, and is over there for what is enqueued on it later: for
///          work on the gradients of other devices, wait for their streams. The host waits for nothing.
/// Threads: one at a time. It stays where it is made.
/// Units:   bytes, rounded up to the granule of each device's memory.
/// Cost:    of a step: some allocations and two calls a stage and micro-batch, one copy each way for each cut.
/// Follows Huang et al. 2019 (GPipe) and Narayanan et al. 2019 (PipeDream's order).
/// Throws:  as each says; nothing stays held then.
class pipeline {
public:
    /// `first`: the first stage of each device, as placement::cuts gives it. Throws: misuse for cuts that are none, another
    /// number of devices, a stage that lacks a function, no micro-batches; cuda_error. Nothing is held then.
    pipeline(std::vector<checkpoint_stage> stages, std::vector<std::size_t> const& first,
             std::size_t micro_batches, std::vector<pipeline_device> const& devices,
             place where = place::here());
    pipeline(pipeline const&) = delete;  // two of one order of work would each think the streams are theirs
    pipeline& operator=(pipeline const&) = delete;

    /// One step. `inputs`: the first stage's, one for each micro-batch, on the first device; they stay as they are until its
    /// stream has come to the end of the step. seed: of the step; every stage gets its own of it for each micro-batch.
    /// Throws: misuse for another number of inputs; what a device's memory throws when a value does not fit, what a stage
    /// throws, cuda_error. The host has waited for all streams then, and everything that the step held is given back;
    /// gradients that stages have added to by then are theirs to undo (`with_retry`).
    template <class T>
    void run(std::vector<device_span<T>> const& inputs, std::uint64_t seed, place where = place::here()) {
        std::vector<stage_run::values::range> ranges;
        for (device_span<T const> const one : inputs)
            ranges.push_back(
                {reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(one.data())), one.bytes()});
        run(ranges, seed, where);
    }

    /// The most bytes that each device holds at once in a step, as pipeline_peaks says.
    [[nodiscard]] std::vector<std::size_t> const& peaks() const noexcept { return peaks_; }
    /// Of a step, over all devices.
    [[nodiscard]] pipeline_schedule const& order() const noexcept { return order_; }

private:
    void run(std::vector<stage_run::values::range> const& inputs, std::uint64_t seed, place where);

    [[nodiscard]] static std::vector<checkpoint_stage> checked(std::vector<checkpoint_stage> stages,
                                                               std::vector<std::size_t> const& first,
                                                               std::vector<pipeline_device> const& devices,
                                                               place where);
    // As the memory of each device counts it.
    [[nodiscard]] static std::vector<chain> chains(std::vector<checkpoint_stage> const& stages,
                                                   std::vector<pipeline_device> const& devices);
    [[nodiscard]] static detail::pipeline_lane lane(std::vector<std::size_t> const& first, std::size_t d,
                                                    pipeline_device const& device, std::size_t stages,
                                                    std::size_t micro_batches);

    std::vector<checkpoint_stage> stages_;
    std::vector<std::size_t> peaks_;
    pipeline_schedule order_;
    std::size_t micro_batches_;
    std::vector<detail::pipeline_lane> lanes_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE pipeline::pipeline(std::vector<checkpoint_stage> stages, std::vector<std::size_t> const& first,
                                std::size_t micro_batches, std::vector<pipeline_device> const& devices,
                                place where)
    : stages_{checked(std::move(stages), first, devices, where)},
      peaks_{detail::pipeline_peaks(chains(stages_, devices), first, micro_batches, where)},
      order_{pipeline_order(first.size(), micro_batches, where)},
      micro_batches_{micro_batches} {
    for (std::size_t d = 0; d != first.size(); ++d)
        lanes_.push_back(lane(first, d, devices[d], stages_.size(), micro_batches));
}

CUOTA_INLINE void pipeline::run(std::vector<stage_run::values::range> const& inputs, std::uint64_t seed,
                                place where) {
    if (inputs.size() != micro_batches_)
        detail::throw_misuse(where, "a pipeline of {} micro-batches was given {} inputs",
                             {detail::as_count(micro_batches_), detail::as_count(inputs.size())});
    detail::pipeline_step step{stages_, lanes_, inputs, seed, where};
    try {
        for (pipeline_act const act : order_) step.perform(act);
    } catch (...) {
        for (detail::pipeline_lane const& lane : lanes_) rt::drain(lane.on());
        throw;
    }
}

CUOTA_INLINE std::vector<checkpoint_stage> pipeline::checked(std::vector<checkpoint_stage> stages,
                                                             std::vector<std::size_t> const& first,
                                                             std::vector<pipeline_device> const& devices,
                                                             place where) {
    detail::check_cuts(first, stages.size(), where);
    if (first.size() != devices.size())
        detail::throw_misuse(where, "a pipeline with stages for {} devices was given {}",
                             {detail::as_count(first.size()), detail::as_count(devices.size())});
    for (std::size_t i = 0; i != stages.size(); ++i)
        if (!stages[i].forward || !stages[i].backward)
            detail::throw_misuse(where, "stage {} of a pipeline has no {} function",
                                 {detail::as_count(i), stages[i].forward ? "backward" : "forward"});
    return stages;
}

CUOTA_INLINE std::vector<chain> pipeline::chains(std::vector<checkpoint_stage> const& stages,
                                                 std::vector<pipeline_device> const& devices) {
    std::vector<chain> all;
    all.reserve(devices.size());
    for (pipeline_device const& d : devices) all.push_back(chain_of(stages, d.memory.granule()));
    return all;
}

CUOTA_INLINE detail::pipeline_lane pipeline::lane(std::vector<std::size_t> const& first, std::size_t d,
                                                  pipeline_device const& device, std::size_t stages,
                                                  std::size_t micro_batches) {
    device_scope const here{device.on.device()};  // a stream is of the device that is current
    return {first[d],
            d + 1 == first.size() ? stages : first[d + 1],
            stream_share{device.on},
            device.memory,
            stream{},
            std::nullopt,
            std::vector<std::optional<event>>(micro_batches),
            std::vector<std::optional<event>>(micro_batches)};
}

}  // namespace cuota::inline v0

#endif
