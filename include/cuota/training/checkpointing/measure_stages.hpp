// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Measurement of a chain's stages.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>
#include <cuota/training/detail/chain_state.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] double seconds_between(timed_event const& from, timed_event const& to);
[[nodiscard]] double median_of(std::vector<double>& values);

/// Returns the device time of each op of a schedule, in seconds.
[[nodiscard]] std::vector<double> times_of(std::vector<checkpoint_stage> const& stages,
                                           chain_schedule const& plan, stage_context::values::range input,
                                           stream_ref on, any_resource const& memory, std::uint64_t seed,
                                           source_location where);

/// Seconds per byte of a copy in each direction, the faster of two.
struct link_times {
    double to_host = 0;
    double to_device = 0;
};
[[nodiscard]] link_times link_times_of(std::size_t bytes, stream_ref on, any_resource const& memory,
                                       any_resource host, label const& who);

}  // namespace detail

/// Returns the chain of these stages with measured times in seconds: medians over `steps` steps that keep all values, after a warm-up step,
/// and times per byte of copies to and from the host.
///
/// Runs `steps` + 1 steps: clear the parameters' gradients afterwards. Uses the memory of store_all_plan, and the largest output's size in
/// `host`: measure with a part of the batch that fits.
/// Order:   waits on the host in every step.
/// Throws:  exceptions of memory, stages and device; usage_error for no steps or no stages. On failure, nothing stays allocated.
/// Threads: the calling thread.
/// Example: examples/train_deep.hpp
template <class T>
[[nodiscard]] chain measure_stages(std::vector<checkpoint_stage> const& stages, device_span<T const> input,
                                   stream_ref on, any_resource memory, std::size_t steps = 5,
                                   any_resource host = pinned_memory{},
                                   source_location where = source_location::current()) {
    if (steps == 0)
        detail::throw_usage_error(where, "measure_stages: the number of steps must be at least 1");
    chain measured = chain_of(stages, memory.granularity());
    measured.check(where);
    stage_context::values::range const from{reinterpret_cast<std::byte*>(const_cast<T*>(input.data())),
                                            input.bytes()};
    chain_schedule const plan = store_all_plan(measured);
    std::vector<std::vector<double>> times(plan.size());
    for (std::size_t step = 0; step != steps + 1; ++step) {
        std::vector<double> const now = detail::times_of(stages, plan, from, on, memory, step, where);
        if (step != 0)
            for (std::size_t i = 0; i != plan.size(); ++i) times[i].push_back(now[i]);
    }
    std::size_t largest = 0;
    for (std::size_t i = 0; i != plan.size(); ++i) {
        chain_stage& s = measured.stages[plan[i].stage];
        if (plan[i].kind == chain_op_kind::forward_saving) s.forward_time = detail::median_of(times[i]);
        if (plan[i].kind == chain_op_kind::backward) s.backward_time = detail::median_of(times[i]);
        largest = std::max(largest, s.output_bytes);
    }
    detail::link_times const link =
        detail::link_times_of(largest, on, memory, std::move(host), label{"link", where});
    measured.offload_time_per_byte = link.to_host;
    measured.fetch_time_per_byte = link.to_device;
    return measured;
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE double seconds_between(timed_event const& from, timed_event const& to) {
    return std::chrono::duration<double>(to.since(from).value_or(std::chrono::nanoseconds{0})).count();
}

CUOTA_INLINE double median_of(std::vector<double>& values) {
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

CUOTA_INLINE std::vector<double> times_of(std::vector<checkpoint_stage> const& stages,
                                          chain_schedule const& plan, stage_context::values::range input,
                                          stream_ref on, any_resource const& memory, std::uint64_t seed,
                                          source_location where) {
    record_store nowhere{stages, plan, on, pinned_memory{}, where};
    chain_state state{stages, input, on, memory, nowhere, seed, where};
    std::vector<timed_event> marks;
    marks.reserve(plan.size() + 1);
    marks.emplace_back(on);
    for (chain_op const& op : plan) {
        state.perform(op);
        marks.emplace_back(on);
    }
    on.synchronize(where);
    std::vector<double> times;
    for (std::size_t i = 0; i != plan.size(); ++i) times.push_back(seconds_between(marks[i], marks[i + 1]));
    return times;
}

CUOTA_INLINE link_times link_times_of(std::size_t bytes, stream_ref on, any_resource const& memory,
                                      any_resource host, label const& who) {
    if (bytes == 0) return {};
    chain_block const there{on, memory, bytes, who};
    struct pinned_block {
        any_resource& from;
        std::size_t bytes;
        void* at;
        ~pinned_block() { from.deallocate_sync(at, bytes); }
    } const here{host, bytes, host.allocate_sync(bytes, default_alignment, who)};
    rt::fill_bytes(there.at(), 0, bytes, on);
    link_times best;
    try {
        for (int turn = 0; turn != 2; ++turn) {
            timed_event const begin{on};
            rt::copy_to_host(here.at, there.at(), bytes, on);
            timed_event const middle{on};
            rt::copy_to_device(there.at(), here.at, bytes, on);
            timed_event const end{on};
            on.synchronize(who.where);
            double const out = seconds_between(begin, middle) / static_cast<double>(bytes);
            double const in = seconds_between(middle, end) / static_cast<double>(bytes);
            best.to_host = turn == 0 ? out : std::min(best.to_host, out);
            best.to_device = turn == 0 ? in : std::min(best.to_device, in);
        }
    } catch (...) {
        rt::drain(on);
        throw;
    }
    return best;
}

}  // namespace cuota::inline v0::detail

#endif
