// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// When a pool divides mappings, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>
#include <cuota/pool/detail/growth/release_policy.hpp>

namespace cuota::inline v0::detail {

/// Whether a pool is fragmented: it exceeded its bound (pool_options::remap_above), and its free memory was in mappings that live blocks
/// keep. It divides mappings for some time after that (docs/design/growth.md). Requires the pool's lock.
class split_schedule {
public:
    /// The pool exceeds its bound. `freed`: the sum of the bytes of all frees so far; `peak`: the peak of live bytes.
    void note_excess(std::size_t freed, std::size_t peak) noexcept { until_ = freed + 4 * peak; }
    /// Whether the bound was ever exceeded.
    [[nodiscard]] bool is_fragmented() const noexcept { return until_ != 0; }
    /// Whether mappings are divided: until four times the peak was freed.
    [[nodiscard]] bool splits(std::size_t freed) const noexcept { return freed < until_; }

private:
    std::size_t until_ = 0;
};

/// A whole idle mapping to be mapped again as two, of `first` bytes and of the rest.
struct mapping_split {
    idle_memory whole;
    std::size_t first = 0;
};

/// Returns the mapping that a block of `size` bytes from one end of the free block `b` would share with free memory of at least a page,
/// if it lies in `b`; it is divided at the page boundary next to the block.
[[nodiscard]] std::optional<mapping_split> choose_split(block_index const& blocks, block& b, std::size_t size,
                                                        block_index::side from) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::optional<mapping_split> choose_split(block_index const& blocks, block& b, std::size_t size,
                                                       block_index::side from) noexcept {
    if (blocks.page() == 0 || b.size - size < blocks.page() || !blocks.is_paged(b.at())) return std::nullopt;
    bool const is_low = from == block_index::side::low;
    auto const edge = reinterpret_cast<std::uintptr_t>(is_low ? b.at() + size : b.end() - size);
    std::uintptr_t const at = is_low ? round_up(edge, blocks.page()) : round_down(edge, blocks.page());
    std::uintptr_t const begin = blocks.mappings().edge_up_to(at);
    std::uintptr_t const end = blocks.mappings().edge_from(at + 1);
    if (at == begin || begin < reinterpret_cast<std::uintptr_t>(b.at()) ||
        end > reinterpret_cast<std::uintptr_t>(b.end()))
        return std::nullopt;
    return mapping_split{{&b, reinterpret_cast<std::byte*>(begin), end - begin, true}, at - begin};
}

}  // namespace cuota::inline v0::detail

#endif
