// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A run of bytes in a pool, free or live, and where its record is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/pool/wait_set.hpp>

namespace cuota::inline v0::detail {

/// The record of a run of bytes inside one segment, or one range of pages. A free block needs the first half of it, a
/// live one the second.
struct alignas(128) block {
    /// Multiples of it are what a pool deals in: what CUDA promises as alignment. Bytes.
    static constexpr std::size_t granule = 256;

    /// Who may touch what: under the pool's lock everything, but a live block changes hands by its word, also without
    /// the lock, and who has made it `held` has the second half to himself. A `hole` has addresses, and no memory; one
    /// that is `growing` is about to get some.
    enum class state : std::uintptr_t { free, live, held, hole, growing };

    std::byte* at = nullptr;
    std::size_t size = 0;
    block* before = nullptr;  // neighbours in the segment, or in the range of pages
    block* after = nullptr;
    block* left =
        nullptr;  // while free: in its bin; a hole: among holes; while there is no such block: the next record of that kind
    block* right = nullptr;
    wait_set waits{};  // while free: what must be over before the bytes are used

    atomic<std::uintptr_t> word = 0;  // the address, and the state in its lowest bits
    std::size_t requested = 0;        // what was asked for
    tag name{};
    place where{};
    std::uint64_t stream = no_stream;  // the id of the stream that it belongs to, and that one's index
    std::uint32_t lane = 0;
    birth born{};
    block* next = nullptr;  // while held ready: the next one like it

    static constexpr std::uint64_t no_stream = ~std::uint64_t{0};

    [[nodiscard]] static std::uintptr_t word_for(void const* p, state now) noexcept {
        return reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(now);
    }
    void become(state now) noexcept { word.store(word_for(at, now), std::memory_order_release); }
    /// Takes the live block that starts at p from everybody else; false when there is none. It is `held` then.
    [[nodiscard]] bool claim(void const* p) noexcept {
        if (reinterpret_cast<std::uintptr_t>(p) % granule != 0) return false;  // would read as another state
        std::uintptr_t expected = word_for(p, state::live);
        return word.load(std::memory_order_relaxed) == expected &&
               word.compare_exchange_strong(expected, word_for(p, state::held), std::memory_order_acq_rel);
    }
    [[nodiscard]] bool has_state(state now) const noexcept {
        return (word.load(std::memory_order_acquire) & (granule - 1)) == static_cast<std::uintptr_t>(now);
    }
    [[nodiscard]] bool may_merge() const noexcept { return has_state(state::free); }
    [[nodiscard]] bool is_hole() const noexcept { return has_state(state::hole); }
    [[nodiscard]] std::byte* end() const noexcept { return at + size; }
    [[nodiscard]] bool is_whole_segment() const noexcept { return !before && !after; }
};
static_assert(sizeof(block) == 128);

/// Records of blocks, made by the hundred and used again. Their addresses stay; all go when the store does.
class block_store {
public:
    block_store() = default;
    block_store(block_store const&) = delete;
    block_store& operator=(block_store const&) = delete;

    /// Throws: std::bad_alloc; unchanged then. Cost: a load, but for one in a hundred.
    [[nodiscard]] block& make(std::byte* at, std::size_t size) {
        if (!unused_) grow();
        block& made = *unused_;
        unused_ = made.left;
        made.left = nullptr;
        made.at = at;
        made.size = size;
        made.become(block::state::free);
        return made;
    }
    /// After it, two can be made. Throws: std::bad_alloc; unchanged then.
    void reserve_two() {
        if (!unused_ || !unused_->left) grow();
    }
    void drop(block& b) noexcept {
        b.before = b.after = b.right = nullptr;
        b.waits = {};
        b.left = std::exchange(unused_, &b);
    }

private:
    static constexpr std::size_t at_once = 128;

    void grow() {
        chunks_.push_back(std::make_unique<block[]>(at_once));
        for (std::size_t i = at_once; i-- != 0;)
            chunks_.back()[i].left = std::exchange(unused_, &chunks_.back()[i]);
    }

    std::vector<std::unique_ptr<block[]>> chunks_;
    block* unused_ = nullptr;
};

}  // namespace cuota::inline v0::detail
