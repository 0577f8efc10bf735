// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A std::stop_token for files that have none: they need not read what it comes with.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0 {

/// Another thread's wish that something end: what takes one takes a std::stop_token, or {} for nobody's.
///
/// Copies ask the same std::stop_source. Threads: as std::stop_token. Cost: that of the token; nothing is allocated.
/// Example: loader.epoch(0, stop.get_token());
class stop_signal {
public:
    stop_signal() noexcept;                       ///< nobody's: it never comes
    stop_signal(std::stop_token token) noexcept;  ///< the wish of who has the token's source
    stop_signal(
        stop_signal const& other) noexcept;  ///< of the same source, which a move leaves to the other as well
    stop_signal& operator=(stop_signal const&) noexcept;  ///< of the same source
    ~stop_signal();

    [[nodiscard]] std::stop_token const& token() const noexcept;  ///< for who waits
    [[nodiscard]] bool stop_requested() const noexcept;           ///< it has come

private:
    // A token is one pointer, counted; its type is not complete here.
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
