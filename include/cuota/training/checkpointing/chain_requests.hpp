// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Allocation requests of a chain's step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/planning/lifetimes.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Records the allocations and frees that `checkpointed` makes.
class request_writer {
public:
    using blocks = std::vector<std::size_t>;  // numbers of requests with bytes > 0

    void take(std::size_t bytes, blocks& of);
    // In reverse order, as members are destroyed.
    void give(blocks& of);
    [[nodiscard]] std::vector<lifetime> take_all() { return std::move(requests_); }

private:
    std::vector<lifetime> requests_;
    std::uint64_t now_ = 0;
};

}  // namespace detail

/// Returns the requests of one step of `checkpointed` under `schedule`, for `step_plan::expect`: the step's memory is one slab from the
/// first step on.
///
///     step_plan memory{budgeted{budget}};
///     memory.expect(chain_requests(sizes, schedule));
///     memory.prepare();                                       // throws budget_exceeded
///     checkpointed net{stages, schedule, stream, memory.resource()};
///     auto const step = memory.begin();
///     net.run(input, seed);
///
/// `sizes`: `chain_of(stages, 1)`.
/// Throws:  as `simulate`.
/// Threads: any.
[[nodiscard]] std::vector<lifetime> chain_requests(chain const& sizes, chain_schedule const& schedule,
                                                   source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void request_writer::take(std::size_t bytes, blocks& of) {
    if (bytes == 0) return;
    of.push_back(requests_.size());
    requests_.push_back({now_, now_ + 1, bytes});
    ++now_;
}

CUOTA_INLINE void request_writer::give(blocks& of) {
    for (; !of.empty(); of.pop_back()) requests_[of.back()].until = now_++;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<lifetime> chain_requests(chain const& sizes, chain_schedule const& schedule,
                                                  source_location where) {
    (void)simulate(sizes, schedule, where);
    detail::request_writer made;
    using blocks = detail::request_writer::blocks;
    struct record {
        blocks held{};
        bool is_saving = false;
    };
    std::vector<record> records(sizes.stages.size());
    blocks gradient;
    auto const take_record = [&](std::size_t i) {
        made.take(sizes.stages[i].output_bytes, records[i].held);
        if (records[i].is_saving) made.take(sizes.stages[i].saved_bytes, records[i].held);
    };
    for (chain_op const op : schedule) {
        chain_stage const& s = sizes.stages[op.stage];
        record& own = records[op.stage];
        blocks scratch;
        blocks next;
        switch (op.kind) {
            case chain_op_kind::forward:
            case chain_op_kind::forward_saving:
                own.is_saving = op.kind == chain_op_kind::forward_saving;
                take_record(op.stage);
                made.take(s.forward_scratch, scratch);
                made.give(scratch);
                break;
            case chain_op_kind::backward:
                if (op.stage != 0) made.take(sizes.stages[op.stage - 1].gradient(), next);
                made.take(s.backward_scratch, scratch);
                made.give(scratch);
                made.give(own.held);
                made.give(gradient);
                gradient = std::move(next);
                break;
            case chain_op_kind::drop:
            case chain_op_kind::offload: made.give(own.held); break;
            case chain_op_kind::fetch: take_record(op.stage); break;
        }
    }
    return made.take_all();
}

}  // namespace cuota::inline v0

#endif
