// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internals of `checkpointed` and `pipeline`: blocks that are freed in the order of the stream that used them last.
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

/// Move-only block of a resource, freed in the order of the stream that it belongs to, at first `home`. 0 bytes allocate nothing. Throws:
/// exceptions of the resource; on failure, nothing is allocated.
class chain_block {
public:
    chain_block(stream_ref home, any_resource const& memory, std::size_t bytes, label const& who);
    chain_block(chain_block&& other) noexcept;
    chain_block& operator=(chain_block&&) = delete;
    ~chain_block();

    /// Frees the block in the order of s, which must be ordered after all earlier uses.
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

/// Memory kept of a stage's forward run.
struct chain_record {
    chain_block output;
    std::optional<chain_block> saved;  ///< present after a saving forward run

    void belong_to(stream_ref s) noexcept;
};

/// Returns an empty range if `block` is empty.
[[nodiscard]] stage_run::values::range range_of(std::optional<chain_block> const& block) noexcept;

/// Annotates the accesses of a stage's call for the simulator's order check, while it exists.
class told_values {
public:
    told_values(stream_ref s, stage_run::values const& v, bool is_backward) noexcept;

private:
    [[nodiscard]] static rt::borrowed_range told(stream_ref s, stage_run::values::range r,
                                                 bool writes) noexcept;
    rt::borrowed_range told_[6];
};

/// Records the current point of s in `e`, which is created once.
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
