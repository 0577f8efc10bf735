// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A vector of copied elements.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>

namespace cuota::inline v0::detail {

/// Returns n elements filled by copy(span). std::vector<bool> has no array.
template <class T, class Copy>
[[nodiscard]] std::vector<T> filled_vector(std::size_t n, Copy const& copy) {
    if constexpr (std::is_same_v<T, bool>) {
        auto const host = light_unique_array<bool>::make(n);
        copy(std::span<bool>{host.get(), n});
        return std::vector<bool>(host.get(), host.get() + n);
    } else {
        std::vector<T> host(n);
        copy(std::span<T>{host});
        return host;
    }
}

}  // namespace cuota::inline v0::detail
