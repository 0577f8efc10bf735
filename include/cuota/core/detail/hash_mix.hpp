// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// An integer mixing function.
#pragma once

#include <cstdint>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

/// Maps integers one-to-one to values that look random, also for equidistant arguments: the finalizer of SplitMix64 (Steele, Lea and Flood,
/// 2014). Maps 0 to 0.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t z) noexcept {
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
    return z ^ z >> 31;
}

}  // namespace cuota::inline v0::detail
