// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A std::stop_token for headers that do not include `stop_token`.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0 {

/// A std::stop_token, or {} for "never". Copies refer to the same std::stop_source.
/// Threads: like std::stop_token. Cost: nothing is allocated.
/// Example: loader.epoch(0, stop.get_token());
class stop_signal {
public:
    stop_signal() noexcept;                               ///< never requests a stop
    stop_signal(std::stop_token token) noexcept;          ///< follows the token's source
    stop_signal(stop_signal const& other) noexcept;       ///< same source; a move copies
    stop_signal& operator=(stop_signal const&) noexcept;  ///< same source
    ~stop_signal();

    [[nodiscard]] std::stop_token const& token() const noexcept;  ///< the wrapped token
    [[nodiscard]] bool stop_requested() const noexcept;           ///< whether a stop was requested

private:
    // A token is one reference-counted pointer; its type is incomplete here.
    alignas(void*) std::byte token_[sizeof(void*)];
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <new>
#include <stop_token>
#include <utility>

namespace cuota::inline v0 {

static_assert(sizeof(std::stop_token) == sizeof(void*) && alignof(std::stop_token) == alignof(void*));

CUOTA_INLINE stop_signal::stop_signal() noexcept : stop_signal{std::stop_token{}} {}

CUOTA_INLINE stop_signal::stop_signal(std::stop_token token) noexcept {
    ::new (static_cast<void*>(token_)) std::stop_token{std::move(token)};
}

CUOTA_INLINE stop_signal::stop_signal(stop_signal const& other) noexcept : stop_signal{other.token()} {}

CUOTA_INLINE stop_signal& stop_signal::operator=(stop_signal const& other) noexcept {
    if (this != &other) *std::launder(reinterpret_cast<std::stop_token*>(token_)) = other.token();
    return *this;
}

CUOTA_INLINE stop_signal::~stop_signal() { token().~stop_token(); }

CUOTA_INLINE std::stop_token const& stop_signal::token() const noexcept {
    return *std::launder(reinterpret_cast<std::stop_token const*>(token_));
}

CUOTA_INLINE bool stop_signal::stop_requested() const noexcept { return token().stop_requested(); }

}  // namespace cuota::inline v0

#endif
