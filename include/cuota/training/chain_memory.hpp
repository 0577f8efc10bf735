// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The inside of `checkpointed` and `pipeline`: values of a chain in memory that goes back in order of whoever used it last.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/simulated.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/checkpoint_stage.hpp>

namespace cuota::inline v0::detail {

/// Bytes of a resource, valid on a stream, and given back in the order of the stream that they belong to by then.
/// Zero bytes are none. Move-only. Throws: what the resource throws; nothing is taken then.
class chain_block {
public:
    chain_block(stream_ref home, any_resource const& memory, std::size_t bytes, label const& who);
    chain_block(chain_block&& other) noexcept;
    chain_block& operator=(chain_block&&) = delete;
    ~chain_block();

    /// From here on it is given back in the order of s, which comes after all that used it before.
    void belong_to(stream_ref s) noexcept { home_ = stream_share{s}; }

    [[nodiscard]] void* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] stage_run::values::range range() const noexcept;

private:
    any_resource memory_;
    stream_share home_;
    void* at_ = nullptr;
    std::size_t bytes_;
};

/// What is kept of a stage's forward run.
struct chain_record {
    chain_block output;
    std::optional<chain_block> saved;  ///< where forward saved

    void belong_to(stream_ref s) noexcept;
};

/// What there is of one block: nothing of none.
[[nodiscard]] stage_run::values::range range_of(std::optional<chain_block> const& block) noexcept;

/// The memory of a stage's call, told to a simulator that checks the order of accesses, while this lives.
class told_values {
public:
    told_values(stream_ref s, stage_run::values const& v, bool is_backward) noexcept;

private:
    [[nodiscard]] static rt::borrowed_range told(stream_ref s, stage_run::values::range r,
                                                 bool writes) noexcept;
    rt::borrowed_range told_[6];
};

/// Records the point that s has come to in an event that is made once.
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

CUOTA_INLINE stage_run::values::range chain_block::range() const noexcept {
    return {static_cast<std::byte*>(at_), bytes_};
}

CUOTA_INLINE void chain_record::belong_to(stream_ref s) noexcept {
    output.belong_to(s);
    if (saved) saved->belong_to(s);
}

CUOTA_INLINE stage_run::values::range range_of(std::optional<chain_block> const& block) noexcept {
    return block ? block->range() : stage_run::values::range{};
}

CUOTA_INLINE told_values::told_values(stream_ref s, stage_run::values const& v, bool is_backward) noexcept
    : told_{told(s, v.input, false),  told(s, v.output, !is_backward),   told(s, v.saved, !is_backward),
            told(s, v.scratch, true), told(s, v.output_gradient, false), told(s, v.input_gradient, true)} {}

CUOTA_INLINE rt::borrowed_range told_values::told(stream_ref s, stage_run::values::range r,
                                                  bool writes) noexcept {
    return {s, r.at, r.bytes, writes};
}

CUOTA_INLINE void mark(std::optional<event>& e, stream_ref s) {
    if (e) e->record(s);
    else e.emplace(s);
}

}  // namespace cuota::inline v0::detail

#endif
