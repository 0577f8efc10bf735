// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A parameter type for element counts.
#pragma once

#include <concepts>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// A number of elements, from any integer type except bool. The error for a negative count names the caller's line.
/// Throws:  usage_error.
/// Example: tests/core/element_count.cpp
class element_count {
public:
    /// Accepts integer types not wider than std::size_t; `where` is the caller's line.
    template <std::integral I>
        requires(!std::same_as<I, bool> && sizeof(I) <= sizeof(std::size_t))  //
    constexpr element_count(I count, source_location where = source_location::current())
        : value_{static_cast<std::size_t>(count)} {
        if constexpr (std::signed_integral<I>)
            if (count < 0) refuse(static_cast<long long>(count), where);
    }
    constexpr operator std::size_t() const noexcept { return value_; }  ///< number of elements

private:
    [[noreturn, gnu::cold]] static void refuse(long long count, source_location where);
    std::size_t value_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE void element_count::refuse(long long count, source_location where) {
    detail::throw_usage_error(where, "element count is negative: {}", {count});
}

}  // namespace cuota::inline v0

#endif
