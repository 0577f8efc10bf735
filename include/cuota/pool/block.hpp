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
#include <cuota/pool/wait_set.hpp>

namespace cuota::inline v0::detail {

/// The record of a run of bytes inside one segment. The first line is what a free block needs, the second a live one.
struct alignas(128) block {
    /// Multiples of it are what a pool deals in: what CUDA promises as alignment. Bytes.
    static constexpr std::size_t granule = 256;

    std::byte* at = nullptr;
    std::size_t size = 0;
    block* before = nullptr;  // neighbours in the segment
    block* after = nullptr;
    block* left =
        nullptr;  // while free: in its bin; while there is no such block: the next record of that kind
    block* right = nullptr;
    bool is_live = false;

    std::size_t requested = 0;  // while live: what was asked for
    tag name{};
    place where{};
    wait_set waits{};  // while free: what must be over before the bytes are used

    [[nodiscard]] bool is_free() const noexcept { return !is_live; }
    [[nodiscard]] bool is_whole_segment() const noexcept { return !before && !after; }
    [[nodiscard]] std::byte* end() const noexcept { return at + size; }
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
        return made;
    }
    void drop(block& b) noexcept {
        b = {};
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
