// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internals of `checkpointed`: a chain within a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/detail/chain_memory.hpp>

namespace cuota::inline v0::detail {

/// Offloaded records in host memory: one block per offloaded stage, and one stream per direction.
///
/// Order: a record is copied out after the work enqueued on the chain's stream so far, and back after that copy. A host block is
///        overwritten only after its record was read.
class record_store {
public:
    /// Its streams are on the device of `on`. Throws: usage_error unless `host` is pinned memory, which asynchronous copies need.
    record_store(std::vector<checkpoint_stage> const& stages, chain_schedule const& plan, stream_ref on,
                 any_resource host, source_location where);
    record_store(record_store const&) = delete;
    record_store& operator=(record_store const&) = delete;
    ~record_store() { drain(); }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Copies a record out. Its device memory is freed in the order of the copy.
    void send(std::size_t stage, chain_record record, stream_ref on);
    /// Copies the record back. Use it only after `arrived`.
    [[nodiscard]] chain_record fetch(std::size_t stage, checkpoint_stage const& s, any_resource const& memory,
                                     label const& who);
    [[nodiscard]] event const& arrived(std::size_t stage) const noexcept { return *places_[stage].read; }

    void drain() noexcept;

private:
    struct host_block {
        host_block(any_resource const& memory, std::size_t bytes, label const& who);
        host_block(host_block const&) = delete;
        host_block& operator=(host_block const&) = delete;
        ~host_block() { from.deallocate_sync(at, size); }
        any_resource from;
        void* at;
        std::size_t size;
    };
    struct host_slot_of_record {
        [[nodiscard]] std::byte* output() const noexcept { return static_cast<std::byte*>(block->at); }
        [[nodiscard]] std::byte* saved() const noexcept { return output() + saved_at; }
        std::unique_ptr<host_block> block{};
        std::size_t saved_at = 0;
        bool was_saving = false;
        std::optional<event> written{};
        std::optional<event> read{};
    };

    void add_place(checkpoint_stage const& s, host_slot_of_record& p, source_location where);

    any_resource host_;
    std::size_t bytes_ = 0;
    std::vector<host_slot_of_record> places_;
    std::optional<event> ready_;
    // Last: destroyed before the memory that their copies use.
    std::optional<stream> going_;
    std::optional<stream> coming_;
};

/// A chain within a step. Precondition: the schedule is valid.
class chain_state {
public:
    chain_state(std::vector<checkpoint_stage> const& stages, stage_context::values::range input,
                stream_ref on, any_resource const& memory, record_store& store, std::uint64_t seed,
                source_location where);

    void perform(chain_op const& op);

private:
    struct held {
        std::optional<chain_record> record{};
        bool has_run = false;
        bool is_coming = false;  // fetched; the stream does not wait for it yet
    };

    void forward(std::size_t i, bool saving);

    void backward(std::size_t i);

    void offload(std::size_t i);
    void fetch(std::size_t i);

    /// Returns the record of a stage; the chain's stream waits for it if it was fetched.
    [[nodiscard]] chain_record const& present(std::size_t i);
    [[nodiscard]] stage_context::values::range input_of(std::size_t i);
    [[nodiscard]] chain_block block(std::size_t of_stage, std::size_t bytes);

    std::vector<checkpoint_stage> const& stages_;
    stage_context::values::range input_;
    stream_ref on_;
    any_resource const& memory_;
    record_store& store_;
    std::uint64_t seed_;
    source_location where_;
    std::vector<held> held_;
    std::optional<chain_block> gradient_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE record_store::record_store(std::vector<checkpoint_stage> const& stages,
                                        chain_schedule const& plan, stream_ref on, any_resource host,
                                        source_location where)
    : host_{std::move(host)} {
    for (chain_op const& op : plan)
        if (op.kind == chain_op_kind::offload) {
            if (places_.empty()) places_.resize(stages.size());
            if (!places_[op.stage].block) add_place(stages[op.stage], places_[op.stage], where);
        }
    if (places_.empty()) return;
    device_scope const here{on.device()};  // a stream belongs to the current device
    going_.emplace();
    coming_.emplace();
}

CUOTA_INLINE void record_store::send(std::size_t stage, chain_record record, stream_ref on) {
    host_slot_of_record& to = places_[stage];
    mark(ready_, on);
    going_->wait(*ready_);
    if (to.read) going_->wait(*to.read);
    record.set_owner(*going_);
    rt::copy_to_host(to.output(), record.output.at(), record.output.bytes(), *going_);
    if (record.saved) rt::copy_to_host(to.saved(), record.saved->at(), record.saved->bytes(), *going_);
    mark(to.written, *going_);
    to.was_saving = record.saved.has_value();
}

CUOTA_INLINE chain_record record_store::fetch(std::size_t stage, checkpoint_stage const& s,
                                              any_resource const& memory, label const& who) {
    host_slot_of_record& from = places_[stage];
    chain_record record{chain_block{*coming_, memory, s.output_bytes, who}, std::nullopt};
    if (from.was_saving) record.saved.emplace(*coming_, memory, s.saved_bytes, who);
    coming_->wait(*from.written);
    rt::copy_to_device(record.output.at(), from.output(), record.output.bytes(), *coming_);
    if (record.saved) rt::copy_to_device(record.saved->at(), from.saved(), record.saved->bytes(), *coming_);
    mark(from.read, *coming_);
    return record;
}

CUOTA_INLINE void record_store::drain() noexcept {
    if (going_) rt::drain(*going_);
    if (coming_) rt::drain(*coming_);
}

CUOTA_INLINE record_store::host_block::host_block(any_resource const& memory, std::size_t bytes,
                                                  label const& who)
    : from{memory}, at{from.allocate_sync(bytes, default_alignment, who)}, size{bytes} {}

CUOTA_INLINE void record_store::add_place(checkpoint_stage const& s, host_slot_of_record& p,
                                          source_location where) {
    if (host_.kind() != memory_kind::pinned)
        throw_usage_error(where, "records of a chain can only be offloaded to pinned host memory");
    p.saved_at = round_up(s.output_bytes, default_alignment);
    std::size_t const bytes = p.saved_at + s.saved_bytes;
    p.block = std::make_unique<host_block>(host_, bytes, label{s.name, where});
    bytes_ += round_up(bytes, host_.granularity());
}

CUOTA_INLINE chain_state::chain_state(std::vector<checkpoint_stage> const& stages,
                                      stage_context::values::range input, stream_ref on,
                                      any_resource const& memory, record_store& store, std::uint64_t seed,
                                      source_location where)
    : stages_{stages},
      input_{input},
      on_{on},
      memory_{memory},
      store_{store},
      seed_{seed},
      where_{where},
      held_(stages.size()) {}

CUOTA_INLINE void chain_state::perform(chain_op const& op) {
    switch (op.kind) {
        case chain_op_kind::forward: return forward(op.stage, false);
        case chain_op_kind::forward_saving: return forward(op.stage, true);
        case chain_op_kind::backward: return backward(op.stage);
        case chain_op_kind::drop: return held_[op.stage].record.reset();
        case chain_op_kind::offload: return offload(op.stage);
        case chain_op_kind::fetch: return fetch(op.stage);
    }
}

CUOTA_INLINE void chain_state::forward(std::size_t i, bool saving) {
    checkpoint_stage const& s = stages_[i];
    stage_context::values v;
    v.input = input_of(i);
    chain_record made{block(i, s.output_bytes), std::nullopt};
    v.output = made.output.range();
    if (saving) {
        made.saved.emplace(block(i, s.saved_bytes));
        v.saved = made.saved->range();
    }
    chain_block const scratch = block(i, s.forward_scratch);
    v.scratch = scratch.range();
    access_annotations const told{on_, v, false};
    s.forward({on_, {s.name, i, 0, stage_seed(seed_, i), false, saving, held_[i].has_run}, v});
    held_[i].has_run = true;
    held_[i].record.emplace(std::move(made));
}

CUOTA_INLINE void chain_state::backward(std::size_t i) {
    checkpoint_stage const& s = stages_[i];
    stage_context::values v;
    v.input = input_of(i);
    chain_record const& record = present(i);
    v.output = record.output.range();
    v.saved = range_of(record.saved);
    v.output_gradient = range_of(gradient_);
    std::optional<chain_block> next;
    if (i != 0) next.emplace(block(i - 1, stages_[i - 1].gradient()));
    v.input_gradient = range_of(next);
    {
        chain_block const scratch = block(i, s.backward_scratch);
        v.scratch = scratch.range();
        access_annotations const told{on_, v, true};
        s.backward({on_, {s.name, i, 0, stage_seed(seed_, i), true, true, false}, v});
    }
    held_[i].record.reset();
    gradient_.reset();
    if (next) gradient_.emplace(std::move(*next));
}

CUOTA_INLINE void chain_state::offload(std::size_t i) {
    (void)present(i);  // a fetched record must arrive before it is copied out again
    chain_record leaving{std::move(*held_[i].record)};
    held_[i].record.reset();
    store_.send(i, std::move(leaving), on_);
}

CUOTA_INLINE void chain_state::fetch(std::size_t i) {
    held_[i].record.emplace(store_.fetch(i, stages_[i], memory_, {stages_[i].name, where_}));
    held_[i].is_coming = true;
}

CUOTA_INLINE chain_record const& chain_state::present(std::size_t i) {
    held& h = held_[i];
    if (std::exchange(h.is_coming, false)) {
        on_.wait(store_.arrived(i));
        h.record->set_owner(on_);
    }
    return *h.record;
}

CUOTA_INLINE stage_context::values::range chain_state::input_of(std::size_t i) {
    return i == 0 ? input_ : present(i - 1).output.range();
}

CUOTA_INLINE chain_block chain_state::block(std::size_t of_stage, std::size_t bytes) {
    return {on_, memory_, bytes, {stages_[of_stage].name, where_}};
}

}  // namespace cuota::inline v0::detail

#endif
