// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internals of `checkpointed` and `pipeline`: blocks freed in stream order.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/simulator_hooks.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>

namespace cuota::inline v0::detail {

/// Move-only block of a resource, freed in the order of its stream, at first `home`. 0 bytes allocate nothing.
class chain_block {
public:
    chain_block(stream_ref home, any_resource const& memory, std::size_t bytes, label const& who);
    chain_block(chain_block&& other) noexcept;
    chain_block& operator=(chain_block&&) = delete;
    ~chain_block();

    /// Precondition: s is ordered after all earlier uses.
    void set_owner(stream_ref s) noexcept { home_ = shared_stream{s}; }

    [[nodiscard]] void* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] stage_context::values::range range() const noexcept;

private:
    any_resource memory_;
    shared_stream home_;
    void* at_ = nullptr;
    std::size_t bytes_;
};

/// Memory kept of a stage's forward run.
struct chain_record {
    chain_block output;
    std::optional<chain_block> saved;  ///< present after a saving forward run

    void set_owner(stream_ref s) noexcept;
};

[[nodiscard]] stage_context::values::range range_of(std::optional<chain_block> const& block) noexcept;

/// Annotates the accesses of a stage's call for the simulator's race check.
class access_annotations {
public:
    access_annotations(stream_ref s, stage_context::values const& v, bool is_backward) noexcept;

private:
    [[nodiscard]] static rt::access_annotation told(stream_ref s, stage_context::values::range r,
                                                    bool writes) noexcept;
    rt::access_annotation told_[6];
};

/// Records the current point of s in `e`.
void mark(std::optional<event>& e, stream_ref s);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE chain_block::chain_block(stream_ref home, any_resource const& memory, std::size_t bytes,
                                      label const& who)
    : memory_{memory}, home_{home}, bytes_{bytes} {
    if (bytes_ != 0) at_ = memory_.allocate(home, bytes_, default_alignment, who);
}

CUOTA_INLINE chain_block::chain_block(chain_block&& other) noexcept
    : memory_{other.memory_},
      home_{other.home_},
      at_{std::exchange(other.at_, nullptr)},
      bytes_{std::exchange(other.bytes_, 0)} {}

CUOTA_INLINE chain_block::~chain_block() {
    if (at_) memory_.deallocate(home_, at_, bytes_);
}

CUOTA_INLINE stage_context::values::range chain_block::range() const noexcept {
    return {static_cast<std::byte*>(at_), bytes_};
}

CUOTA_INLINE void chain_record::set_owner(stream_ref s) noexcept {
    output.set_owner(s);
    if (saved) saved->set_owner(s);
}

CUOTA_INLINE stage_context::values::range range_of(std::optional<chain_block> const& block) noexcept {
    return block ? block->range() : stage_context::values::range{};
}

CUOTA_INLINE access_annotations::access_annotations(stream_ref s, stage_context::values const& v,
                                                    bool is_backward) noexcept
    : told_{told(s, v.input, false),  told(s, v.output, !is_backward),   told(s, v.saved, !is_backward),
            told(s, v.scratch, true), told(s, v.output_gradient, false), told(s, v.input_gradient, true)} {}

CUOTA_INLINE rt::access_annotation access_annotations::told(stream_ref s, stage_context::values::range r,
                                                            bool writes) noexcept {
    return {s, r.at, r.bytes, writes};
}

CUOTA_INLINE void mark(std::optional<event>& e, stream_ref s) {
    if (e) e->record(s);
    else e.emplace(s);
}

}  // namespace cuota::inline v0::detail

#endif
