// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One RAII template for every native handle.
#pragma once

#include <utility>

#include <cuota/version.hpp>

namespace cuota::inline v0 {

/// Owns a native handle as `Traits` describes it: `type`, `none()`, `close(type) noexcept`.
///
/// Move-only; moved-from is empty. `close` reports its own failures: nobody can catch them here.
/// Threads: one at a time. Cost: none beside the handle's own. Example: tests/core/handle.cpp
template <class Traits>
class unique_handle {
public:
    using native = typename Traits::type;  ///< what is owned; compared and copied for nothing

    unique_handle() noexcept = default;
    explicit unique_handle(native handle) noexcept : handle_{handle} {}          ///< from now on its owner
    unique_handle(unique_handle&& other) noexcept : handle_{other.release()} {}  ///< takes it over
    /// Takes it over, and closes what was owned before.
    unique_handle& operator=(unique_handle&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~unique_handle() { reset(); }

    [[nodiscard]] native get() const noexcept { return handle_; }  ///< `none()` when empty
    /// Gives it up: the caller's to close. Empty after.
    [[nodiscard]] native release() noexcept {
        native const had = handle_;
        handle_ = Traits::none();
        return had;
    }
    /// Owns `handle` now, and closes what it owned before, unless that is the same.
    void reset(native handle = Traits::none()) noexcept {
        native const old = handle_;
        handle_ = handle;
        if (old != Traits::none() && old != handle) Traits::close(old);
    }
    explicit operator bool() const noexcept { return handle_ != Traits::none(); }  ///< false when empty

private:
    native handle_ = Traits::none();
};

}  // namespace cuota::inline v0
