// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Executor of a chain over several devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/distributed/pipeline_1f1b.hpp>
#include <cuota/training/distributed/pipeline_peaks.hpp>
#include <cuota/training/distributed/pipeline_state.hpp>

namespace cuota::inline v0 {

/// Runs a chain partitioned over devices, in the order of pipeline_1f1b.
///
///     auto const where = place_layers(layers, rooms, {.micro_batches = 8});
///     pipeline net{stages, where.boundaries(), 8, {{stream0, pool0.resource()}, {stream1, pool1.resource()}}};
///     net.run(parts_of_the_batch, step);                      // then the optimizer, on each device's own stream
///
/// A device's stages run on its stream with that device current, in the order of micro-batches: results equal those of one device, bit for
/// bit.
/// Memory:  at most peaks() of each device's `memory`; a value is held from its write to its last use.
/// Order:   each device's part of a step runs on its stream; work on other streams must wait for that stream. The host never waits.
/// Threads: one at a time.
/// Units:   bytes in the granularity of each device's memory.
/// Cost:    per stage and micro-batch, some allocations and two calls; per cut and micro-batch, two copies.
/// Throws:  see each function; on failure, nothing stays allocated.
/// Follows Huang et al. 2019 (GPipe) and Narayanan et al. 2019 (PipeDream's order).
class pipeline {
public:
    /// `first`: as placement::boundaries returns it. Throws: usage_error for invalid cuts, another number of devices, a stage that lacks a
    /// function, or no micro-batches; cuda_error.
    pipeline(std::vector<checkpoint_stage> stages, std::vector<std::size_t> const& first,
             std::size_t micro_batches, std::vector<pipeline_device> const& devices,
             source_location where = source_location::current());
    pipeline(pipeline const&) = delete;  // two copies would enqueue on the same streams
    pipeline& operator=(pipeline const&) = delete;

    /// Runs one step. `inputs`: one per micro-batch, on the first device, unchanged until its stream has finished the step. Seeds are
    /// derived from `seed`, the step's.
    /// Throws: usage_error for another number of inputs; exceptions of memory and stages; cuda_error. On failure, waits for all streams;
    ///         gradients may contain a part of the step.
    template <class T>
    void run(std::vector<device_span<T>> const& inputs, std::uint64_t seed,
             source_location where = source_location::current()) {
        std::vector<stage_context::values::range> ranges;
        for (device_span<T const> const one : inputs)
            ranges.push_back(
                {reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(one.data())), one.bytes()});
        run(ranges, seed, where);
    }

    [[nodiscard]] std::vector<std::size_t> const& peaks() const noexcept { return peaks_; }  ///< by device
    [[nodiscard]] pipeline_schedule const& order() const noexcept { return order_; }  ///< acts of a step

private:
    void run(std::vector<stage_context::values::range> const& inputs, std::uint64_t seed,
             source_location where);

    [[nodiscard]] static std::vector<checkpoint_stage> checked(std::vector<checkpoint_stage> stages,
                                                               std::vector<std::size_t> const& first,
                                                               std::vector<pipeline_device> const& devices,
                                                               source_location where);
    [[nodiscard]] static std::vector<chain> chains(std::vector<checkpoint_stage> const& stages,
                                                   std::vector<pipeline_device> const& devices);
    [[nodiscard]] static detail::pipeline_device_state lane(std::vector<std::size_t> const& first,
                                                            std::size_t d, pipeline_device const& device,
                                                            std::size_t stages, std::size_t micro_batches);

    std::vector<checkpoint_stage> stages_;
    std::vector<std::size_t> peaks_;
    pipeline_schedule order_;
    std::size_t micro_batches_;
    std::vector<detail::pipeline_device_state> lanes_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE pipeline::pipeline(std::vector<checkpoint_stage> stages, std::vector<std::size_t> const& first,
                                std::size_t micro_batches, std::vector<pipeline_device> const& devices,
                                source_location where)
    : stages_{checked(std::move(stages), first, devices, where)},
      peaks_{detail::pipeline_peaks(chains(stages_, devices), first, micro_batches, where)},
      order_{pipeline_1f1b(first.size(), micro_batches, where)},
      micro_batches_{micro_batches} {
    for (std::size_t d = 0; d != first.size(); ++d)
        lanes_.push_back(lane(first, d, devices[d], stages_.size(), micro_batches));
}

CUOTA_INLINE void pipeline::run(std::vector<stage_context::values::range> const& inputs, std::uint64_t seed,
                                source_location where) {
    if (inputs.size() != micro_batches_)
        detail::throw_usage_error(where,
                                  "pipeline: number of inputs does not match: {} micro-batches, {} inputs",
                                  {detail::as_count(micro_batches_), detail::as_count(inputs.size())});
    detail::pipeline_step step{stages_, lanes_, inputs, seed, where};
    try {
        for (pipeline_op const act : order_) step.perform(act);
    } catch (...) {
        for (detail::pipeline_device_state const& lane : lanes_) rt::drain(lane.on());
        throw;
    }
}

CUOTA_INLINE std::vector<checkpoint_stage> pipeline::checked(std::vector<checkpoint_stage> stages,
                                                             std::vector<std::size_t> const& first,
                                                             std::vector<pipeline_device> const& devices,
                                                             source_location where) {
    detail::check_cuts(first, stages.size(), where);
    if (first.size() != devices.size())
        detail::throw_usage_error(where,
                                  "pipeline: number of devices does not match: stages for {}, {} given",
                                  {detail::as_count(first.size()), detail::as_count(devices.size())});
    for (std::size_t i = 0; i != stages.size(); ++i)
        if (!stages[i].forward || !stages[i].backward)
            detail::throw_usage_error(where, "stage {} of a pipeline has no {} function",
                                      {detail::as_count(i), stages[i].forward ? "backward" : "forward"});
    return stages;
}

CUOTA_INLINE std::vector<chain> pipeline::chains(std::vector<checkpoint_stage> const& stages,
                                                 std::vector<pipeline_device> const& devices) {
    std::vector<chain> all;
    all.reserve(devices.size());
    for (pipeline_device const& d : devices) all.push_back(chain_of(stages, d.memory.granularity()));
    return all;
}

CUOTA_INLINE detail::pipeline_device_state pipeline::lane(std::vector<std::size_t> const& first,
                                                          std::size_t d, pipeline_device const& device,
                                                          std::size_t stages, std::size_t micro_batches) {
    device_scope const here{device.on.device()};  // a stream belongs to the current device
    return {first[d],
            d + 1 == first.size() ? stages : first[d + 1],
            shared_stream{device.on},
            device.memory,
            stream{},
            std::nullopt,
            std::vector<std::optional<event>>(micro_batches),
            std::vector<std::optional<event>>(micro_batches)};
}

}  // namespace cuota::inline v0

#endif
