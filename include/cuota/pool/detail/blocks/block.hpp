// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The record of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/detail/blocks/wait_set.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

/// Metadata of a live block, apart from the records that are searched. One cache line: threads write it without the lock.
struct alignas(64) block_metadata {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    tag name{};
    source_location where{};
    // id of the stream that the block is bound to
    std::uint64_t stream = no_stream;
    std::uint32_t stream_index = 0;
    allocation_epoch epoch{};
    bool keeps = false;  // keeps the pool alive
};

/// The record of a block. One cache line: a deallocation reads four or five records.
struct alignas(64) block {
    /// Granularity of addresses and sizes: the alignment that CUDA guarantees.
    static constexpr std::size_t granularity = default_alignment;

    /// The pool's lock protects all fields. But the thread that changes `word` from live to in_transition (held), without the lock, owns
    /// `requested` and the note until it changes `word` again. A `hole` has no memory; a `growing` one is being mapped.
    enum class state : std::uintptr_t { free, live, in_transition, hole, growing };

    atomic<std::uintptr_t> word = 0;  // address | state
    std::size_t size = 0;
    block* before = nullptr;  // by address
    block* after = nullptr;
    [[no_unique_address]] wait_set waits{};  // free: work that must complete before reuse
    // record number | keeps_stream (highest bit)
    std::uint32_t mark = 0;
    union {
        // free: link in its bin; hole: link in the list of holes; cached or unused: next
        block* left = nullptr;
        std::size_t requested;  // live: requested bytes; growing: mapped bytes
    };
    union {
        block* right = nullptr;  // free, hole: as left
        block_metadata* note;    // live
    };

    [[nodiscard]] static std::uintptr_t word_for(void const* p, state now) noexcept;
    [[nodiscard]] std::uint32_t number() const noexcept { return mark & ~stream_bit; }
    /// Whether the block keeps its index in stream_order; here, so that most frees need not read the note.
    [[nodiscard]] bool keeps_stream() const noexcept { return (mark & stream_bit) != 0; }
    void keeps_stream(bool does) noexcept { mark = does ? mark | stream_bit : mark & ~stream_bit; }
    static constexpr std::uint32_t stream_bit = std::uint32_t{1} << 31;

    [[nodiscard]] std::byte* at() const noexcept;
    void become(state now) noexcept { stand_at(at(), now); }
    /// Requires ownership of the block.
    void stand_at(void const* p, state now) noexcept;
    /// Changes the live block at p to held, for the caller alone; false if no live block is at p.
    [[nodiscard]] bool claim(void const* p) noexcept;
    [[nodiscard]] bool has_state(state now) const noexcept;
    [[nodiscard]] bool may_merge() const noexcept { return has_state(state::free); }
    [[nodiscard]] bool is_hole() const noexcept { return has_state(state::hole); }
    [[nodiscard]] std::byte* end() const noexcept { return at() + size; }
    [[nodiscard]] bool is_whole_segment() const noexcept { return !before && !after; }
};
static_assert(sizeof(block) == 64);

void expect_use([[maybe_unused]] void const* line) noexcept;

/// Allocates records and notes in batches and reuses them; addresses are stable. Strong guarantee. Throws: std::bad_alloc.
class block_store {
public:
    block_store() = default;
    block_store(block_store const&) = delete;
    block_store& operator=(block_store const&) = delete;

    [[nodiscard]] block& make(std::byte* at, std::size_t size);
    /// Guarantees two calls of make.
    void reserve_two();
    void drop(block& b) noexcept;

    [[nodiscard]] block& operator[](std::uint32_t number) const noexcept;

    /// Guarantees one call of make_note.
    void reserve_note();
    /// Returns a note with values of the previous block.
    [[nodiscard]] block_metadata& make_note() noexcept;
    void drop_note(block_metadata& note) noexcept;

private:
    static constexpr std::size_t at_once = 128;

    void grow();
    void grow_notes();

    dynamic_array<light_unique_array<block>> chunks_;
    block* unused_ = nullptr;
    dynamic_array<light_unique_array<block_metadata>> note_chunks_;
    dynamic_array<block_metadata*> unused_notes_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uintptr_t block::word_for(void const* p, state now) noexcept {
    return reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(now);
}

CUOTA_INLINE std::byte* block::at() const noexcept {
    return reinterpret_cast<std::byte*>(word.load(std::memory_order_relaxed) & ~(granularity - 1));
}

CUOTA_INLINE void block::stand_at(void const* p, state now) noexcept {
    word.store(word_for(p, now), std::memory_order_release);
}

CUOTA_INLINE bool block::claim(void const* p) noexcept {
    // otherwise the low bits are read as another state
    if (reinterpret_cast<std::uintptr_t>(p) % granularity != 0) return false;
    std::uintptr_t expected = word_for(p, state::live);
    return word.load(std::memory_order_relaxed) == expected &&
           word.compare_exchange_strong(expected, word_for(p, state::in_transition),
                                        std::memory_order_acq_rel);
}

CUOTA_INLINE bool block::has_state(state now) const noexcept {
    return (word.load(std::memory_order_acquire) & (granularity - 1)) == static_cast<std::uintptr_t>(now);
}

CUOTA_INLINE void expect_use([[maybe_unused]] void const* line) noexcept {
#ifdef __GNUC__
    __builtin_prefetch(line, 1);
#endif
}

CUOTA_INLINE block& block_store::make(std::byte* at, std::size_t size) {
    if (!unused_) grow();
    block& made = *unused_;
    if ((unused_ = std::exchange(made.left, nullptr))) expect_use(unused_);
    made.size = size;
    made.stand_at(at, block::state::free);
    return made;
}

CUOTA_INLINE void block_store::reserve_two() {
    if (!unused_ || !unused_->left) grow();
}

CUOTA_INLINE void block_store::drop(block& b) noexcept {
    b.before = b.after = b.right = nullptr;
    b.waits = {};
    b.left = std::exchange(unused_, &b);
}

CUOTA_INLINE block& block_store::operator[](std::uint32_t number) const noexcept {
    return chunks_[number / at_once][number % at_once];
}

CUOTA_INLINE void block_store::reserve_note() {
    if (unused_notes_.empty()) grow_notes();
}

CUOTA_INLINE block_metadata& block_store::make_note() noexcept {
    block_metadata& made = *unused_notes_.back();
    unused_notes_.pop_back();
    if (!unused_notes_.empty()) expect_use(unused_notes_.back());
    return made;
}

CUOTA_INLINE void block_store::drop_note(block_metadata& note) noexcept {
    unused_notes_.push_back(&note);
    expect_use(&note);
}

CUOTA_INLINE void block_store::grow() {
    std::size_t const so_far = chunks_.size() * at_once;
    chunks_.push_back(light_unique_array<block>::make(at_once));
    for (std::size_t i = at_once; i-- != 0;) {
        block& b = chunks_.back()[i];
        b.mark = static_cast<std::uint32_t>(so_far + i);
        b.left = std::exchange(unused_, &b);
    }
}

CUOTA_INLINE void block_store::grow_notes() {
    std::size_t const in_all = (note_chunks_.size() + 1) * at_once;
    if (unused_notes_.capacity() < in_all)
        // so that drop_note never allocates
        unused_notes_.reserve(2 * in_all);
    note_chunks_.push_back(light_unique_array<block_metadata>::make(at_once));
    for (std::size_t i = at_once; i-- != 0;) unused_notes_.push_back(&note_chunks_.back()[i]);
}

}  // namespace cuota::inline v0::detail

#endif
