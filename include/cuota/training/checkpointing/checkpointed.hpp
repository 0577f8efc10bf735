// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Executor of a chain of stages by a schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/detail/chain_state.hpp>

namespace cuota::inline v0 {

/// Runs a chain of stages by a schedule (plan), in exactly the memory that it predicts.
///
///     auto const plan = chain_plan(chain_of(stages, pool.granularity()), room);
///     checkpointed net{stages, plan, stream, pool.resource()};
///     for (auto const& batch : loader.epoch(0)) net.run(batch.view<float>(stream), step++);
///
/// Outputs and gradients equal those of a run that keeps everything, bit for bit.
/// Memory:  each value is allocated from `memory` just before its stage runs; at most peak() at once. Offloaded records use host_bytes() of
///          `host` from construction on.
/// Order:   of the stream of construction; host copies run on two streams of its own. The host never waits.
/// Threads: one at a time.
/// Units:   bytes in each resource's granularity.
/// Cost:    for each op of the plan, some allocations and a call.
/// Throws:  see each function; on failure, nothing stays allocated.
/// Example: examples/train_deep.hpp
/// Follows Chen et al. 2016 (checkpointing), Beaumont et al. 2024 (plans), Rhu et al. 2016 (offloading).
class checkpointed {
public:
    /// Throws: usage_error if `simulate` rejects `plan`, or a stage lacks a function; exceptions of `host`; cuda_error.
    checkpointed(std::vector<checkpoint_stage> stages, chain_schedule plan, stream_ref on,
                 any_resource memory, any_resource host = pinned_memory{},
                 source_location where = source_location::current());
    checkpointed(checkpointed const&) = delete;  // a step in progress refers to its host blocks
    checkpointed& operator=(checkpointed const&) = delete;

    /// Runs one step. `input`: unchanged until the stream has finished the step. Seeds of stages are derived from `seed`, the step's.
    /// Throws: exceptions of `memory` and of stages; cuda_error. On failure, gradients may contain a part of the step.
    template <class T>
    void run(device_span<T const> input, std::uint64_t seed,
             source_location where = source_location::current()) {
        run({reinterpret_cast<std::byte*>(const_cast<T*>(input.data())), input.bytes()}, seed, where);
    }
    /// Overload for a mutable `input`.
    template <class T>
    void run(device_span<T> input, std::uint64_t seed, source_location where = source_location::current()) {
        run(device_span<T const>{input}, seed, where);
    }

    [[nodiscard]] std::size_t peak() const noexcept { return expected_.peak; }  ///< of a step
    /// Returns the bytes of `host` held until destruction.
    [[nodiscard]] std::size_t host_bytes() const noexcept { return store_.bytes(); }
    [[nodiscard]] chain_schedule const& plan() const noexcept { return plan_; }  ///< as passed in

private:
    void run(stage_context::values::range input, std::uint64_t seed, source_location where);

    [[nodiscard]] static std::vector<checkpoint_stage> checked(std::vector<checkpoint_stage> stages,
                                                               source_location where);

    std::vector<checkpoint_stage> stages_;
    chain_schedule plan_;
    chain_cost expected_;
    shared_stream on_;
    any_resource memory_;
    detail::record_store store_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE checkpointed::checkpointed(std::vector<checkpoint_stage> stages, chain_schedule plan,
                                        stream_ref on, any_resource memory, any_resource host,
                                        source_location where)
    : stages_{checked(std::move(stages), where)},
      plan_{std::move(plan)},
      expected_{simulate(chain_of(stages_, memory.granularity()), plan_, where)},
      on_{on},
      memory_{std::move(memory)},
      store_{stages_, plan_, on_, std::move(host), where} {}

CUOTA_INLINE void checkpointed::run(stage_context::values::range input, std::uint64_t seed,
                                    source_location where) {
    try {
        detail::chain_state state{stages_, input, on_, memory_, store_, seed, where};
        for (chain_op const& op : plan_) state.perform(op);
    } catch (...) {
        // The next step's copies reuse the host blocks, and wait only for recorded events.
        store_.drain();
        throw;
    }
}

CUOTA_INLINE std::vector<checkpoint_stage> checkpointed::checked(std::vector<checkpoint_stage> stages,
                                                                 source_location where) {
    for (std::size_t i = 0; i != stages.size(); ++i)
        if (!stages[i].forward || !stages[i].backward)
            detail::throw_usage_error(where, "stage {} of a chain has no {} function",
                                      {detail::as_count(i), stages[i].forward ? "backward" : "forward"});
    return stages;
}

}  // namespace cuota::inline v0

#endif
