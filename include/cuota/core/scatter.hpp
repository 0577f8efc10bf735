// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers without a pattern made of numbers that have one.
#pragma once

#include <cstdint>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

/// A one-to-one function whose results look random also for arguments at regular distances, as those of one
/// multiplication do not: the last steps of SplitMix64 (Steele, Lea and Flood, 2014). 0 stays 0.
[[nodiscard]] constexpr std::uint64_t scatter(std::uint64_t z) noexcept {
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
    return z ^ z >> 31;
}

}  // namespace cuota::inline v0::detail
