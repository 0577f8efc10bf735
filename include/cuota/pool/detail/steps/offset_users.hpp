// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The users of offsets that are known in advance.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0::detail {

/// A hash table that never grows. Not thread-safe.
class offset_users {
public:
    using user = std::uint32_t;
    static constexpr user no_user = std::numeric_limits<user>::max();

    /// Throws: std::bad_alloc.
    explicit offset_users(std::size_t offsets) : spots_(std::bit_ceil(2 * offsets + 1)) {}

    /// Adds an offset, if new; returns its index for `set`.
    [[nodiscard]] std::uint32_t enter(std::size_t offset) noexcept;
    void set(std::uint32_t at, user who) noexcept { spots_[at].who = who; }
    [[nodiscard]] user of(std::size_t offset) const noexcept { return spots_[find(offset)].who; }

private:
    struct spot {
        std::size_t offset = unlimited;
        user who = no_user;
    };

    [[nodiscard]] std::size_t find(std::size_t offset) const noexcept;

    std::vector<spot> spots_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint32_t offset_users::enter(std::size_t offset) noexcept {
    std::size_t const at = find(offset);
    spots_[at].offset = offset;
    return static_cast<std::uint32_t>(at);
}

CUOTA_INLINE std::size_t offset_users::find(std::size_t offset) const noexcept {
    std::size_t const mask = spots_.size() - 1;
    std::size_t at = (offset / block::granularity * 0x9e37'79b9'7f4a'7c15U >> 32) & mask;
    while (spots_[at].offset != offset && spots_[at].offset != unlimited) at = (at + 1) & mask;
    return at;
}

}  // namespace cuota::inline v0::detail

#endif
