// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A RAII template for native handles.
#pragma once

#include <utility>

#include <cuota/version.hpp>

namespace cuota::inline v0 {

/// Owns a native handle described by `Traits`: `type`, `none()`, `close(type) noexcept`, which reports its own failures. Move-only; empty
/// after a move.
/// Threads: one at a time. Example: tests/core/unique_handle.cpp
template <class Traits>
class unique_handle {
public:
    using native = typename Traits::type;  ///< cheap to compare and to copy

    unique_handle() noexcept = default;
    explicit unique_handle(native handle) noexcept : handle_{handle} {}  ///< takes ownership
    /// Transfers ownership.
    unique_handle(unique_handle&& other) noexcept : handle_{other.release()} {}
    /// Closes the current handle and transfers ownership.
    unique_handle& operator=(unique_handle&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~unique_handle() { reset(); }

    [[nodiscard]] native get() const noexcept { return handle_; }  ///< `none()` if empty
    /// Passes ownership to the caller; the object is empty afterwards.
    [[nodiscard]] native release() noexcept {
        native const had = handle_;
        handle_ = Traits::none();
        return had;
    }
    /// Takes ownership of `handle` and closes the previous one, unless they are equal.
    void reset(native handle = Traits::none()) noexcept {
        native const old = handle_;
        handle_ = handle;
        if (old != Traits::none() && old != handle) Traits::close(old);
    }
    explicit operator bool() const noexcept { return handle_ != Traits::none(); }  ///< false if empty

private:
    native handle_ = Traits::none();
};

}  // namespace cuota::inline v0
