// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs a chain of stages forward and backward under a plan that says what is kept, recomputed or sent to the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/training/chain.hpp>
#include <cuota/training/chain_simulation.hpp>
#include <cuota/training/chain_state.hpp>
#include <cuota/training/checkpoint_stage.hpp>

namespace cuota::inline v0 {

/// Stages and a plan, to be run step by step with the memory that the plan says, to the granule.
///
///     auto const plan = chain_plan(chain_of(stages, pool.granule()), room);
///     checkpointed net{stages, plan, stream, pool.resource()};
///     for (auto const& batch : loader.epoch(0)) net.run(batch.view<float>(stream), step++);
///
/// What a stage draws from its seed is the same when it is recomputed, so a plan changes no result: outputs and
/// gradients are those of a run that keeps everything, bit for bit.
/// Memory:  every value is an allocation from `memory`, made just before its stage runs and given back, in stream order,
///          as soon as the plan drops it; `peak()` is the most that is held at once. What the plan offloads has a place in
///          `host` from construction on, `host_bytes()` in all; a budget under either charges and refuses it.
/// Order:   a step is enqueued on the stream of construction, copies to and from the host on two of its own; nothing
///          waits on the host.
/// Threads: one at a time. It stays where it is made.
/// Units:   bytes, rounded up to the granule of each source.
/// Cost:    of a run: some allocations and two calls a stage and recomputation, no synchronisation.
/// Throws:  as each says; nothing stays held then.
/// Example: examples/train_deep.hpp
/// Follows Chen et al. 2016 (checkpointing), Beaumont et al. 2024 (plans), Rhu et al. 2016 (offloading).
class checkpointed {
public:
    /// `plan`: an order that `simulate` accepts for these stages. Throws: misuse when it does not, or a stage lacks a
    /// function; what `host` throws for the places of what is offloaded; cuda_error. Nothing is held then.
    checkpointed(std::vector<checkpoint_stage> stages, chain_schedule plan, stream_ref on,
                 any_resource memory, any_resource host = pinned_memory{}, place where = place::here());
    checkpointed(checkpointed const&) = delete;  // what is under way names its places
    checkpointed& operator=(checkpointed const&) = delete;

    /// One step: all stages forward and backward. `input` is the first stage's, and stays as it is until the stream has come
    /// to the end of the step. seed: of the step; stages get their own of it.
    /// Throws: what `memory` throws when a value does not fit, what a stage throws, cuda_error. All that the step held is
    /// given back then, in stream order; gradients that stages have added to by then are theirs to undo (`with_retry`).
    template <class T>
    void run(device_span<T const> input, std::uint64_t seed, place where = place::here()) {
        run({reinterpret_cast<std::byte*>(const_cast<T*>(input.data())), input.bytes()}, seed, where);
    }
    /// The same.
    template <class T>
    void run(device_span<T> input, std::uint64_t seed, place where = place::here()) {
        run(device_span<T const>{input}, seed, where);
    }

    /// The most bytes of `memory` that a step holds at once, in its granule; the plan's, as `simulate` finds it.
    [[nodiscard]] std::size_t peak() const noexcept { return expected_.peak; }
    /// The bytes of `host` that are held as long as this lives.
    [[nodiscard]] std::size_t host_bytes() const noexcept { return store_.bytes(); }
    [[nodiscard]] chain_schedule const& plan() const noexcept { return plan_; }  ///< as given

private:
    void run(stage_run::values::range input, std::uint64_t seed, place where);

    [[nodiscard]] static std::vector<checkpoint_stage> checked(std::vector<checkpoint_stage> stages,
                                                               place where);

    std::vector<checkpoint_stage> stages_;
    chain_schedule plan_;
    chain_run expected_;
    stream_share on_;
    any_resource memory_;
    detail::record_store store_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE checkpointed::checkpointed(std::vector<checkpoint_stage> stages, chain_schedule plan,
                                        stream_ref on, any_resource memory, any_resource host, place where)
    : stages_{checked(std::move(stages), where)},
      plan_{std::move(plan)},
      expected_{simulate(chain_of(stages_, memory.granule()), plan_, where)},
      on_{on},
      memory_{std::move(memory)},
      store_{stages_, plan_, on_, std::move(host), where} {}

CUOTA_INLINE void checkpointed::run(stage_run::values::range input, std::uint64_t seed, place where) {
    try {
        detail::chain_state state{stages_, input, on_, memory_, store_, seed, where};
        for (chain_op const& op : plan_) state.perform(op);
    } catch (...) {
        // The next step's copies use the same places, and wait for those that were waited for.
        store_.drain();
        throw;
    }
}

CUOTA_INLINE std::vector<checkpoint_stage> checkpointed::checked(std::vector<checkpoint_stage> stages,
                                                                 place where) {
    for (std::size_t i = 0; i != stages.size(); ++i)
        if (!stages[i].forward || !stages[i].backward)
            detail::throw_misuse(where, "stage {} of a chain has no {} function",
                                 {detail::as_count(i), stages[i].forward ? "backward" : "forward"});
    return stages;
}

}  // namespace cuota::inline v0

#endif
