// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A run of bytes in a pool, free or live, and where its record is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/pool/wait_set.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

/// Who has a live block: what only its user, his front and reports look at, so that it does not stand between the
/// records of blocks, which are searched. A line of cache for each, since threads write their own without the lock.
struct alignas(64) block_note {
    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    tag name{};
    place where{};
    std::uint64_t stream = no_stream;  // the id of the stream that it belongs to, and that one's index
    std::uint32_t lane = 0;
    birth born{};
    bool keeps = false;  // the pool, for who has the block and no share of it
};

/// The record of a run of bytes inside one segment, or one range of pages: one line of cache, for a release looks at
/// four or five of them, and in a large pool none of those is at hand.
struct alignas(64) block {
    /// Multiples of it are what a pool deals in: what CUDA promises as alignment. Bytes.
    static constexpr std::size_t granule = default_alignment;

    /// Who may touch what: under the pool's lock everything, but a live block changes hands by its word, also without
    /// the lock, and who has made it `held` has to himself what was asked for, and the note. A `hole` has addresses, and
    /// no memory; one that is `growing` is about to get some.
    enum class state : std::uintptr_t { free, live, held, hole, growing };

    atomic<std::uintptr_t> word = 0;  // the address, and the state in its lowest bits
    std::size_t size = 0;
    block* before = nullptr;  // neighbours in the segment, or in the range of pages
    block* after = nullptr;
    [[no_unique_address]] wait_set waits{};  // free: what must be over before the bytes are used
    std::uint32_t mark =
        0;  // number, and in the highest bit keeps_stream; it lies in what the set leaves over
    union {
        block* left =
            nullptr;  // free: in its bin; a hole: among holes; in a front, or in no use: the next one like it
        std::size_t requested;  // live: what was asked for; growing: how much of it has memory
    };
    union {
        block* right = nullptr;  // free, a hole: as left
        block_note* note;        // live
    };

    [[nodiscard]] static std::uintptr_t word_for(void const* p, state now) noexcept;
    /// Of the record, in its store.
    [[nodiscard]] std::uint32_t number() const noexcept { return mark & ~stream_bit; }
    /// Live or held: its lane in the stream order is kept for it. Here, so that who keeps none does not look at the note.
    [[nodiscard]] bool keeps_stream() const noexcept { return (mark & stream_bit) != 0; }
    void keeps_stream(bool does) noexcept { mark = does ? mark | stream_bit : mark & ~stream_bit; }
    static constexpr std::uint32_t stream_bit = std::uint32_t{1} << 31;

    [[nodiscard]] std::byte* at() const noexcept;
    void become(state now) noexcept { stand_at(at(), now); }
    /// For who has it to himself.
    void stand_at(void const* p, state now) noexcept;
    /// Takes the live block that starts at p from everybody else; false when there is none. It is `held` then.
    [[nodiscard]] bool claim(void const* p) noexcept;
    [[nodiscard]] bool has_state(state now) const noexcept;
    [[nodiscard]] bool may_merge() const noexcept { return has_state(state::free); }
    [[nodiscard]] bool is_hole() const noexcept { return has_state(state::hole); }
    [[nodiscard]] std::byte* end() const noexcept { return at() + size; }
    [[nodiscard]] bool is_whole_segment() const noexcept { return !before && !after; }
};
static_assert(sizeof(block) == 64);

/// Tells the processor of a line that is about to be written: it is fetched beside what goes on.
void expect_use([[maybe_unused]] void const* line) noexcept;

/// Records of blocks and their notes, made by the hundred and used again. Their addresses stay; all go when the store
/// does.
class block_store {
public:
    block_store() = default;
    block_store(block_store const&) = delete;
    block_store& operator=(block_store const&) = delete;

    /// Throws: std::bad_alloc; unchanged then. Cost: a load, but for one in a hundred.
    [[nodiscard]] block& make(std::byte* at, std::size_t size);
    /// After it, two can be made. Throws: std::bad_alloc; unchanged then.
    void reserve_two();
    void drop(block& b) noexcept;

    /// The record of that number.
    [[nodiscard]] block& operator[](std::uint32_t number) const noexcept;

    /// After it, one note can be made. Throws: std::bad_alloc; unchanged then.
    void reserve_note();
    /// After reserve_note. What it says is of who had it last.
    [[nodiscard]] block_note& make_note() noexcept;
    void drop_note(block_note& note) noexcept;

private:
    static constexpr std::size_t at_once = 128;

    void grow();
    void grow_notes();

    dynamic_array<sole_array<block>> chunks_;
    block* unused_ = nullptr;
    dynamic_array<sole_array<block_note>> note_chunks_;
    dynamic_array<block_note*> unused_notes_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uintptr_t block::word_for(void const* p, state now) noexcept {
    return reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(now);
}

CUOTA_INLINE std::byte* block::at() const noexcept {
    return reinterpret_cast<std::byte*>(word.load(std::memory_order_relaxed) & ~(granule - 1));
}

CUOTA_INLINE void block::stand_at(void const* p, state now) noexcept {
    word.store(word_for(p, now), std::memory_order_release);
}

CUOTA_INLINE bool block::claim(void const* p) noexcept {
    if (reinterpret_cast<std::uintptr_t>(p) % granule != 0) return false;  // would read as another state
    std::uintptr_t expected = word_for(p, state::live);
    return word.load(std::memory_order_relaxed) == expected &&
           word.compare_exchange_strong(expected, word_for(p, state::held), std::memory_order_acq_rel);
}

CUOTA_INLINE bool block::has_state(state now) const noexcept {
    return (word.load(std::memory_order_acquire) & (granule - 1)) == static_cast<std::uintptr_t>(now);
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

CUOTA_INLINE block_note& block_store::make_note() noexcept {
    block_note& made = *unused_notes_.back();
    unused_notes_.pop_back();
    if (!unused_notes_.empty()) expect_use(unused_notes_.back());
    return made;
}

CUOTA_INLINE void block_store::drop_note(block_note& note) noexcept {
    unused_notes_.push_back(&note);
    expect_use(&note);
}

CUOTA_INLINE void block_store::grow() {
    std::size_t const so_far = chunks_.size() * at_once;
    chunks_.push_back(sole_array<block>::make(at_once));
    for (std::size_t i = at_once; i-- != 0;) {
        block& b = chunks_.back()[i];
        b.mark = static_cast<std::uint32_t>(so_far + i);
        b.left = std::exchange(unused_, &b);
    }
}

CUOTA_INLINE void block_store::grow_notes() {
    std::size_t const in_all = (note_chunks_.size() + 1) * at_once;
    if (unused_notes_.capacity() < in_all)
        unused_notes_.reserve(2 * in_all);  // none that comes back needs memory
    note_chunks_.push_back(sole_array<block_note>::make(at_once));
    for (std::size_t i = at_once; i-- != 0;) unused_notes_.push_back(&note_chunks_.back()[i]);
}

}  // namespace cuota::inline v0::detail

#endif
