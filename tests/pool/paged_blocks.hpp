// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Blocks at addresses that are not backed by memory, for tests that use only their records.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/bytes.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>

#include "support/catch.hpp"

namespace pool_tests {

[[nodiscard]] inline std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>((std::uintptr_t{1} << 40) + offset);
}
[[nodiscard]] inline std::size_t offset_of(cuota::detail::block const& b) {
    return static_cast<std::size_t>(b.at() - address(0));
}

/// The pages of a range at address(0). Pages that were not mapped are holes.
struct paged_blocks {
    using block = cuota::detail::block;

    static constexpr std::size_t page = std::size_t{2} << 20;

    explicit paged_blocks(std::size_t count) { index.add_range(address(0), count * page, page); }

    /// Maps [from, until) as free memory, in mappings of at most `largest` bytes.
    void map(std::size_t from, std::size_t until, std::size_t largest = page) {
        block* at = nullptr;
        index.for_each_hole([&](block& hole) {
            if (hole.at() <= address(from) && address(until) <= hole.end()) at = &hole;
        });
        REQUIRE(at);
        block& held = index.hold_window(*at, address(from), address(until));
        index.join_window(held, address(until), {page, largest, 1, cuota::unlimited}, {});
    }
    /// Allocates `bytes` bytes at an offset inside a free block.
    block& take(std::size_t from, std::size_t bytes) {
        block* at = nullptr;
        index.for_each_free([&](block& b) {
            if (b.at() <= address(from) && address(from) < b.end()) at = &b;
        });
        REQUIRE(at);
        if (at->at() != address(from)) {  // the part before it is freed again
            block& before = index.take(*at, static_cast<std::size_t>(address(from) - at->at()), 0, {});
            block& taken = take(from, bytes);
            index.release(before, {});
            return taken;
        }
        return index.take(*at, bytes, bytes, {});
    }

    cuota::detail::block_index index;
};

}  // namespace pool_tests
