// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Static objects that other objects still use during exit.
#pragma once

#include <type_traits>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

/// Storage of a static object that is never destroyed. Unlike `*new T` it needs no host memory: noexcept functions can initialize it.
template <class T>
union never_destroyed {
    template <class... Args>
    explicit never_destroyed(Args const&... args) noexcept(std::is_nothrow_constructible_v<T, Args const&...>)
        : value{args...} {}
    ~never_destroyed() {}
    T value;
};

}  // namespace cuota::inline v0::detail
